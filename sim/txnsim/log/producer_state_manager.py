"""A log's producers (Kafka's ProducerStateManager): the state that follows from batches, snapshots
of it, and guards of pending verifications.

``txnsim.log.leader_append`` decides beforehand what may be appended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import Final

from txnsim.log._segments import Segments
from txnsim.log.producer_snapshot import ProducerSnapshot, SnapshotEntry
from txnsim.log.producer_state import (
    NO_OFFSET,
    PartitionProducers,
    ProducerEntry,
    to_snapshot_entry,
)
from txnsim.log.replicated import describe_batch
from txnsim.log.verification import VerificationEntries
from txnsim.wire.batch import read_batch_header

STEP_BATCHES: Final = 64
"""Number of batches that a reload reads between two breaks."""
Steps = Generator[int, None, None]


class ProducerStateManager:
    """The producers of one log.

    ``state`` follows from the batches. A reload begins with ``snapshots``. ``verification`` exists
    only in memory, so another leader does not have it. A reload may run in steps. Until the last
    one ``state`` is the old state; queries of this class first run the remaining steps.
    """

    __slots__ = ("_steps", "snapshots", "state", "verification")

    def __init__(self) -> None:
        self._steps: Steps | None = None
        self.state = PartitionProducers()
        self.snapshots = ProducerSnapshots()
        self.verification = VerificationEntries()

    # Commands

    def take_snapshot(self, offset: int) -> None:
        self.finish_reload()
        self.snapshots.take_snapshot(offset, self.state)

    def reload(
        self,
        segments: Segments,
        *,
        start_offset: int,
        end_offset: int,
        now_ms: int,
        expiration_ms: int,
    ) -> None:
        """Rebuild the state from the newest snapshot and the batches after it
        (ProducerStateManager.truncateAndReload, UnifiedLog.rebuildProducerState).

        Data that is in neither is lost: a producer's batches before its last one at the snapshot,
        and producers whose records are deleted.
        """
        self.begin_reload(
            segments,
            start_offset=start_offset,
            end_offset=end_offset,
            now_ms=now_ms,
            expiration_ms=expiration_ms,
        )
        self.finish_reload()

    def begin_reload(
        self,
        segments: Segments,
        *,
        start_offset: int,
        end_offset: int,
        now_ms: int,
        expiration_ms: int,
        read_released_below: Callable[[], int] = lambda: 0,
    ) -> Steps:
        """Like ``reload``, in steps; nothing may be appended before the last one.

        Args:
            segments: The log's segments.
            start_offset: The log start offset.
            end_offset: The log end offset.
            now_ms: The cluster's time.
            expiration_ms: ``producer.id.expiration.ms``.
            read_released_below: Called in the last step; returns the offset below which markers are
                replicated.

        Returns:
            The steps; each yields how many batches it has read. They end early if
                ``finish_reload`` has run them, or another reload has begun.
        """
        self._drop_steps()
        self.snapshots.keep_between(log_start_offset=start_offset, end_offset=end_offset)
        self._steps = self._reload_in_steps(
            segments, start_offset, end_offset, now_ms, expiration_ms, read_released_below
        )
        return self._steps

    def _reload_in_steps(
        self,
        segments: Segments,
        start_offset: int,
        end_offset: int,
        now_ms: int,
        expiration_ms: int,
        read_released_below: Callable[[], int],
    ) -> Steps:
        newest_snapshot, producer_state = self.snapshots.newest, PartitionProducers()
        if newest_snapshot is not None:
            start_offset, loaded_snapshot = newest_snapshot
            producer_state = PartitionProducers.of_snapshot(
                loaded_snapshot, now_ms=now_ms, expiration_ms=expiration_ms
            )
            yield len(producer_state.by_id)
        for segment in segments.segments_between(start_offset, end_offset):
            batches = segment.slice(segment.index_of(start_offset), len(segment))
            for index in range(0, len(batches), STEP_BATCHES):
                for batch in batches[index : index + STEP_BATCHES]:
                    header = read_batch_header(batch)
                    if header.producer_id >= 0:
                        producer_state.apply(describe_batch(batch, header))
                yield STEP_BATCHES
        if end_offset > start_offset:
            unsaved_entries = producer_state.unsaved_entries()
            for index in range(0, len(unsaved_entries), STEP_BATCHES):
                if index:
                    yield STEP_BATCHES
                for entry in unsaved_entries[index : index + STEP_BATCHES]:
                    to_snapshot_entry(entry)
            self.snapshots.take_snapshot(end_offset, producer_state)
        producer_state.release_below(read_released_below())
        self.state, self._steps = producer_state, None

    def finish_reload(self) -> None:
        if self._steps is not None:
            deque(self._steps, maxlen=0)

    def _drop_steps(self) -> None:
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    def restart(self) -> None:
        """Reset all state, because the log was emptied
        (ProducerStateManager.truncateFullyAndStartAt).
        """
        self._drop_steps()
        self.state = PartitionProducers()
        self.snapshots = ProducerSnapshots()

    # Queries

    def all_producers(self) -> tuple[ProducerEntry, ...]:
        """Copies of all producers, with or without an open transaction (DescribeProducers)."""
        self.finish_reload()
        return tuple([entry.copy_for_listing() for entry in self.state.entries()])

    def open_producers(self) -> tuple[ProducerEntry, ...]:
        """Copies of producers with an open transaction, by first offset."""
        self.finish_reload()
        return self.state.open_images()

    def open_producer_ids(self) -> Collection[int]:
        """Producer ids with an open transaction, by first offset; to be read at once."""
        self.finish_reload()
        return self.state.ongoing_ids()

    def open_transaction_of(self, producer_id: int) -> int:
        """First offset of the producer's open transaction, -1 without one."""
        self.finish_reload()
        entry = self.state.find(producer_id)
        return NO_OFFSET if entry is None else entry.txn_first_offset

    @property
    def newest_snapshot_offset(self) -> int | None:
        """Offset of the newest snapshot; None without one."""
        return self.snapshots.newest_offset

    def snapshots_with(self, end_offset: int) -> ProducerSnapshots:
        """Copy the snapshots, with one of the current state at the log end, which a broker takes at
        a clean stop. Later snapshots don't change the copy.
        """
        self.finish_reload()
        snapshots = self.snapshots.copy()
        snapshots.remove(end_offset)
        snapshots.add(end_offset, self.state.to_snapshot())
        return snapshots


