"""How a log is cut into segments and grows shorter at its old end: rolling, retention, snapshots of
producer state, the exchange of segments by the cleaner.

Kafka's counterparts: UnifiedLog.roll, deleteOldSegments, rebuildProducerState, replaceSegments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from txnsim.log.answers import ProducerLastRecord
from txnsim.log.log_view import LogView
from txnsim.log.producer_state import CompletedTxn, ProducerState
from txnsim.log.replicated import described
from txnsim.log.segment import Segment
from txnsim.log.snapshots import Snapshot
from txnsim.log.txn_index import AbortedTxn
from txnsim.types import ReplicatedBatch


class LogUpkeep(LogView):
    """A log that is stored in segments and kept in bounds."""

    __slots__ = ()

    # Retention

    def raise_log_start(self, offset: int) -> bool:
        """Delete what lies below ``offset``, never above the high watermark; whether anything
        changed (UnifiedLog.maybeIncrementLogStartOffset).

        Segments that lie below are removed by the next ``delete_old_segments``.
        """
        if not self._log_start_offset < offset <= self._high_watermark:
            return False
        self._log_start_offset = offset
        self._producers.release_below(offset)
        if not self.config.rules.producers_outlive_records:
            self._producers.evict_below(offset)
        self._epochs.drop_before(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove whole segments from the old end: below the log start in any case, by size and by
        age where ``cleanup.policy`` has ``delete``; how many (UnifiedLog.deleteOldSegments).

        Nothing at or above the high watermark goes. The age of a segment is that of its youngest
        record.
        """
        if len(self._segments) == 1 and not len(self._segments.active):
            return 0
        removed = self._delete_while(self._is_below_log_start, now_ms)
        config = self.config
        if not config.is_deleted:
            return removed
        if config.retention_bytes >= 0:
            removed += self._delete_oversize(config.retention_bytes, now_ms)
        if config.retention_ms >= 0:
            removed += self._delete_while(
                lambda segment: now_ms - segment.largest_timestamp > config.retention_ms, now_ms
            )
        return removed

    # Cleaning

    @property
    def generation(self) -> int:
        """Counts truncations: whoever works on old segments piece by piece stops when it changes
        (LogCleanerManager.abortCleaning).
        """
        return self._generation

    @property
    def segments_count(self) -> int:
        """How many segments there are; the active one is among them."""
        return len(self._segments)

    @property
    def first_base_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._segments.first_base_offset

    @property
    def active_base_offset(self) -> int:
        """Base offset of the segment that is written."""
        return self._segments.active.base_offset

    @property
    def cleaned_until(self) -> int | None:
        """Offset up to which the cleaner has come (cleaner-offset-checkpoint); None before its
        first round.
        """
        return self._cleaned_until

    def segments(self) -> tuple[Segment, ...]:
        """All segments, the oldest first; the last one is written."""
        return tuple(self._segments)

    def inactive_segments(self, start: int, end: int) -> list[Segment]:
        """Segments behind the active one that may hold offsets of ``[start, end)``."""
        return self._segments.between(start, min(end, self.active_base_offset))

    def aborted_between(self, start: int, upper: int) -> tuple[AbortedTxn, ...]:
        """Aborted transactions whose marker lies at ``start`` or behind and that began below
        ``upper``.
        """
        return self._index.lookup(start, upper)

    def last_records(self) -> dict[int, ProducerLastRecord]:
        """What the cleaner must leave of each producer, by id."""
        return {
            entry.producer_id: ProducerLastRecord(
                last_data_offset=entry.batches[-1].last_offset if entry.batches else None,
                producer_epoch=entry.producer_epoch,
            )
            for entry in self._producers.entries()
        }

    def replace_segments(
        self, old: Sequence[Segment], new: Segment, aborted: Sequence[AbortedTxn]
    ) -> bool:
        """Put a cleaned segment in place of ``old``, with the aborted transactions that it still
        knows; whether those were still here.
        """
        end = self._segments.higher_base_offset(old[-1], self._log_end_offset)
        if not self._segments.replace(old, new):
            return False
        self._index.replace(old[0].base_offset, end, aborted)
        for segment in old[1:]:
            self._snapshots.remove(segment.base_offset)
        tail = self._tail
        while tail and tail[0].base_offset < end:
            tail.popleft()  # it describes a batch as it was before it was cleaned
        return True

    def note_cleaned(self, offset: int) -> None:
        """The cleaner has come up to ``offset``."""
        self._cleaned_until = offset

    def producer_snapshots(self) -> tuple[Snapshot, ...]:
        """Snapshots of the producers' state, by offset."""
        return self._snapshots.all()

    def producers_at_end(self) -> Snapshot:
        """A snapshot of what all batches have left, as a broker takes it that stops in order."""
        return self._log_end_offset, self._producers.to_snapshot()

    # What did not reach the disk

    def has_aborted_range(self, marker_offset: int) -> bool:
        """Whether the abort whose marker lies there is noted in the transaction index."""
        return marker_offset in self._index

    def lose_aborted_range(self, marker_offset: int) -> None:
        """The note of an abort was lost: readers are not told of it."""
        self._index.remove(marker_offset)

    @property
    def newest_snapshot_offset(self) -> int | None:
        """Where the newest snapshot of the producers was taken; None without one."""
        newest = self._snapshots.newest
        return None if newest is None else newest[0]

    def lose_snapshot(self, offset: int) -> None:
        """A snapshot of the producers was lost: what a reload begins with is an older one."""
        self._snapshots.remove(offset)

    def lose_flush(self, recovery_point: int) -> None:
        """What lies at ``recovery_point`` and behind is not on disk after all."""
        self._recovery_point = min(self._recovery_point, recovery_point)

    def flush_up_to(self, offset: int) -> None:
        """All below ``offset`` is on disk (UnifiedLog.flushUptoOffsetExclusive)."""
        self._recovery_point = max(self._recovery_point, min(offset, self._log_end_offset))

    # Parts: storing

    def _store_bytes(
        self,
        batch: bytes,
        base_offset: int,
        last_offset: int,
        leader_epoch: int,
        *,
        timestamp_ms: int,
        now_ms: int,
    ) -> None:
        """Add a batch at the end, in a new segment where the active one has had its time."""
        segment = self._segments.active
        if segment.is_due(
            size=len(batch),
            max_timestamp=timestamp_ms,
            last_offset=last_offset,
            now_ms=now_ms,
            config=self.config,
        ):
            segment = self._roll(base_offset, now_ms)
        segment.append(batch, base_offset, last_offset, max_timestamp=timestamp_ms, now_ms=now_ms)
        self._log_end_offset = last_offset + 1
        if leader_epoch > self._epochs.latest:
            self._epochs.assign(leader_epoch, base_offset)

    def roll(self, now_ms: int) -> None:
        """End the active segment, unless nothing is in it (UnifiedLog.roll)."""
        if len(self._segments.active):
            self._roll(self._log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """End the active segment, with a snapshot of the producers where the next one begins."""
        segment = self._new_segment(base_offset, now_ms)
        self._segments.add(segment)
        self._snapshots.take(base_offset, self._producers.to_snapshot())
        self._recovery_point = max(self._recovery_point, self._log_end_offset)
        return segment

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        config = self.config
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        if jitter_ms:
            # Kafka draws it. A number that follows from the place spreads rolls just as well, and a
            # run can be repeated.
            jitter_ms = crc32(f"{self.topic_partition}@{base_offset}".encode()) % jitter_ms
        return Segment(
            base_offset,
            created_ms=now_ms,
            roll_jitter_ms=jitter_ms,
            index_interval_bytes=config.index_interval_bytes,
        )

    def _index_completed(self, completed: CompletedTxn) -> None:
        if completed.committed:
            return
        self._index.append(
            AbortedTxn(
                producer_id=completed.producer_id,
                first_offset=completed.first_offset,
                last_offset=completed.last_offset,
                last_stable_offset=completed.last_stable_offset,
            )
        )

    # Parts: retention

    def _is_below_log_start(self, segment: Segment) -> bool:
        behind = self._segments.higher_base_offset(segment, -1)
        return 0 <= behind <= self._log_start_offset

    def _delete_oversize(self, retention_bytes: int, now_ms: int) -> int:
        excess = self._segments.size_bytes - retention_bytes

        def is_excess(segment: Segment) -> bool:
            nonlocal excess
            if excess < segment.size_bytes:
                return False
            excess -= segment.size_bytes
            return True

        return self._delete_while(is_excess, now_ms) if excess >= 0 else 0

    def _delete_while(self, may_go: Callable[[Segment], bool], now_ms: int) -> int:
        """Delete the oldest segments up to the first one that has to stay; a new active one is
        begun where all go.
        """
        segments = self._segments
        count = 0
        for segment in segments:
            is_last = segment is segments.active
            upper = segments.higher_base_offset(segment, self._log_end_offset)
            if (
                self._high_watermark < upper
                or not may_go(segment)
                or (is_last and not len(segment))
            ):
                break
            count += 1
        if not count:
            return 0
        gone = [segment for segment, _ in zip(segments, range(count), strict=False)]
        if count == len(segments):
            self._roll(self._log_end_offset, now_ms)
        self.raise_log_start(segments.higher_base_offset(gone[-1], self._log_end_offset))
        segments.drop_first(count)
        for segment in gone:
            self._snapshots.remove(segment.base_offset)
        self._index.drop_before(segments.first_base_offset)
        return count

    # Parts: producer state

    def _reload_producers(self, now_ms: int) -> None:
        """Make the producers' state anew from the newest snapshot and the batches behind it
        (UnifiedLog.rebuildProducerState).

        So what neither holds is forgotten: batches before a producer's last one at the snapshot,
        producers whose records are deleted.
        """
        end = self._log_end_offset
        snapshots = self._snapshots
        snapshots.keep(above=self._log_start_offset, up_to=end)
        newest = snapshots.newest
        start = self._log_start_offset
        self._producers = ProducerState()
        if newest is not None:
            start, entries = newest
            self._producers = ProducerState.of_snapshot(
                entries, now_ms=now_ms, expiration_ms=self.config.producer_id_expiration_ms
            )
        for segment in self._segments.between(start, end):
            for batch in segment.slice(segment.index_of(start), len(segment)):
                apply_stored(self._producers, described(batch))
        if end > start:
            snapshots.take(end, self._producers.to_snapshot())
        self._producers.release_below(self._high_watermark)


def apply_stored(producers: ProducerState, batch: ReplicatedBatch) -> CompletedTxn | None:
    """What a stored batch means for the producers, without any check."""
    if batch.producer_id < 0:
        return None
    if not batch.is_control:
        producers.apply_data(
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            last_sequence=batch.last_sequence,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            timestamp=batch.timestamp_ms,
            is_transactional=batch.is_transactional,
        )
        return None
    if not batch.is_marker:
        return None
    return producers.apply_marker(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        coordinator_epoch=batch.coordinator_epoch,
        committed=batch.committed,
        offset=batch.base_offset,
        timestamp=batch.timestamp_ms,
    )
