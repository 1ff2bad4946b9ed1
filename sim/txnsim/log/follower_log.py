"""A log as a follower and a reload write it: batches that have their place already, truncation, a
high watermark that somebody else knows.

What a stored batch means is in ``apply_stored``, once, for a follower and a reload alike. The
leader's half, which checks and gives batches their place, is ``txnsim.log.partition_log``.
Kafka's counterparts: UnifiedLog.appendAsFollower, truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

from txnsim.errors import InvariantViolation
from txnsim.log.epoch_cache import EpochCache
from txnsim.log.log_upkeep import LogUpkeep, apply_stored
from txnsim.log.producer_state import ProducerState
from txnsim.log.segments import Segments
from txnsim.log.snapshots import Snapshots
from txnsim.log.txn_index import TxnIndex
from txnsim.types import ReplicatedBatch


class FollowerLog(LogUpkeep):
    """A log that takes over what a leader has written."""

    __slots__ = ()

    # Commands

    def append_replicated(self, batch: ReplicatedBatch, *, now_ms: int) -> None:
        """Append a batch that a leader has written (AppendOrigin.REPLICATION): it is stored and
        believed as it is.

        Args:
            batch: The leader's bytes, with what a log has to know of them.
            now_ms: The cluster's time, for the age of segments.

        Raises:
            InvariantViolation: It lies below the log end.
        """
        if batch.base_offset < self._log_end_offset:
            raise InvariantViolation(
                f"{self.topic_partition}: a replicated batch begins at {batch.base_offset}, "
                f"below the log end {self._log_end_offset}"
            )
        self._append_stored(batch, now_ms=now_ms)

    def become_follower(self, leader_epoch: int) -> None:
        """Another replica leads under this epoch (Partition.makeFollower)."""
        self._leader_epoch = leader_epoch
        self._tail = None

    def follow_high_watermark(self, high_watermark: int) -> bool:
        """Take over the leader's high watermark as far as this log reaches; whether that is news.

        It may fall: a new leader knows less than the last one until its followers have fetched
        (UnifiedLog.maybeUpdateHighWatermark).
        """
        offset = max(min(high_watermark, self._log_end_offset), self._log_start_offset)
        before, self._high_watermark = self._high_watermark, offset
        if offset > before:
            self._producers.release_below(offset)
        return offset != before

    def flush(self) -> None:
        """All that is here is on disk (UnifiedLog.flush)."""
        self._recovery_point = self._log_end_offset

    def reopen(self, high_watermark: int, *, log_start_offset: int, now_ms: int) -> None:
        """A broker starts on this log: what was memory alone is gone, of the high watermark and of
        the log's start only the checkpoints are known, and of each producer what a snapshot at the
        end holds.

        Stopped in order or not, there is such a snapshot: a clean stop leaves it, and recovery
        takes one once it has read the last segment (LogLoader.recoverSegment).

        Args:
            high_watermark: As it was noted.
            log_start_offset: As it was noted, 0 if it was not: the log begins there, but never
                before its first segment. A log that ends below is emptied.
            now_ms: The cluster's time: producers may have expired.
        """
        self._verification.clear()
        self._tail = None
        if self._log_end_offset < log_start_offset:
            self.restart_at(log_start_offset, now_ms=now_ms)
        self._log_start_offset = max(log_start_offset, self._segments.first_base_offset)
        self._high_watermark = self._log_start_offset
        self._snapshots.take(self._log_end_offset, self._producers.to_snapshot())
        self._reload_producers(now_ms)
        self.follow_high_watermark(high_watermark)

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Cut the log off at ``offset`` and rebuild what follows from the rest
        (UnifiedLog.truncateTo).
        """
        if offset >= self._log_end_offset:
            # An epoch that began here and wrote nothing contradicts the leader's log all the same:
            # kept, both would go on parting at the end of this log for ever.
            self._epochs.truncate_to(self._log_end_offset)
            return
        if offset < self._segments.first_base_offset:
            self.restart_at(offset, now_ms=now_ms)
            return
        self._segments.truncate_to(offset, now_ms=now_ms)
        self._tail = None
        self._generation += 1
        if self._cleaned_until is not None:
            self._cleaned_until = min(self._cleaned_until, offset)
        self._recovery_point = min(self._recovery_point, offset)
        self._log_end_offset = offset
        self._log_start_offset = min(self._log_start_offset, offset)
        self._high_watermark = min(self._high_watermark, offset)
        self._epochs.truncate_to(offset)
        self._index.truncate_to(offset)
        self._reload_producers(now_ms)

    def restart_at(self, offset: int, *, now_ms: int) -> None:
        """Drop everything; the next record will have this offset
        (UnifiedLog.truncateFullyAndStartAt).
        """
        self._segments = Segments(self._new_segment(offset, now_ms))
        self._snapshots = Snapshots()
        self._producers = ProducerState()
        self._index = TxnIndex()
        self._epochs = EpochCache()
        self._tail = None
        self._generation += 1
        self._cleaned_until = None
        self._recovery_point = offset
        self._log_start_offset = offset
        self._high_watermark = offset
        self._log_end_offset = offset

    def advance_high_watermark(self, offset: int) -> bool:
        """All below ``offset`` is replicated; whether that is news. It never falls here, and never
        passes the log end.
        """
        offset = min(offset, self._log_end_offset)
        if offset <= self._high_watermark:
            return False
        self._high_watermark = offset
        self._producers.release_below(offset)
        return True

    # Parts

    def _append_stored(self, batch: ReplicatedBatch, *, now_ms: int) -> None:
        """Take over a batch that has its place already, with all that follows from it."""
        self._store_bytes(
            batch.data,
            batch.base_offset,
            batch.last_offset,
            batch.leader_epoch,
            timestamp_ms=batch.timestamp_ms,
            now_ms=now_ms,
        )
        completed = apply_stored(self._producers, batch)
        if completed is not None:
            self._index_completed(completed)
        if batch.is_transactional:
            if batch.is_control:
                self._verification.on_marker(batch.producer_id, batch.producer_epoch)
            else:
                self._verification.on_data(batch.producer_id)
