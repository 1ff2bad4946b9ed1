"""What may be asked of a partition's log: its bounds, reads, searches, producers (the reading half
of Kafka's UnifiedLog).

Nothing here changes anything. The half that does is ``sim.log.partition_log``, which says what the
bounds mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from sim.errors import ErrorCode, Rejection
from sim.log import invariants, timestamps
from sim.log.answers import (
    EpochEndOffset,
    LogRead,
    LogState,
    ProducerSnapshot,
    TimestampOffset,
)
from sim.log.batch_store import BatchStore
from sim.log.config import LogConfig
from sim.log.epoch_cache import EpochCache
from sim.log.producer_state import NO_OFFSET, ProducerState
from sim.log.replicated import described
from sim.log.txn_index import AbortedTxn, TxnIndex
from sim.log.verification import Verification
from sim.types import IsolationLevel, ReplicatedBatch, TopicPartition

LATE_TRANSACTION_GRACE_MS: Final = 300_000
"""A transaction is late this long after the longest timeout that a producer may ask for
(UnifiedLog.hasLateTransaction).
"""


class LogView:
    """A log as its readers know it."""

    __slots__ = (
        "_base_producers",
        "_epochs",
        "_high_watermark",
        "_index",
        "_leader_epoch",
        "_leader_epoch_start_offset",
        "_log_end_offset",
        "_log_start_offset",
        "_producers",
        "_recovery_point",
        "_store",
        "_tail",
        "_verification",
        "config",
        "topic_partition",
    )

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        config: LogConfig,
        leader_epoch: int,
        start_offset: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self._leader_epoch = leader_epoch
        self._leader_epoch_start_offset = start_offset
        self._log_start_offset = start_offset
        self._high_watermark = start_offset
        self._log_end_offset = start_offset
        self._store = BatchStore()
        self._producers = ProducerState()
        self._base_producers: ProducerState | None = None
        """Producer state before the first batch in store; None while nothing was ever dropped in
        front.
        """
        self._verification = Verification()
        self._index = TxnIndex()
        self._epochs = EpochCache()
        self._epochs.assign(leader_epoch, start_offset)
        self._tail: deque[ReplicatedBatch] | None = None
        """The newest batches with what is known of them, while followers want them (see
        ``keep_tail``).
        """
        self._recovery_point = start_offset

    # Bounds

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        return self._log_end_offset

    @property
    def high_watermark(self) -> int:
        """First offset that is not on every in-sync replica."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """First offset that a read_committed reader does not see: all below it is decided and
        replicated.

        Where DeleteRecords cut into a transaction that is still open, it is the base offset of the
        batch that holds the log start, and may lie below it
        (UnifiedLog.maybeIncrementFirstUnstableOffset).
        """
        first_unstable = self._producers.first_unstable_offset()
        if first_unstable is None:
            return self._high_watermark
        if first_unstable < self._log_start_offset:
            first_unstable = self._base_of_log_start()
        return min(first_unstable, self._high_watermark)

    @property
    def first_undecided_offset(self) -> int | None:
        """First offset of the earliest open transaction, replicated or not."""
        return self._producers.first_undecided_offset()

    @property
    def leader_epoch(self) -> int:
        """Epoch of the leader that writes here."""
        return self._leader_epoch

    @property
    def leader_epoch_start_offset(self) -> int:
        """Log end when this epoch began; until the high watermark is there, ListOffsets answers
        OFFSET_NOT_AVAILABLE.
        """
        return self._leader_epoch_start_offset

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that has written here, -1 without one (LastFetchedEpoch of a
        follower's Fetch).
        """
        return self._epochs.latest

    @property
    def recovery_point(self) -> int:
        """First offset that a broken machine may have lost: all below is on disk."""
        return self._recovery_point

    @property
    def oldest_transaction_timestamp(self) -> int:
        """Timestamp of the last batch of the producer whose open transaction begins first, -1
        without one.
        """
        return self._producers.oldest_transaction_timestamp()

    @property
    def size_bytes(self) -> int:
        """Bytes in store."""
        return self._store.size_bytes

    # Queries

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        min_one_batch: bool = True,
        up_to_log_end: bool = False,
    ) -> LogRead | Rejection:
        """Whole stored batches from the one that holds ``offset`` on; the reader drops the records
        before it.

        Args:
            offset: Where to begin.
            max_bytes: No batch that would exceed this, but see ``min_one_batch``.
            isolation: Whether to stop at the last stable offset.
            min_one_batch: Give the first batch even if it is larger (KIP-74).
            up_to_log_end: For followers: all there is, whatever ``isolation`` says.
        """
        if not self._log_start_offset <= offset <= self._log_end_offset:
            return Rejection(
                error=ErrorCode.offset_out_of_range,
                reason=f"{self.topic_partition} has offsets {self._log_start_offset} to "
                f"{self._log_end_offset}, asked for {offset}",
            )
        last_stable_offset = self.last_stable_offset
        is_committed = isolation == IsolationLevel.READ_COMMITTED and not up_to_log_end
        if up_to_log_end:
            upper = self._log_end_offset
        else:
            upper = last_stable_offset if is_committed else self._high_watermark
        records: tuple[bytes, ...] = ()
        size = 0
        aborted: tuple[AbortedTxn, ...] | None = () if is_committed else None
        if offset < upper:
            store = self._store
            start = store.index_of(offset)
            end_fitting = store.end_index_within(start, max_bytes)
            if end_fitting <= start and min_one_batch:
                end_fitting = start + 1
            end = min(store.end_index_of(upper), end_fitting)
            if end > start:
                records = store.slice(start, end)
                size = store.position(end) - store.position(start)
            if is_committed:
                aborted = self._aborted(
                    offset,
                    start=start,
                    upper=upper,
                    max_bytes=max_bytes,
                    min_one_batch=min_one_batch,
                )
        return LogRead(
            records=records,
            size=size,
            high_watermark=self._high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=self._log_start_offset,
            aborted=aborted,
        )

    def batches_for_follower(self, offset: int, *, max_bytes: int) -> tuple[ReplicatedBatch, ...]:
        """Stored batches from ``offset`` to the log end, at least one where there is one.

        What has just been appended is handed on with all that is known of it; only of older
        batches are the headers read.
        """
        tail = self._tail
        if tail:
            newest = tail[-1]
            if newest.base_offset == offset:
                return (newest,)
            if tail[0].base_offset <= offset:
                return _from_tail(tail, offset, max_bytes)
        store = self._store
        start = store.index_of(offset)
        end = max(store.end_index_within(start, max_bytes), min(start + 1, len(store)))
        return tuple([described(batch) for batch in store.slice(start, end)])

    def _aborted(
        self, offset: int, *, start: int, upper: int, max_bytes: int, min_one_batch: bool
    ) -> tuple[AbortedTxn, ...]:
        """Aborted transactions for a read that begins with batch ``start``.

        Kafka asks its offset index, which is sparse, how far the bytes reach that it returns, and
        takes the log end where the index can't say (LocalLog.addAbortedTransactions). So there may
        be transactions among them that the reader does not meet yet.
        """
        store = self._store
        begin = store.position(start)
        limit = begin + max_bytes
        if min_one_batch:
            limit = max(limit, store.position(min(start + 1, len(store))))
        reach = store.offset_behind(min(limit, store.position(store.end_index_of(upper))))
        return self._index.lookup(offset, self._log_end_offset if reach is None else reach)

    def readable_bytes(
        self, offset: int, isolation: IsolationLevel, *, up_to_log_end: bool = False
    ) -> int:
        """How many bytes a read from ``offset`` could return: what a waiting Fetch compares with
        its MinBytes.
        """
        upper = self.latest(isolation, up_to_log_end=up_to_log_end)
        if not self._log_start_offset <= offset < upper:
            return 0
        store = self._store
        return max(
            0, store.position(store.end_index_of(upper)) - store.position(store.index_of(offset))
        )

    def earliest(self) -> int:
        """ListOffsets EARLIEST."""
        return self._log_start_offset

    def latest(self, isolation: IsolationLevel, *, up_to_log_end: bool = False) -> int:
        """ListOffsets LATEST: the end of what such a reader may see."""
        if up_to_log_end:
            return self._log_end_offset
        if isolation == IsolationLevel.READ_COMMITTED:
            return self.last_stable_offset
        return self._high_watermark

    def offset_for_timestamp(
        self, timestamp_ms: int, isolation: IsolationLevel, *, up_to_log_end: bool = False
    ) -> TimestampOffset | None:
        """The first record stamped ``timestamp_ms`` or later, unless it lies beyond what the reader
        may see.
        """
        found = timestamps.first_at_or_after(
            self._store, timestamp_ms, start=self._log_start_offset
        )
        return self._found(found, self.latest(isolation, up_to_log_end=up_to_log_end))

    def offset_of_max_timestamp(
        self, isolation: IsolationLevel, *, up_to_log_end: bool = False
    ) -> TimestampOffset | None:
        """The record with the largest timestamp (KIP-734)."""
        found = timestamps.first_of_max(self._store, start=self._log_start_offset)
        return self._found(found, self.latest(isolation, up_to_log_end=up_to_log_end))

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Where the epoch ended, or the largest known one below it (OffsetForLeaderEpoch)."""
        epoch, end_offset = self._epochs.end_offset_for(
            leader_epoch, log_end_offset=self._log_end_offset
        )
        return EpochEndOffset(leader_epoch=epoch, end_offset=end_offset)

    def leader_epoch_of(self, offset: int) -> int:
        """The epoch that wrote ``offset``, -1 when it is not known."""
        return self._epochs.epoch_of(offset)

    def producers(self) -> tuple[ProducerSnapshot, ...]:
        """All producers that are known here, with or without an open transaction
        (DescribeProducers).
        """
        return tuple(
            ProducerSnapshot(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
            for entry in self._producers.entries()
        )

    def open_transaction_of(self, producer_id: int) -> int:
        """First offset of the producer's open transaction, -1 without one."""
        entry = self._producers.find(producer_id)
        return NO_OFFSET if entry is None else entry.txn_first_offset

    def has_late_transaction(self, now_ms: int, max_timeout_ms: int) -> bool:
        """Whether a transaction is open for longer than any timeout could explain (KIP-664)."""
        oldest = self.oldest_transaction_timestamp
        return oldest > 0 and now_ms - oldest > max_timeout_ms + LATE_TRANSACTION_GRACE_MS

    def batches(self, start_offset: int = 0) -> Iterator[bytes]:
        """Stored batches from the one that holds ``start_offset`` on, committed or not."""
        store = self._store
        yield from store.slice(store.index_of(start_offset), len(store))

    def snapshot(self) -> LogState:
        """All that is known besides the bytes, as a value."""
        return LogState(
            log_start_offset=self._log_start_offset,
            log_end_offset=self._log_end_offset,
            high_watermark=self._high_watermark,
            last_stable_offset=self.last_stable_offset,
            producers=self._producers.images(),
            ongoing=self._producers.ongoing(),
            unreplicated=self._producers.unreplicated(),
            aborted=self._index.entries(),
            epochs=self._epochs.entries(),
        )

    def check_invariants(self) -> None:
        """Compare what is known with the bytes and with itself; for tests and simulations.

        Raises:
            InvariantViolation: Something does not hold; the message names it.
        """
        invariants.check(self.snapshot(), tuple(self.batches()), name=str(self.topic_partition))

    # Parts

    def _base_of_log_start(self) -> int:
        """Base offset of the batch that holds the log start; the log start where none does."""
        index = self._store.index_of(self._log_start_offset)
        if index == len(self._store):
            return self._log_start_offset
        return min(self._store.base_offset(index), self._log_start_offset)

    def _found(self, found: tuple[int, int] | None, upper: int) -> TimestampOffset | None:
        if found is None or found[1] >= upper:
            return None
        return TimestampOffset(
            timestamp_ms=found[0], offset=found[1], leader_epoch=self._epochs.epoch_of(found[1])
        )


def _from_tail(
    tail: deque[ReplicatedBatch], offset: int, max_bytes: int
) -> tuple[ReplicatedBatch, ...]:
    wanted: list[ReplicatedBatch] = []
    for batch in reversed(tail):
        if batch.last_offset < offset:
            break
        wanted.append(batch)
    wanted.reverse()
    size = 0
    for index, batch in enumerate(wanted):
        size += len(batch.data)
        if size > max_bytes and index:
            return tuple(wanted[:index])
    return tuple(wanted)
