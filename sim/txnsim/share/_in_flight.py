"""The records of a share partition that are in flight, between its start and its end offset.

Batches are in the order of their offsets. ``start_offset`` moves past records whose delivery is
complete. ``end_offset`` is the last offset that was ever acquired, or the next one while nothing is
in flight. Offsets in between may belong to no batch: either the log has none there, or the state
from the share coordinator leaves them out (``gap``), and then they must still be delivered.

Kafka's counterpart: the offsets and ``cachedState`` of SharePartition.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator

import msgspec

from txnsim.share._in_flight_state import InFlightBatch, InFlightState
from txnsim.share._locks import LockDeadline, LockDeadlines
from txnsim.share.commands import TERMINAL, RecordState, SharePartitionSettings


class OffsetGap(msgspec.Struct, frozen=True, gc=False):
    """Offsets that the persisted state leaves out, from ``start_offset`` on (GapWindow).

    The gap is valid as long as the end offset is still the one of that state.
    """

    start_offset: int
    end_offset: int


class InFlightBatches:
    """Batches in flight, with the offsets around them."""

    __slots__ = (
        "_added",
        "_batches",
        "_firsts",
        "delivery_complete_count",
        "end_offset",
        "gap",
        "locks",
        "needs_next_offset",
        "start_offset",
    )

    def __init__(self, on_batch_added: Callable[[int], object] = abs) -> None:
        """Start without records in flight.

        Args:
            on_batch_added: Called with the size of each new batch.
        """
        self._added = on_batch_added
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []
        self.start_offset = 0
        self.end_offset = 0
        self.gap: OffsetGap | None = None
        self.needs_next_offset = False
        """Whether records below the end offset may be available (findNextFetchOffset)."""
        self.delivery_complete_count = 0
        """Number of offsets from the start offset on whose delivery is complete."""
        self.locks = LockDeadlines()

    # Batches

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, *states: InFlightState) -> None:
        """Add a new batch with these states."""
        batch = InFlightBatch(*states)
        batch_index = bisect_left(self._firsts, batch.first_offset)
        assert batch.first_offset not in self._firsts[batch_index : batch_index + 1]
        self._firsts.insert(batch_index, batch.first_offset)
        self._batches.insert(batch_index, batch)
        self._added(batch.size)

    @property
    def first_batch(self) -> InFlightBatch:
        return self._batches[0]

    @property
    def last_batch(self) -> InFlightBatch:
        return self._batches[-1]

    def floor_batch(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or below this offset."""
        batch_index = bisect_right(self._firsts, offset)
        return self._batches[batch_index - 1] if batch_index else None

    def batches_between(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches that begin in this range."""
        start_index = bisect_left(self._firsts, first_offset)
        return self._batches[start_index : bisect_right(self._firsts, last_offset, lo=start_index)]

    def batches_from_floor(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches from the one that begins at or below the first offset, up to the last offset;
        empty if there is no such batch.
        """
        floor_batch = self.floor_batch(first_offset)
        return (
            []
            if floor_batch is None
            else self.batches_between(floor_batch.first_offset, last_offset)
        )

    def states(self, first_offset: int, last_offset: int) -> Iterator[InFlightState]:
        """The states that contain a record of this range."""
        start_index = max(bisect_right(self._firsts, first_offset) - 1, 0)
        for batch in self._batches[
            start_index : bisect_right(self._firsts, last_offset, lo=start_index)
        ]:
            yield from batch.states_within(first_offset, last_offset)

    # Counts

    @property
    def offset_count(self) -> int:
        """Number of offsets in flight, including gaps."""
        return self.end_offset - self.start_offset + 1 if self._batches else 0

    def count_from_start(self, first_offset: int, last_offset: int) -> int:
        """Number of offsets of this range that are not below the start offset."""
        return max(last_offset - max(self.start_offset, first_offset) + 1, 0)

    # What to read next

    @property
    def gap_start(self) -> int | None:
        """First offset of the gap that must still be delivered; None if there is no gap."""
        gap = self.gap
        return gap.start_offset if gap and gap.end_offset == self.end_offset else None

    def move_gap(self, offset: int) -> None:
        """Shorten the gap after everything below ``offset`` was acquired."""
        if self.gap is None:
            return
        is_within = self.gap.end_offset == self.end_offset and offset <= self.gap.end_offset
        self.gap = OffsetGap(offset, self.gap.end_offset) if is_within else None

    def next_fetch_offset(self) -> int:
        """The first offset to acquire: in flight and available, in a gap, or new."""
        offset = self._available_offset()
        self.needs_next_offset = offset is not None
        return self._end_of_acquired if offset is None else offset

    @property
    def next_offset(self) -> int:
        """The same as ``next_fetch_offset``, without changing anything."""
        offset = self._available_offset()
        return self._end_of_acquired if offset is None else offset

    @property
    def _is_empty(self) -> bool:
        return not self._batches or self.start_offset > self.last_batch.last_offset

    @property
    def _end_of_acquired(self) -> int:
        """The first offset that was never acquired."""
        return self.end_offset if self._is_empty else self.end_offset + 1

    def _available_offset(self) -> int | None:
        """The first offset that is in flight and available, or in a gap; None if there is none."""
        if not self.needs_next_offset or self._is_empty:
            return None
        gap_start = self.gap_start
        for batch in self._batches:
            if gap_start is not None:
                if batch.first_offset > gap_start:
                    return gap_start
                gap_start = max(batch.last_offset + 1, gap_start)
            for state in batch.states:
                if state.is_acquirable:
                    return state.first_offset
        return None

    # Locks

    def lock(self, state: InFlightState, deadline_ms: int) -> None:
        """Lock acquired records until the deadline; an earlier lock of theirs no longer counts."""
        state.lock_deadline_ms = deadline_ms
        self.locks.add(LockDeadline(deadline_ms, state.first_offset, state.last_offset))
        if self.locks.needs_cleanup:
            self.locks.keep_valid(self._is_lock_valid)

    def _is_lock_valid(self, lock_deadline: LockDeadline) -> bool:
        return lock_deadline.is_stray or any(
            state.lock_deadline_ms == lock_deadline.deadline_ms
            for state in self.states(lock_deadline.first_offset, lock_deadline.last_offset)
        )

    def split_at_start(self, batch: InFlightBatch) -> None:
        """Split a batch of acquired records at the start offset, because the two parts go different
        ways.
        """
        if (
            not batch.is_by_offset
            and batch.states[0].state is RecordState.ACQUIRED
            and batch.first_offset < self.start_offset <= batch.last_offset
        ):
            batch.is_by_offset = True
        if batch.is_by_offset:
            batch.cut_states(self.start_offset, batch.last_offset)

    def give_back(
        self, state: InFlightState, settings: SharePartitionSettings, token: int | None = None
    ) -> None:
        """Make acquired records available again; archive them if they are below the start offset.

        With a token, the change waits for that write; without one, it is final at once.
        """
        is_below_start = state.last_offset < self.start_offset
        state_after = RecordState.ARCHIVED if is_below_start else RecordState.AVAILABLE
        state.move(state_after, settings, token=token)
        if state.state in TERMINAL:
            self.delivery_complete_count += self.count_from_start(
                state.first_offset, state.last_offset
            )

    # Records that are gone

    def archive(
        self,
        batches: Iterable[InFlightBatch],
        first_offset: int,
        last_offset: int,
        state: RecordState,
        *,
        is_counted: bool = True,
    ) -> bool:
        """Archive those records of this range that are in the given state; returns whether there
        were any.
        """
        has_archived = False
        for batch in batches:
            if batch.first_offset > last_offset:
                break
            if batch.first_offset < first_offset or batch.last_offset > last_offset:
                if not batch.is_by_offset:
                    if batch.states[0].state is not state:
                        continue
                    # As in Kafka: a release that is being persisted is forgotten, its lock is not.
                    batch.states[0].transition = None
                batch.is_by_offset = True
            for in_flight_state in batch.states_within(first_offset, last_offset):
                if in_flight_state.state is not state:
                    continue
                part_start = max(in_flight_state.first_offset, first_offset)
                for archived_state in batch.cut_states(
                    part_start, min(in_flight_state.last_offset, last_offset)
                ):
                    archived_state.archive()
                    if is_counted:
                        self.delivery_complete_count += (
                            archived_state.last_offset - archived_state.first_offset + 1
                        )
                has_archived = True
        return has_archived

    def move_log_start(self, offset: int, *, moves_gap: bool) -> None:
        """Move the start offset to the log's new start. Acquired records below stay acquired until
        they are given back. A gap below stays, too, unless ``moves_gap`` is set: then no read gets
        past it any more.

        Counterpart: SharePartition.updateCacheAndOffsets.
        """
        if moves_gap and self.gap is not None and self.gap.start_offset < offset:
            self.move_gap(offset)
        if offset <= self.start_offset:
            return
        if not self._batches:
            self.start_offset = self.end_offset = offset
            self.delivery_complete_count = 0
            return
        complete_count = sum(
            self.count_from_start(state.first_offset, min(state.last_offset, offset - 1))
            for state in self.states(self.start_offset, offset - 1)
            if state.state in TERMINAL
        )
        has_archived = self.archive(
            self._batches, self.start_offset, offset - 1, RecordState.AVAILABLE, is_counted=False
        )
        self.needs_next_offset = self.needs_next_offset or has_archived
        self.start_offset = offset
        self.delivery_complete_count -= complete_count
        self.end_offset = max(self.end_offset, offset)

    # The start offset

    def move_start(self) -> bool | None:
        """Move the start offset past records whose delivery is complete; returns whether it has
        moved.

        Returns None where Kafka fails with a null pointer: the batch below the start offset ends
        before it, and its records have states of their own. Counterpart:
        SharePartition.maybeUpdateCachedStateAndOffsets.
        """
        batch = self.floor_batch(self.start_offset)
        if batch is None:  # a gap that can still be acquired
            return False
        states_at_start = batch.states
        if batch.is_by_offset:
            states_at_start = batch.states_within(self.start_offset, self.start_offset)
        if not states_at_start:
            return None
        if not states_at_start[0].is_complete:
            return False
        complete_end, complete_count = self._complete_from_first()
        if complete_end is None:
            return False
        if complete_end == self.last_batch.last_offset:
            self.start_offset = self.end_offset = complete_end + 1
            self._firsts.clear()
            self._batches.clear()
            self.delivery_complete_count = 0
            return True
        index = bisect_right(self._firsts, complete_end) - 1
        if complete_end == self._batches[index].last_offset:
            index += 1
            self.start_offset = max(self.start_offset, self._firsts[index])
            if (gap_start := self.gap_start) is not None:
                self.start_offset = min(self.start_offset, gap_start)
        else:
            self.start_offset = max(self.start_offset, complete_end + 1)
        self.delivery_complete_count -= complete_count
        del self._firsts[:index]
        del self._batches[:index]
        return True

    def _complete_from_first(self) -> tuple[int | None, int]:
        """(last offset of the complete records without a gap from the first batch on, number of
        them that are not below the start offset).
        """
        complete_end, complete_count = None, 0
        gap_start = self.gap_start
        for batch in self._batches:
            if gap_start is not None and batch.last_offset >= gap_start:
                break
            for state in batch.states:
                if not state.is_complete:
                    return complete_end, complete_count
                complete_end = state.last_offset
                complete_count += self.count_from_start(state.first_offset, state.last_offset)
        return complete_end, complete_count
