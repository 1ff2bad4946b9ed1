"""The log of one partition, as a pure state machine: batches in, offsets out (Kafka's UnifiedLog).

It appends, reads, and keeps the state that follows from the bytes. Its parts: ``local`` (batches
and their indexes on the disk), ``producers`` (their state, snapshots, guards), ``epochs`` (leader
epochs). It owns the bounds up to which each kind of reader may read::

    log start ≤ last stable offset ≤ high watermark ≤ log end
                (read_committed)     (read_uncommitted)  (followers)

Rules that everything below obeys:

1. A leader checks a batch completely before anything changes (``txnsim.log.leader_append``); a
    refused one has no effect. One append is one batch.
2. A producer's bytes are stored unchanged, except for offset and leader epoch and, if the topic
    requires it, the timestamp.
3. All state besides the bytes is derived from them by the same steps for a leader, a follower and a
    reload, so a replayed log has the same state as the original. Only verification entries and
    expiry exist in memory alone, and snapshots lose a little
    (``txnsim.log.producer_state_manager``).
4. The last stable offset is derived, never stored.

It knows no clock, no socket and no other replica: ``now_ms`` is an argument, and the owner of the
log moves the high watermark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from txnsim.errors import ErrorCode, InvariantViolation, MissingExtraError, Rejection
from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.log import _invariants as invariants
from txnsim.log._segment import Segment, max_timestamp_of
from txnsim.log.answers import EpochEndOffset, LogRead, LogState, TimestampOffset
from txnsim.log.config import LogConfig
from txnsim.log.local_log import LocalLog, WriteAllowance
from txnsim.log.producer_state_manager import ProducerStateManager
from txnsim.log.txn_index import AbortedTxn
from txnsim.log.unpacking import Steps, payload_in_steps
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.wire.batch import read_batch_header
from txnsim.wire.compression import DECOMPRESSED_MAX
from txnsim.wire.records import timestamps_in

LATE_TRANSACTION_GRACE_MS: Final = 300_000
"""A transaction counts as late this many ms after the longest timeout that a producer may request
(UnifiedLog.hasLateTransaction).
"""


class PartitionLog:
    """The log of one partition on one replica.

    ``config`` may be replaced at any time. Other modules may read the bounds, but only this class
    moves them. Queries go to the parts; changes of more than one part are methods of this class.
    """

    __slots__ = (
        *("allowance", "config", "epochs", "high_watermark", "leader_epoch"),
        *("leader_epoch_start_offset", "local", "log_start_offset", "producers"),
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
        self.local = LocalLog(
            topic_partition=topic_partition,
            start_offset=start_offset,
            index_interval_bytes=config.index_interval_bytes,
        )
        self.allowance: WriteAllowance | None = None
        """How many bytes may be written before the sizes of all logs are measured."""
        self.producers = ProducerStateManager()
        self.epochs = EpochCache()
        if leader_epoch >= 0:
            self.epochs.assign(leader_epoch, start_offset)
        self.leader_epoch = leader_epoch
        """Epoch of the leader that writes here."""
        self.leader_epoch_start_offset = start_offset
        """Log end when this epoch began; until the high watermark reaches it, ListOffsets answers
        OFFSET_NOT_AVAILABLE.
        """
        self.log_start_offset = start_offset
        """First offset that may be read."""
        self.high_watermark = start_offset
        """First offset that is not on every in-sync replica."""

    # Bounds

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        return self.local.end_offset

    @property
    def last_stable_offset(self) -> int:
        """First offset that a read_committed reader does not see: everything below it is decided
        and replicated.

        If DeleteRecords has deleted the start of an open transaction, it is the base offset of the
        batch that contains the log start, and may be below it
        (UnifiedLog.maybeIncrementFirstUnstableOffset; before KAFKA-17803 it is the log start).
        """
        first_unstable_offset = self.producers.state.first_unstable_offset()
        if first_unstable_offset is None:
            return self.high_watermark
        if first_unstable_offset < self.log_start_offset:
            first_unstable_offset = self.log_start_offset
            if self.config.rules.cut_transactions_begin_at_batch:
                first_unstable_offset = self.local.base_of(first_unstable_offset)
        return min(first_unstable_offset, self.high_watermark)

    @property
    def is_all_stable(self) -> bool:
        """Whether no transaction is open below the high watermark."""
        return self.last_stable_offset == self.high_watermark

    # Queries

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        reads_one_batch_at_least: bool = True,
        reads_to_log_end: bool = False,
        is_all_stable: bool = False,
    ) -> LogRead | Rejection:
        """Read complete stored batches from the one that contains ``offset`` on; the reader skips
        earlier records.

        Args:
            offset: The first offset to read.
            max_bytes: Stop before a batch that would exceed this, except with
                ``reads_one_batch_at_least``.
            isolation: Whether to stop at the last stable offset.
            reads_one_batch_at_least: Return the first batch even if it is larger (KIP-74).
            reads_to_log_end: For followers: all records, with any ``isolation``.
            is_all_stable: Whether the reader found shortly before that no transaction was open
                below the high watermark, and assumes it for records replicated since (KAFKA-9807).
        """
        local_log = self.local
        if not self.log_start_offset <= offset <= local_log.end_offset:
            return Rejection(
                error=ErrorCode.offset_out_of_range,
                reason=f"{self.topic_partition} has offsets {self.log_start_offset} to "
                f"{local_log.end_offset}, asked for {offset}",
            )
        last_stable_offset = self.high_watermark if is_all_stable else self.last_stable_offset
        is_committed = isolation == IsolationLevel.READ_COMMITTED and not reads_to_log_end
        if reads_to_log_end:
            upper_offset = local_log.end_offset
        else:
            upper_offset = last_stable_offset if is_committed else self.high_watermark
        span = None
        if offset < upper_offset:
            span = local_log.segments.read(
                offset,
                upper_offset,
                max_bytes=max_bytes,
                reads_one_batch_at_least=reads_one_batch_at_least,
            )
        aborted_txns: tuple[AbortedTxn, ...] | None = () if is_committed else None
        if is_committed and span is not None:
            aborted_txns = local_log.aborted_in(offset, span)
        return LogRead(
            records=() if span is None else tuple(span.batches),
            size=0 if span is None else span.size,
            cut_batch=b"" if span is None else span.cut_batch,
            high_watermark=self.high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=self.log_start_offset,
            aborted=aborted_txns,
        )

    def readable_bytes(
        self, offset: int, isolation: IsolationLevel, *, reads_to_log_end: bool = False
    ) -> int:
        """The number of bytes that a read from ``offset`` could return: a waiting Fetch compares it
        with its MinBytes.
        """
        upper_offset = self.latest_offset(isolation, reads_to_log_end=reads_to_log_end)
        if not self.log_start_offset <= offset < upper_offset:
            return 0
        return self.local.readable_bytes(offset, upper_offset)

    def latest_offset(self, isolation: IsolationLevel, *, reads_to_log_end: bool = False) -> int:
        """ListOffsets LATEST: the end of the records that this reader may see."""
        if reads_to_log_end:
            return self.local.end_offset
        if isolation == IsolationLevel.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def offset_for_timestamp(
        self, timestamp_ms: int, isolation: IsolationLevel, *, reads_to_log_end: bool = False
    ) -> Steps[TimestampOffset | None]:
        """The first record with a timestamp of at least ``timestamp_ms``; None if it is beyond what
        the reader may see.
        """
        timestamp_and_offset = yield from first_at_or_after(
            self.local.segments, timestamp_ms, start_offset=self.log_start_offset
        )
        return self._timestamp_offset(
            timestamp_and_offset, self.latest_offset(isolation, reads_to_log_end=reads_to_log_end)
        )

    def offset_of_max_timestamp(
        self, isolation: IsolationLevel, *, reads_to_log_end: bool = False
    ) -> Steps[TimestampOffset | None]:
        """The record with the largest timestamp (KIP-734), including deleted records whose segment
        still exists.
        """
        timestamp_and_offset = yield from first_of_max(self.local.segments)
        return self._timestamp_offset(
            timestamp_and_offset, self.latest_offset(isolation, reads_to_log_end=reads_to_log_end)
        )

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The end offset of the epoch, or of the largest known epoch below it
        (OffsetForLeaderEpoch).
        """
        epoch, end_offset = self.epochs.end_offset_for(
            leader_epoch, log_end_offset=self.local.end_offset
        )
        return EpochEndOffset(leader_epoch=epoch, end_offset=end_offset)

    def has_late_transaction(self, now_ms: int, max_timeout_ms: int) -> bool:
        """Whether a transaction has been open longer than any timeout allows (KIP-664)."""
        oldest_timestamp_ms = self.producers.state.oldest_transaction_timestamp()
        return (
            oldest_timestamp_ms > 0
            and now_ms - oldest_timestamp_ms > max_timeout_ms + LATE_TRANSACTION_GRACE_MS
        )

    def batches(self, start_offset: int = 0) -> Iterator[bytes]:
        """Stored batches from the one that contains ``start_offset`` on, committed or not."""
        return self.local.segments.batches(start_offset)

    def batch_timestamp_at(self, offset: int) -> int | None:
        """Largest timestamp of the batch that contains an offset; None if it is deleted."""
        if not self.log_start_offset <= offset < self.local.end_offset:
            return None
        batch = self.local.segments.batch_at(offset)
        if batch is None:
            return None
        header = read_batch_header(batch)
        return header.max_timestamp_ms if header.base_offset <= offset else None

    def snapshot(self) -> LogState:
        """The complete state besides the bytes, as a value."""
        self.producers.finish_reload()
        producers = self.producers.state
        return LogState(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.local.end_offset,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            producers=producers.images(),
            ongoing=producers.ongoing(),
            unreplicated=producers.unreplicated_txns(),
            aborted=self.local.index.entries(),
            leader_epochs=self.epochs.entries(),
        )

    def check_invariants(self) -> None:
        """Compare the state with the bytes and with itself; for tests and simulations.

        Raises:
            InvariantViolation: A condition is violated; the message names it.
        """
        invariants.check(self.snapshot(), tuple(self.batches()), log_name=str(self.topic_partition))

    # Commands: a new batch

    def append(self, batch: ReplicatedBatch, *, now_ms: int) -> None:
        """Store a batch that has its offsets, and update all derived state. Every append goes
        through here: batches that a leader has checked (``txnsim.log.leader_append``), and those
        that a follower copies (AppendOrigin.REPLICATION).

        Raises:
            InvariantViolation: The batch is below the log end.
        """
        local_log, config, base_offset, last_offset = (
            self.local,
            self.config,
            batch.base_offset,
            batch.last_offset,
        )
        if base_offset < local_log.end_offset:
            raise InvariantViolation(
                f"{self.topic_partition}: a batch begins at {base_offset}, below the log end"
                f" {local_log.end_offset}"
            )
        batch_bytes, timestamp_ms = batch.batch_bytes, batch.timestamp_ms
        if not local_log.segments.active.append(
            batch_bytes,
            base_offset,
            last_offset,
            max_timestamp=timestamp_ms,
            now_ms=now_ms,
            config=config,
        ):
            self._roll(base_offset, now_ms)
            active_segment = local_log.segments.active
            active_segment.append(
                batch_bytes, base_offset, last_offset, max_timestamp=timestamp_ms, now_ms=now_ms
            )
        local_log.end_offset = last_offset + 1
        if local_log.tail is not None:
            local_log.tail.append(batch)
        if batch.leader_epoch > self.epochs.latest:
            self.epochs.assign(batch.leader_epoch, base_offset)
        if batch.producer_id >= 0:
            producer_manager = self.producers
            aborted_txn = producer_manager.state.apply(batch)
            if aborted_txn is not None:
                local_log.index.append(aborted_txn)
            verification_entries = producer_manager.verification
            if batch.is_transactional and batch.producer_id in verification_entries.entries:
                if not batch.is_control:  # the transaction is open here: the guard has served
                    del verification_entries.entries[batch.producer_id]
                else:
                    keeps_guard, producer_epoch = (
                        config.rules.own_epoch_marker_keeps_guard,
                        batch.producer_epoch,
                    )
                    verification_entries.on_marker(
                        batch.producer_id, producer_epoch, spares_own_epoch=keeps_guard
                    )
        allowance = self.allowance
        if allowance is not None:
            allowance.bytes_left -= len(batch_bytes)
            if allowance.bytes_left < 0:
                allowance.on_exceeded()

    # Commands: who writes

    def become_leader(self, leader_epoch: int) -> None:
        """Become leader in this epoch (Partition.makeLeader). Verifications that this replica
        started during its last leadership stay valid.
        """
        if leader_epoch < self.leader_epoch:
            raise InvariantViolation(
                f"{self.topic_partition}: leader epoch {leader_epoch} after {self.leader_epoch}"
            )
        if leader_epoch > self.leader_epoch:
            self.leader_epoch_start_offset = self.local.end_offset
        self.leader_epoch = leader_epoch
        self.epochs.assign(leader_epoch, self.local.end_offset)
        self.producers.finish_reload()

    def become_follower(self, leader_epoch: int) -> None:
        """Become follower of another replica in this epoch (Partition.makeFollower)."""
        self.leader_epoch = leader_epoch
        self.producers.finish_reload()
        self.local.drop_tail()

    # Commands: bounds

    def delete_records_before(self, offset: int) -> int | Rejection:
        """Raise the log start offset (DeleteRecords); -1 stands for the high watermark.

        Producers are kept, including those whose records are all deleted (KIP-360), and so are open
        transactions that began below.

        Returns:
            The new log start offset.
        """
        if offset == -1:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            return Rejection(
                error=ErrorCode.offset_out_of_range,
                reason=f"{self.topic_partition}: can't delete up to {offset}, the high watermark "
                f"is {self.high_watermark}",
            )
        self.raise_log_start(offset)
        return self.log_start_offset

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark: everything below ``offset`` is replicated. Return whether it
        changed. It never falls here, and never exceeds the log end.
        """
        if offset > self.local.end_offset:
            offset = self.local.end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        producer_state = self.producers.state
        if producer_state.ended:
            producer_state.release_below(offset)
        return True

    def raise_log_start(self, offset: int) -> bool:
        """Delete the records below ``offset``, but none above the high watermark; returns whether
        anything changed (UnifiedLog.maybeIncrementLogStartOffset).

        The next ``delete_old_segments`` removes segments below it.
        """
        if not self.log_start_offset < offset <= self.high_watermark:
            return False
        self.log_start_offset = offset
        self.producers.state.release_below(offset)
        if not self.config.rules.producers_outlive_records:
            self.producers.state.evict_below(offset)
        self.epochs.drop_before(offset)
        return True

    def follow_high_watermark(self, high_watermark: int) -> bool:
        """Take over the leader's high watermark, up to this log's end; returns whether it changed.

        It may fall: until its followers have fetched, a new leader knows less than the previous one
        (UnifiedLog.maybeUpdateHighWatermark).
        """
        log_end, log_start = self.local.end_offset, self.log_start_offset
        offset = high_watermark if high_watermark < log_end else log_end
        if offset < log_start:
            offset = log_start
        offset_before, self.high_watermark = self.high_watermark, offset
        producer_state = self.producers.state
        if producer_state.ended and offset > offset_before:
            producer_state.release_below(offset)
        return offset != offset_before

    # Commands: a follower cuts off, a broker starts

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Truncate the log to ``offset`` and rebuild the derived state (UnifiedLog.truncateTo)."""
        self.begin_truncation(offset, now_ms=now_ms)
        self.producers.finish_reload()

    def begin_truncation(self, offset: int, *, now_ms: int) -> Iterator[int]:
        """Like ``truncate_to``, but the state of producers is rebuilt in steps
        (``producers.begin_reload``).
        """
        local_log = self.local
        if offset >= local_log.end_offset:
            # An epoch that began here and wrote nothing contradicts the leader's log all the same:
            # kept, both would go on parting at the end of this log for ever.
            self.epochs.truncate_to(local_log.end_offset)
            return iter(())
        if offset < local_log.segments.first_base_offset:
            self.restart_at(offset, now_ms=now_ms)
            return iter(())
        local_log.truncate_to(offset, now_ms=now_ms)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.epochs.truncate_to(offset)
        return self._begin_reload(now_ms)

    def restart_at(self, offset: int, *, now_ms: int) -> None:
        """Drop everything; the next record will have this offset
        (UnifiedLog.truncateFullyAndStartAt).
        """
        self.local.restart_at(offset, self.config, now_ms=now_ms)
        self.producers.restart()
        self.epochs = EpochCache()
        self.log_start_offset = offset
        self.high_watermark = offset

    def reopen(self, high_watermark: int, *, log_start_offset: int, now_ms: int) -> None:
        """Reopen the log when its broker starts. In-memory state is lost: the high watermark and
        the log start come from checkpoints, the producers from a snapshot at the log end.

        There always is such a snapshot: a clean stop writes it, and recovery takes one after the
        last segment (LogLoader.recoverSegment).

        Args:
            high_watermark: The value in the checkpoint.
            log_start_offset: The value in the checkpoint, 0 if it has none. A log that ends below
                is emptied.
            now_ms: The cluster's time: producers may have expired.
        """
        self.producers.verification.clear()
        self.local.drop_tail()
        if self.local.end_offset < log_start_offset:
            self.restart_at(log_start_offset, now_ms=now_ms)
        self.begin_at(log_start_offset)
        self.producers.take_snapshot(self.local.end_offset)
        self.reload_producers(now_ms)
        self.follow_high_watermark(high_watermark)

    def begin_at(self, log_start_offset: int) -> None:
        """Set the log start offset, to at least the first segment's; nothing counts as replicated
        yet.
        """
        self.log_start_offset = max(log_start_offset, self.local.segments.first_base_offset)
        self.high_watermark = self.log_start_offset

    def reload_producers(self, now_ms: int) -> None:
        """Rebuild the producers' state from the newest snapshot and the batches after it
        (UnifiedLog.rebuildProducerState).
        """
        self._begin_reload(now_ms)
        self.producers.finish_reload()

    def _begin_reload(self, now_ms: int) -> Iterator[int]:
        return self.producers.begin_reload(
            self.local.segments,
            start_offset=self.log_start_offset,
            end_offset=self.local.end_offset,
            now_ms=now_ms,
            expiration_ms=self.config.producer_id_expiration_ms,
            read_released_below=lambda: self.high_watermark,
        )

    # Commands: upkeep

    def expire_producers(self, now_ms: int) -> tuple[int, ...]:
        """Remove producers and verification entries that have been idle for
        ``producer.id.expiration.ms``; returns the producers' ids.

        Idle time counts from the timestamp of a producer's last batch, which its client has chosen.
        """
        expiration_ms = self.config.producer_id_expiration_ms
        self.producers.verification.expire(now_ms=now_ms, expiration_ms=expiration_ms)
        return self.producers.state.expire(
            now_ms=now_ms,
            expiration_ms=expiration_ms,
            do_markers_count=self.config.rules.markers_renew_producers,
        )

    def roll(self, now_ms: int) -> None:
        """End the active segment, unless it is empty (UnifiedLog.roll)."""
        if len(self.local.segments.active):
            self._roll(self.local.end_offset, now_ms)

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove the oldest segments: those below the log start, and by size and age if
        ``cleanup.policy`` has ``delete``. Return their number (UnifiedLog.deleteOldSegments).

        Nothing at or above the high watermark is removed. The age of a segment is that of its
        youngest record.
        """
        segments, config = self.local.segments, self.config

        def is_below_log_start(segment: Segment) -> bool:
            return 0 <= segments.higher_base_offset(segment, -1) <= self.log_start_offset

        removed_count = self._delete_while(is_below_log_start, now_ms)
        if not config.is_deleted:
            return removed_count
        excess_bytes = segments.size_bytes - config.retention_bytes

        def is_excess(segment: Segment) -> bool:
            nonlocal excess_bytes
            excess_bytes -= segment.size_bytes
            return excess_bytes >= 0

        if config.retention_bytes >= 0:
            removed_count += self._delete_while(is_excess, now_ms)
        if config.retention_ms >= 0:
            removed_count += self._delete_while(
                lambda segment: now_ms - segment.largest_timestamp > config.retention_ms, now_ms
            )
        return removed_count

    def replace_segments(
        self,
        old_segments: Sequence[Segment],
        cleaned_segment: Segment,
        aborted_txns: Sequence[AbortedTxn],
    ) -> bool:
        """Replace the segments ``old_segments`` by a cleaned one, with the aborted transactions
        that it still needs; returns whether they were still here (UnifiedLog.replaceSegments).
        """
        is_replaced = self.local.replace_segments(old_segments, cleaned_segment, aborted_txns)
        if is_replaced:
            for segment in old_segments[1:]:
                self.producers.snapshots.remove(segment.base_offset)
        return is_replaced

    # Parts

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """End the active segment, with a snapshot of the producers at the start of the next one."""
        self.local.roll(base_offset, self.config, now_ms=now_ms)
        self.producers.take_snapshot(base_offset)

    def _delete_while(self, may_delete: Callable[[Segment], bool], now_ms: int) -> int:
        """Delete the oldest segments up to the first one that has to stay; if all are deleted, a
        new active one begins.
        """
        local_log = self.local
        removable_segments = local_log.removable_segments(
            may_delete, end_offset=self.high_watermark
        )
        if not removable_segments:
            return 0
        if len(removable_segments) == len(local_log.segments):
            self._roll(local_log.end_offset, now_ms)
        self.raise_log_start(
            local_log.segments.higher_base_offset(removable_segments[-1], local_log.end_offset)
        )
        local_log.drop_first(len(removable_segments))
        for segment in removable_segments:
            self.producers.snapshots.remove(segment.base_offset)
        return len(removable_segments)

    def _timestamp_offset(
        self, timestamp_and_offset: tuple[int, int] | None, upper_offset: int
    ) -> TimestampOffset | None:
        """A record that was found by timestamp; None if it is beyond ``upper_offset``."""
        if timestamp_and_offset is None or timestamp_and_offset[1] >= upper_offset:
            return None
        timestamp_ms, offset = timestamp_and_offset
        # The epochs of deleted records are forgotten, but for what their batches say.
        batch = self.local.segments.batch_at(offset) if offset < self.log_start_offset else None
        return TimestampOffset(
            timestamp_ms=timestamp_ms,
            offset=offset,
            leader_epoch=self.epochs.epoch_of(offset)
            if batch is None
            else read_batch_header(batch).leader_epoch,
        )


# By time (UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp)
#
# There is no time index within a segment: the headers are scanned. Only tools and consumers that
# seek ask this, and a header costs less than a microsecond. Control records are found like others,
# as on a real broker. A batch may hold hundreds of thousands of records, so they are read in steps;
# the log may have changed in between, so the next batch is looked up again.

TimestampAndOffset = tuple[int, int]
"""(timestamp, offset) of a record."""

STEP_RECORDS: Final = 1_000
_RECORD_NS: Final = 800


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, *, start_offset: int
) -> Steps[TimestampAndOffset | None]:
    """The first record at or above offset ``start_offset`` with a timestamp of at least
    ``timestamp``.

    Only the first segment that reaches ``timestamp`` is searched, even if its records of that time
    are below ``start_offset``.
    """
    late_segments = (segment for segment in segments if segment.largest_timestamp >= timestamp)
    segment = next(late_segments, None)
    offset = start_offset
    while segment is not None:
        batch_index = _batch_index_of(segment, offset, timestamp)
        if batch_index is None:
            break
        offset = segment.last_offset(batch_index) + 1
        timestamp_and_offset = yield from _first_matching_stamp(
            segment.batch(batch_index),
            lambda timestamp_and_offset: (
                timestamp_and_offset[0] >= timestamp and timestamp_and_offset[1] >= start_offset
            ),
        )
        if timestamp_and_offset is not None:
            return timestamp_and_offset
    return None


def first_of_max(segments: Iterable[Segment]) -> Steps[TimestampAndOffset | None]:
    """The first record with the largest timestamp of the log."""
    segment = max(segments, key=lambda segment: segment.max_timestamp)
    max_timestamp = segment.max_timestamp
    batch_index = _batch_index_of(segment, segment.base_offset, max_timestamp)
    if batch_index is None:
        return None
    return (
        yield from _first_matching_stamp(
            segment.batch(batch_index),
            lambda timestamp_and_offset: timestamp_and_offset[0] == max_timestamp,
        )
    )


def _batch_index_of(segment: Segment, start_offset: int, timestamp: int) -> int | None:
    """The first batch with offsets of at least ``start_offset`` that reaches the timestamp."""
    for index in range(segment.index_of(start_offset), len(segment)):
        if max_timestamp_of(segment.batch(index)) >= timestamp:
            return index
    return None


def _first_matching_stamp(
    batch: bytes, is_wanted: Callable[[TimestampAndOffset], bool]
) -> Steps[TimestampAndOffset | None]:
    """The first matching record; if the codec's library is not installed, a match with the
    header's timestamps.
    """
    header = read_batch_header(batch)
    try:
        payload = yield from payload_in_steps(header, batch, DECOMPRESSED_MAX)
    except MissingExtraError:
        # No codec: the first record carries the base timestamp, and the record with the largest one
        # is unknown.
        header_stamps = (
            (header.base_timestamp_ms, header.base_offset),
            (header.max_timestamp_ms, header.last_offset),
        )
        return next(filter(is_wanted, header_stamps), None)
    for record_count, timestamp_and_offset in enumerate(timestamps_in(payload, header), start=1):
        if is_wanted(timestamp_and_offset):
            return timestamp_and_offset
        if not record_count % STEP_RECORDS:
            yield STEP_RECORDS * _RECORD_NS
    return None


# Which leader wrote from which offset on (Kafka's LeaderEpochFileCache, KIP-101).
#
# A list of (leader epoch, first offset), strictly rising in both. It answers where an epoch ended,
# which is how a follower finds the point at which its log parts from its leader's, and which epoch
# wrote an offset.

UNDEFINED_EPOCH: Final = -1


class EpochCache:
    """Leader epochs of one log, with their first offsets."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED_EPOCH
        """The latest epoch; -1 if there is none."""

    # Commands

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """Note that ``leader_epoch`` begins at ``start_offset``; contradicting entries are dropped.

        Nothing changes if the newest entry is of this epoch already
        (LeaderEpochFileCache.isUpdateNeeded).
        """
        assert leader_epoch >= 0
        assert start_offset >= 0
        if self._epochs and self._epochs[-1] == leader_epoch and self._starts[-1] <= start_offset:
            return
        while self._epochs and (
            self._epochs[-1] >= leader_epoch or self._starts[-1] >= start_offset
        ):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(leader_epoch)
        self._starts.append(start_offset)
        self.latest = leader_epoch

    def truncate_to(self, offset: int) -> None:
        """Drop epochs that begin at ``offset`` or above."""
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def drop_before(self, offset: int) -> None:
        """Adapt to a log start at ``offset``: drop epochs that ended before it, and let the one
        that spans it begin there.
        """
        covering_index = bisect_right(self._starts, offset) - 1
        if covering_index < 0:
            return
        del self._epochs[:covering_index]
        del self._starts[:covering_index]
        self._starts[0] = offset

    # Queries

    def end_offset_for(self, leader_epoch: int, *, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) for a requested epoch, by the rules of
        LeaderEpochFileCache.endOffsetFor.

        The epoch in the answer is the largest known one that is not above the requested one.
        """
        if leader_epoch == UNDEFINED_EPOCH or not self._epochs or leader_epoch > self._epochs[-1]:
            return (UNDEFINED_EPOCH, UNDEFINED_EPOCH)
        if leader_epoch == self._epochs[-1]:
            return (leader_epoch, log_end_offset)
        higher_index = bisect_right(self._epochs, leader_epoch)
        if higher_index == 0:
            return (leader_epoch, self._starts[0])
        return (self._epochs[higher_index - 1], self._starts[higher_index])

    def epoch_of(self, offset: int) -> int:
        """The epoch of ``offset``; -1 if it is before the first entry."""
        epoch_index = bisect_right(self._starts, offset) - 1
        return self._epochs[epoch_index] if epoch_index >= 0 else UNDEFINED_EPOCH

    def entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset) in ascending order."""
        return tuple(zip(self._epochs, self._starts, strict=True))
