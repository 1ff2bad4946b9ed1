"""Decides which of the records that were read a member acquires.

Records in flight that are available again come first, by batch or by record, then new ones. A batch
of the log is given as a whole, even beyond the limits, unless the member wants the limit to be
strict. From half of the delivery count limit on, fewer and fewer records are delivered at a time,
in the end one: a record that kills its consumer should not affect others. Records of aborted
transactions are archived.

Kafka's counterparts: SharePartition.acquire, acquireNewBatchRecords, createBatches,
acquireSubsetBatchRecords, filterAbortedTransactionalAcquiredRecords.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from txnsim.errors import ErrorCode, Rejection
from txnsim.share._in_flight import InFlight
from txnsim.share._in_flight_state import InFlightBatch, InFlightState
from txnsim.share._locks import LockDeadline
from txnsim.share.commands import (
    AbortedRange,
    Acquire,
    Acquired,
    AcquiredRange,
    AcquireMode,
    ReadBatch,
    RecordState,
    SharePartitionSettings,
)

_NOTHING = Acquired()
_ALONE_ABOVE = 2
"""If the delivery count limit is higher, a record is delivered alone the last time."""


def acquire(
    records: InFlight, command: Acquire, settings: SharePartitionSettings, now_ms: int
) -> Acquired | Rejection:
    """Acquire as many records as possible of the batches that were read."""
    if command.max_records <= 0 or not command.batches:
        return _NOTHING
    last_offset = command.batches[-1].last_offset
    if last_offset < records.start_offset:
        return _NOTHING
    remaining = min(command.max_records, settings.max_record_locks - records.number)
    if remaining <= 0 and command.fetch_offset <= records.end_offset:
        # No lock is left for new records. Those in flight have theirs.
        remaining = min(command.max_records, records.end_offset - command.fetch_offset + 1)
        last_offset = min(last_offset, records.end_offset)
    if remaining <= 0:
        return _NOTHING
    acquisition = _Acquisition(records, command, settings, now_ms, remaining)
    refused = acquisition.take(last_offset)
    if refused is not None:
        return refused
    ranges = acquisition.ranges
    if not command.aborted or not ranges:
        return Acquired(ranges=tuple(ranges), count=acquisition.count)
    return _archive_aborted(records, command, ranges)


@dataclass(slots=True)
class _Acquisition:
    """The acquisition of records by one member."""

    _records: InFlight
    _command: Acquire
    _settings: SharePartitionSettings
    _now_ms: int
    _remaining: int
    """Number of records that may still be acquired; negative if a batch was given beyond the
    limit.
    """
    ranges: list[AcquiredRange] = field(default_factory=list)
    count: int = 0

    @property
    def _is_strict(self) -> bool:
        return self._command.mode is AcquireMode.RECORD_LIMIT

    def _lock(self, state: InFlightState) -> None:
        self._records.lock(state, self._now_ms + self._settings.record_lock_duration_ms)

    def take(self, last_offset: int) -> Rejection | None:
        """Acquire records from the first batch that was read up to ``last_offset``."""
        records = self._records
        read_from = self._command.batches[0].base_offset
        first_offset = read_from
        _archive_cleaned(records, self._command.fetch_offset, read_from)
        floor = records.floor(first_offset)
        if floor is None:
            first_offset = max(first_offset, records.start_offset)
        elif floor.last_offset >= first_offset:
            first_offset = floor.first_offset
        lowest = min(read_from, first_offset)
        if lowest > last_offset:
            # The records to fetch are cleaned away, and no lock is left for later records:
            # Kafka asks its map for a range that ends before it begins.
            return Rejection(error=ErrorCode.unknown_server_error, reason="inconsistent range")
        batches = records.between(lowest, last_offset)
        if not batches:
            self._take_new(first_offset, last_offset)
            return None
        is_throttled = self._take_in_flight(batches, first_offset, last_offset)
        if isinstance(is_throttled, Rejection):
            return is_throttled
        next_offset = batches[-1].last_offset + 1
        if not is_throttled and self._remaining > 0 and next_offset <= last_offset:
            self._take_new(next_offset, last_offset)
        if self.ranges:
            records.move_gap(self.ranges[-1].last_offset + 1)
        return None

    def _take_in_flight(
        self, batches: Sequence[InFlightBatch], gap_from: int, last_offset: int
    ) -> bool | Rejection:
        """Acquire available records in flight, and new records between them. Return whether
        throttling ends the acquisition.
        """
        read_from = self._command.batches[0].base_offset
        limit = self._settings.throttled_from
        for batch in batches:
            if self._remaining <= 0:
                break
            if self._records.gap_start is not None:
                if gap_from < batch.first_offset:
                    self._take_new(gap_from, batch.first_offset - 1)
                gap_from = batch.last_offset + 1
                if self._remaining <= 0:
                    break
            looked_at = batch.states
            if batch.is_by_offset:
                looked_at = batch.within(read_from, last_offset)
            available = [state for state in looked_at if state.is_acquirable]
            is_throttled = any(state.delivery_count >= limit for state in available)
            if is_throttled and self.count:
                return True
            is_within = read_from <= batch.first_offset and batch.last_offset <= last_offset
            is_too_large = self._is_strict and batch.size > self._remaining
            if is_within and not batch.is_by_offset and not is_too_large and not is_throttled:
                for state in available:
                    self._take(state)
            elif available:
                batch.is_by_offset = True
                refused = self._take_by_offset(batch, read_from, last_offset)
                if refused is not None:
                    return refused
                if is_throttled:
                    return True
        return False

    def _take(self, state: InFlightState) -> None:
        state.move(RecordState.ACQUIRED, self._settings, member_id=self._command.member_id)
        self._lock(state)
        size = state.last_offset - state.first_offset + 1
        self.count += size
        self._remaining -= size
        self.ranges.append(
            AcquiredRange(state.first_offset, state.last_offset, state.delivery_count)
        )

    def _take_by_offset(
        self, batch: InFlightBatch, first_offset: int, last_offset: int
    ) -> Rejection | None:
        """Acquire available records of this batch, fewer of them if they were delivered often."""
        delivery_limit = self._settings.delivery_count_limit
        strict_limit = self._remaining
        throttle: int | None = None
        taken_count = 0
        begin = len(self.ranges)
        for state in batch.within(first_offset, last_offset):
            if not state.is_acquirable:
                continue
            delivered = state.delivery_count
            is_last = delivery_limit > _ALONE_ABOVE and delivered == delivery_limit - 1
            if is_last and taken_count:
                break
            beyond = delivered - self._settings.throttled_from
            if beyond >= 0 and throttle is None:
                throttle = max(1, batch.size >> (beyond + 1))
            part_start = max(state.first_offset, first_offset)
            number = 1 if is_last else min(state.last_offset, last_offset) - part_start + 1
            if self._is_strict:
                number = min(number, strict_limit - taken_count)
            if throttle is not None and throttle > taken_count:
                number = min(number, throttle - taken_count)
            if state.lock_deadline_ms is not None:
                return self._stumble(batch, part_start)
            for part in batch.cut(part_start, part_start + number - 1):
                self._take(part)
            taken_count += number
            if (
                is_last
                or taken_count == throttle
                or (self._is_strict and taken_count == strict_limit)
            ):
                break
        self.ranges[begin:] = _join_ranges(self.ranges[begin:])
        return None

    def _stumble(self, batch: InFlightBatch, offset: int) -> Rejection:
        """The error for a record that is available and still has a lock: its batch was split while
        the record was being released.

        Kafka acquires the record, starts the timeout of another lock, and fails because of the
        existing one.
        """
        deadline_ms = self._now_ms + self._settings.record_lock_duration_ms
        self._records.locks.add(LockDeadline(deadline_ms, offset, offset, is_stray=True))
        for state in batch.cut(offset, offset):
            state.move(RecordState.ACQUIRED, self._settings, member_id=self._command.member_id)
        reason = "Existing acquisition lock timeout exists, cannot override."
        return Rejection(error=ErrorCode.unknown_server_error, reason=reason)

    def _take_new(self, first_offset: int, last_offset: int) -> None:
        """Acquire records that are not in flight yet."""
        records = self._records
        if not len(records) and records.end_offset > first_offset:
            first_offset = records.end_offset
        limit = self._remaining
        if limit < last_offset - first_offset + 1:
            wanted_end = self._end_of_batch(first_offset + limit - 1)
            last_offset = (
                min(wanted_end, last_offset) if records.gap_start is not None else wanted_end
            )
        is_cut = self._is_strict and last_offset - first_offset + 1 > limit
        if is_cut:
            ranges = [self._add_in_part(first_offset, last_offset, limit)]
        else:
            ranges = self._add(first_offset, last_offset)
        if records.first_batch.first_offset == first_offset:
            records.start_offset = first_offset
        records.end_offset = max(records.end_offset, last_offset)
        acquired_to = ranges[-1].last_offset
        records.move_gap(acquired_to + 1)
        self.ranges += ranges
        self.count += acquired_to - first_offset + 1
        self._remaining -= acquired_to - first_offset + 1

    def _end_of_batch(self, offset: int) -> int:
        """Last offset of the log's batch that contains this offset; the offset itself if no batch
        does.
        """
        for batch in self._command.batches:
            if batch.base_offset <= offset <= batch.last_offset:
                return batch.last_offset
        return offset

    def _add(self, first_offset: int, last_offset: int) -> list[AcquiredRange]:
        """Adds new batches in flight: one, or several if it would be larger than ``batch_size``."""
        firsts = [first_offset]
        limit = self._command.batch_size
        if not self._is_strict and last_offset - first_offset + 1 > limit:
            for batch in self._command.batches:
                if firsts[-1] + limit <= batch.base_offset <= last_offset:
                    firsts.append(batch.base_offset)
        ends = [*(offset - 1 for offset in firsts[1:]), last_offset]
        for batch_start, batch_end in zip(firsts, ends, strict=True):
            if batch_start > batch_end:  # below a batch size of 1, Kafka's answer begins so
                continue
            state = self._new_state(batch_start, batch_end)
            self._records.add(state)
            self._lock(state)
        return [
            AcquiredRange(batch_start, batch_end, 1)
            for batch_start, batch_end in zip(firsts, ends, strict=True)
        ]

    def _add_in_part(self, first_offset: int, last_offset: int, limit: int) -> AcquiredRange:
        """Add a batch in flight, of which the member gets only the first records."""
        records = self._records
        state = self._new_state(first_offset, first_offset + limit - 1)
        rest_state = InFlightState(first_offset + limit, last_offset, RecordState.AVAILABLE, 0)
        records.add(state, rest_state)
        self._lock(state)
        records.find_next = True
        return AcquiredRange(first_offset, state.last_offset, 1)

    def _new_state(self, first_offset: int, last_offset: int) -> InFlightState:
        member_id = self._command.member_id
        return InFlightState(first_offset, last_offset, RecordState.ACQUIRED, 1, member_id)


def _join_ranges(ranges: Sequence[AcquiredRange]) -> list[AcquiredRange]:
    """Join adjacent ranges that have the same delivery count.

    Counterpart: ShareFetchUtils.accumulateAcquiredRecords.
    """
    joined: list[AcquiredRange] = []
    for acquired in ranges:
        previous = joined[-1] if joined else None
        count = acquired.delivery_count
        if previous and (previous.last_offset + 1, previous.delivery_count) == (
            acquired.first_offset,
            count,
        ):
            joined[-1] = AcquiredRange(previous.first_offset, acquired.last_offset, count)
        else:
            joined.append(acquired)
    return joined


def _archive_cleaned(records: InFlight, fetch_offset: int, read_from: int) -> None:
    """Archive available records between the fetch offset and the first batch that was read:
    compaction has removed them from the log.
    """
    if fetch_offset >= read_from:
        return
    floor = records.floor(fetch_offset)
    lowest = fetch_offset
    if floor is not None and floor.last_offset >= fetch_offset:
        lowest = floor.first_offset
    cleaned_batches = records.between(lowest, read_from - 1)
    if records.archive(cleaned_batches, fetch_offset, read_from - 1, RecordState.AVAILABLE):
        records.find_next = True


# Records of aborted transactions


def _archive_aborted(
    records: InFlight, command: Acquire, ranges: Sequence[AcquiredRange]
) -> Acquired | Rejection:
    """Archives records of aborted transactions, whichever member holds them; the member gets the
    others.
    """
    aborted = list(_aborted_batches(command.batches, command.aborted))
    for batch in aborted:
        base, last_offset = batch.base_offset, batch.last_offset
        if records.floor(base) is None:
            # The start offset lies inside of this batch. Kafka gives up, and leaves the locks.
            return Rejection(
                error=ErrorCode.unknown_server_error,
                reason="Batch record not found. The request batch offsets are not found in the "
                "cache.",
            )
        records.archive(
            records.from_floor(base, last_offset), base, last_offset, RecordState.ACQUIRED
        )
    kept_ranges = tuple(_minus(ranges, aborted))
    return Acquired(
        ranges=kept_ranges,
        count=sum(acquired.last_offset - acquired.first_offset + 1 for acquired in kept_ranges),
    )


def _aborted_batches(
    batches: Sequence[ReadBatch], aborted: Sequence[AbortedRange]
) -> Iterator[ReadBatch]:
    """The batches whose records a READ_COMMITTED reader drops; markers are not among them."""
    upcoming = deque(sorted(aborted, key=lambda aborted_range: aborted_range.first_offset))
    producers: set[int] = set()
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while upcoming and upcoming[0].first_offset <= batch.last_offset:
            producers.add(upcoming.popleft().producer_id)
        if batch.is_abort_marker:
            producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            yield batch


def _minus(
    ranges: Sequence[AcquiredRange], batches: Sequence[ReadBatch]
) -> Iterator[AcquiredRange]:
    """The ranges without the offsets of the batches; both are in the order of offsets."""
    index = 0
    for acquired in ranges:
        first = acquired.first_offset
        if first > acquired.last_offset:  # below a batch size of 1, Kafka's answer begins so
            yield acquired
        while index < len(batches) and batches[index].base_offset <= acquired.last_offset:
            batch = batches[index]
            if batch.base_offset > first:
                yield AcquiredRange(first, batch.base_offset - 1, acquired.delivery_count)
            first = max(first, batch.last_offset + 1)
            if batch.last_offset > acquired.last_offset:
                break
            index += 1
        if first <= acquired.last_offset:
            yield AcquiredRange(first, acquired.last_offset, acquired.delivery_count)
