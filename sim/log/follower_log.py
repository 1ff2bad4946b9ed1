"""A log as a follower and a reload write it: batches that have their place already, truncation, a
high watermark that somebody else knows.

What a stored batch means is in ``_apply``, once, for the living leader, a follower and a reload
alike. The leader's half, which checks and gives batches their place, is ``sim.log.partition_log``.
Kafka's counterparts: UnifiedLog.appendAsFollower, truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

from sim.errors import InvariantViolation
from sim.log.batch_store import BatchStore
from sim.log.epoch_cache import EpochCache
from sim.log.log_view import LogView
from sim.log.producer_state import CompletedTxn, ProducerState
from sim.log.replicated import described
from sim.log.txn_index import AbortedTxn, TxnIndex
from sim.types import ReplicatedBatch


class FollowerLog(LogView):
    """A log that takes over what a leader has written."""

    __slots__ = ()

    # Commands

    def append_replicated(self, batch: ReplicatedBatch) -> None:
        """Append a batch that a leader has written (AppendOrigin.REPLICATION): it is stored and
        believed as it is.

        Raises:
            InvariantViolation: It lies below the log end.
        """
        if batch.base_offset < self._log_end_offset:
            raise InvariantViolation(
                f"{self.topic_partition}: a replicated batch begins at {batch.base_offset}, "
                f"below the log end {self._log_end_offset}"
            )
        self._append_stored(batch)

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

    def raise_log_start(self, offset: int) -> bool:
        """Delete what lies below ``offset``, never above the high watermark; whether anything
        changed (UnifiedLog.maybeIncrementLogStartOffset).
        """
        if not self._log_start_offset < offset <= self._high_watermark:
            return False
        self._log_start_offset = offset
        self._producers.release_below(offset)
        self._epochs.drop_before(offset)
        self._drop_batches_below(offset)
        return True

    def flush(self) -> None:
        """All that is here is on disk (UnifiedLog.flush)."""
        self._recovery_point = self._log_end_offset

    def reopen(self, high_watermark: int) -> None:
        """A broker starts on this log: what was memory alone is gone, and of the high watermark
        only the checkpoint is known.
        """
        self._verification.clear()
        self._tail = None
        self._high_watermark = self._log_start_offset
        self.follow_high_watermark(high_watermark)

    def truncate_to(self, offset: int) -> None:
        """Cut the log off at ``offset`` and rebuild what follows from the rest
        (UnifiedLog.truncateTo).
        """
        if offset >= self._log_end_offset:
            return
        if offset < self._store.first_offset(self._log_end_offset):
            # Producer state before the first batch in store is not known any more.
            self.restart_at(offset)
            return
        self._store.truncate_to(offset)
        self._tail = None
        self._recovery_point = min(self._recovery_point, offset)
        self._log_end_offset = offset
        self._log_start_offset = min(self._log_start_offset, offset)
        self._high_watermark = min(self._high_watermark, offset)
        self._epochs.truncate_to(offset)
        self._index.truncate_to(offset)
        self._producers = self._base_producers.copy() if self._base_producers else ProducerState()
        for batch in self._store.slice(0, len(self._store)):
            apply_stored(self._producers, described(batch))
        self._producers.release_below(self._high_watermark)

    def restart_at(self, offset: int) -> None:
        """Drop everything; the next record will have this offset
        (UnifiedLog.truncateFullyAndStartAt).
        """
        self._store = BatchStore()
        self._producers = ProducerState()
        self._base_producers = None
        self._index = TxnIndex()
        self._epochs = EpochCache()
        self._tail = None
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

    def _append_stored(self, batch: ReplicatedBatch) -> None:
        """Take over a batch that has its place already, with all that follows from it."""
        self._store_bytes(batch.data, batch.base_offset, batch.last_offset, batch.leader_epoch)
        completed = apply_stored(self._producers, batch)
        if completed is not None:
            self._index_completed(completed)
        if batch.is_transactional:
            if batch.is_control:
                self._verification.on_marker(batch.producer_id, batch.producer_epoch)
            else:
                self._verification.on_data(batch.producer_id)

    def _store_bytes(
        self, batch: bytes, base_offset: int, last_offset: int, leader_epoch: int
    ) -> None:
        self._store.append(batch, base_offset)
        self._log_end_offset = last_offset + 1
        if leader_epoch > self._epochs.latest:
            self._epochs.assign(leader_epoch, base_offset)

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

    def _drop_batches_below(self, offset: int) -> None:
        """Free whole batches, but keep the producer state that they have led to: a rebuild begins
        with it.

        Kafka keeps a producer snapshot per segment for this.
        """
        dropped = self._store.drop_before(offset)
        if not dropped:
            return
        if self._base_producers is None:
            self._base_producers = ProducerState()
        for batch in dropped:
            apply_stored(self._base_producers, described(batch))
        self._base_producers.release_below(offset)
        self._index.drop_before(self._store.first_offset(self._log_end_offset))


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
