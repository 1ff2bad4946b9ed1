"""What may be asked of a partition's log: its bounds, reads, searches, producers (the reading half
of Kafka's UnifiedLog).

Nothing here changes anything. The half that does is ``txnsim.log.partition_log``, which says what
the bounds mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.log import invariants, timestamps
from txnsim.log.answers import (
    EpochEndOffset,
    LogRead,
    LogState,
    ProducerSnapshot,
    TimestampOffset,
)
from txnsim.log.append_info import data_rule, marker_rule
from txnsim.log.config import LogConfig
from txnsim.log.epoch_cache import EpochCache
from txnsim.log.producer_state import NO_EPOCH, NO_OFFSET, ProducerEntry, ProducerState
from txnsim.log.replicated import described
from txnsim.log.segment import Segment
from txnsim.log.segments import Segments, Span
from txnsim.log.snapshots import Snapshots
from txnsim.log.txn_index import AbortedTxn, TxnIndex
from txnsim.log.verification import Verification
from txnsim.types import (
    IsolationLevel,
    ReplicatedBatch,
    TopicPartition,
    TransactionVersion,
)
from txnsim.wire.batch import BatchHeader, read_batch_header

ENOUGH_BYTES: Final = 1 << 62
"""More than any reader waits for."""

LATE_TRANSACTION_GRACE_MS: Final = 300_000
"""A transaction is late this long after the longest timeout that a producer may ask for
(UnifiedLog.hasLateTransaction).
"""


class LogView:
    """A log as its readers know it."""

    __slots__ = (
        "_cleaned_until",
        "_epochs",
        "_generation",
        "_high_watermark",
        "_index",
        "_leader_epoch",
        "_leader_epoch_start_offset",
        "_log_end_offset",
        "_log_start_offset",
        "_producers",
        "_recovery_point",
        "_segments",
        "_snapshots",
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
        self._segments = Segments(
            Segment(start_offset, index_interval_bytes=config.index_interval_bytes)
        )
        self._snapshots = Snapshots()
        self._generation = 0
        self._cleaned_until: int | None = None
        self._producers = ProducerState()
        self._verification = Verification()
        self._index = TxnIndex()
        self._epochs = EpochCache()
        if leader_epoch >= 0:
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
    def is_all_stable(self) -> bool:
        """Whether no transaction is open below the high watermark."""
        return self.last_stable_offset == self._high_watermark

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
        """Bytes of all segments, also of what lies below the log start in the first one."""
        return self._segments.size_bytes

    # Queries

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        min_one_batch: bool = True,
        up_to_log_end: bool = False,
        is_all_stable: bool = False,
    ) -> LogRead | Rejection:
        """Whole stored batches from the one that holds ``offset`` on; the reader drops the records
        before it.

        Args:
            offset: Where to begin.
            max_bytes: No batch that would exceed this, but see ``min_one_batch``.
            isolation: Whether to stop at the last stable offset.
            min_one_batch: Give the first batch even if it is larger (KIP-74).
            up_to_log_end: For followers: all there is, whatever ``isolation`` says.
            is_all_stable: The reader found that nothing is open below the high watermark, a moment
                ago, and believes that of what has been replicated since, too (KAFKA-9807).
        """
        if not self._log_start_offset <= offset <= self._log_end_offset:
            return Rejection(
                error=ErrorCode.offset_out_of_range,
                reason=f"{self.topic_partition} has offsets {self._log_start_offset} to "
                f"{self._log_end_offset}, asked for {offset}",
            )
        last_stable_offset = self._high_watermark if is_all_stable else self.last_stable_offset
        is_committed = isolation == IsolationLevel.READ_COMMITTED and not up_to_log_end
        if up_to_log_end:
            upper = self._log_end_offset
        else:
            upper = last_stable_offset if is_committed else self._high_watermark
        span = None
        if offset < upper:
            span = self._segments.read(
                offset, upper, max_bytes=max_bytes, min_one_batch=min_one_batch
            )
        aborted: tuple[AbortedTxn, ...] | None = () if is_committed else None
        if is_committed and span is not None:
            aborted = self._aborted(offset, span)
        return LogRead(
            records=() if span is None else tuple(span.batches),
            size=0 if span is None else span.size,
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
        span = self._segments.read(
            offset, self._log_end_offset, max_bytes=max_bytes, min_one_batch=True
        )
        return () if span is None else tuple([described(batch) for batch in span.batches])

    def _aborted(self, offset: int, span: Span) -> tuple[AbortedTxn, ...]:
        """Aborted transactions for a read that begins at ``offset``.

        Kafka asks its offset index, which is sparse, how far the bytes reach that it returns, and
        takes the end of the segment where the index can't say (LocalLog.addAbortedTransactions).
        So there may be transactions among them that the reader does not meet yet.
        """
        reach = span.segment.offset_behind(span.reach)
        if reach is None:
            reach = self._segments.higher_base_offset(span.segment, self._log_end_offset)
        return self._index.lookup(offset, reach)

    def readable_bytes(
        self, offset: int, isolation: IsolationLevel, *, up_to_log_end: bool = False
    ) -> int:
        """How many bytes a read from ``offset`` could return: what a waiting Fetch compares with
        its MinBytes. Who reads an older segment waits for nothing (DelayedFetch.tryComplete).
        """
        upper = self.latest(isolation, up_to_log_end=up_to_log_end)
        if not self._log_start_offset <= offset < upper:
            return 0
        if self._segments.is_older(offset, upper):
            return ENOUGH_BYTES
        return self._segments.bytes_between(offset, upper)

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
            self._segments, timestamp_ms, start=self._log_start_offset
        )
        return self._found(found, self.latest(isolation, up_to_log_end=up_to_log_end))

    def offset_of_max_timestamp(
        self, isolation: IsolationLevel, *, up_to_log_end: bool = False
    ) -> TimestampOffset | None:
        """The record with the largest timestamp (KIP-734), deleted ones included until their
        segment is removed.
        """
        found = timestamps.first_of_max(self._segments)
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
        return tuple(_shown(entry) for entry in self._producers.entries())

    def open_producers(self) -> tuple[ProducerSnapshot, ...]:
        """Those of them with an open transaction, in the order of its first offset."""
        found = (self._producers.find(producer_id) for _, producer_id in self._producers.ongoing())
        return tuple(_shown(entry) for entry in found if entry is not None)

    def open_transaction_of(self, producer_id: int) -> int:
        """First offset of the producer's open transaction, -1 without one."""
        entry = self._producers.find(producer_id)
        return NO_OFFSET if entry is None else entry.txn_first_offset

    def rule_of_data(self, header: BatchHeader) -> str:
        """Row of docs/rules.md by which such a batch would be taken (``append_info.data_rule``)."""
        return data_rule(self._producers.find(header.producer_id), header)

    def rule_of_marker(
        self, *, producer_id: int, producer_epoch: int, transaction_version: int
    ) -> str:
        """Row of docs/rules.md by which such a marker would be written
        (``append_info.marker_rule``).
        """
        return marker_rule(
            self._producers.find(producer_id),
            producer_epoch=producer_epoch,
            is_v2=transaction_version >= TransactionVersion.TV_2,
        )

    def epoch_of(self, producer_id: int) -> int:
        """The last epoch of a producer that was seen here, -1 for none."""
        entry = self._producers.find(producer_id)
        return NO_EPOCH if entry is None else entry.producer_epoch

    def has_late_transaction(self, now_ms: int, max_timeout_ms: int) -> bool:
        """Whether a transaction is open for longer than any timeout could explain (KIP-664)."""
        oldest = self.oldest_transaction_timestamp
        return oldest > 0 and now_ms - oldest > max_timeout_ms + LATE_TRANSACTION_GRACE_MS

    def batches(self, start_offset: int = 0) -> Iterator[bytes]:
        """Stored batches from the one that holds ``start_offset`` on, committed or not."""
        return self._segments.batches(start_offset)

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
        found = self._segments.holder(self._log_start_offset)
        if found is None:
            return self._log_start_offset
        segment, index = found
        return min(segment.batch_base(index), self._log_start_offset)

    def _found(self, found: tuple[int, int] | None, upper: int) -> TimestampOffset | None:
        if found is None or found[1] >= upper:
            return None
        timestamp_ms, offset = found
        # The epochs of deleted records are forgotten, but for what their batches say.
        batch = (
            next(self._segments.batches(offset), None) if offset < self._log_start_offset else None
        )
        return TimestampOffset(
            timestamp_ms=timestamp_ms,
            offset=offset,
            leader_epoch=self._epochs.epoch_of(offset)
            if batch is None
            else read_batch_header(batch).leader_epoch,
        )


def _shown(entry: ProducerEntry) -> ProducerSnapshot:
    return ProducerSnapshot(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
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