OffsetSnapshot = tuple[int, tuple[SnapshotEntry, ...]]
"""(offset, producers as of that offset, exclusive)."""


class ProducerSnapshots:
    """Snapshots of one log, by offset (the snapshot files of Kafka's ProducerStateManager).

    A reload begins with the newest one at or below the log end and replays only the batches after
    it. A snapshot is taken when a segment ends and when a broker stops. It has only the last batch
    of each producer. So a reload loses producers whose records and snapshots are both deleted, and
    the four batches before a producer's last one.
    """

    __slots__ = ("_by_offset",)

    def __init__(self) -> None:
        self._by_offset: dict[int, ProducerSnapshot] = {}
        """Snapshots by ascending offset."""

    # Commands

    def take_snapshot(self, offset: int, producers: PartitionProducers) -> None:
        """Take a snapshot at ``offset``, unless one of it or of a later offset exists."""
        if self._is_behind_all(offset):
            self._by_offset[offset] = producers.take_snapshot()

    def add(self, offset: int, entries: tuple[SnapshotEntry, ...]) -> None:
        """Add the snapshot that has these entries, unless one of ``offset`` or of a later one
        exists.
        """
        if self._is_behind_all(offset):
            self._by_offset[offset] = ProducerSnapshot.of_entries(entries)

    def remove(self, offset: int) -> None:
        """Drop the snapshot at exactly ``offset``, because its segment is deleted."""
        self._by_offset.pop(offset, None)

    def keep_between(self, *, log_start_offset: int, end_offset: int) -> None:
        """Drop the snapshots outside of a log that begins at ``log_start_offset`` and ends at
        ``end_offset`` (ProducerStateManager.truncateAndReload).
        """
        self._by_offset = {
            offset: snapshot
            for offset, snapshot in self._by_offset.items()
            if log_start_offset < offset <= end_offset
        }

    def drop_stray(self, base_offsets: Sequence[int]) -> None:
        """Drop snapshots that are not at the start of a segment, except the newest of them if it is
        after all starts (ProducerStateManager.removeStraySnapshots).

        Args:
            base_offsets: Base offsets of the segments, ascending; at least one.
        """
        segment_starts = set(base_offsets)
        stray_offsets = [offset for offset in self._by_offset if offset not in segment_starts]
        if stray_offsets and stray_offsets[-1] > base_offsets[-1]:
            stray_offsets.pop()
        for offset in stray_offsets:
            self.remove(offset)

    # Queries

    @property
    def newest(self) -> tuple[int, ProducerSnapshot] | None:
        """The highest offset that has a snapshot, and the snapshot; None without one."""
        return next(reversed(self._by_offset.items()), None)

    @property
    def newest_offset(self) -> int | None:
        return next(reversed(self._by_offset), None)

    def _is_behind_all(self, offset: int) -> bool:
        return next(reversed(self._by_offset), -1) < offset

    def copy(self) -> ProducerSnapshots:
        snapshots = ProducerSnapshots()
        snapshots._by_offset = dict(self._by_offset)
        return snapshots

    def all_snapshots(self) -> Iterator[OffsetSnapshot]:
        """Yield the snapshots by offset. The entries of each are made when its turn comes: all of
        them at once grow with the square of the producers.
        """
        for offset, snapshot in self._by_offset.items():
            yield offset, snapshot.entries()
