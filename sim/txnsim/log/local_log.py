"""The part of a log that is on disk: batches in segments, the index of aborted transactions, the
recovery point (Kafka's LocalLog).

It knows neither producers nor readers. Its owner, ``txnsim.log.partition_log``, decides when a
segment ends, what may be deleted and what a reader may see; the topic's configuration is an
argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.log._segment import Segment
from txnsim.log._segments import Segments, Span
from txnsim.log.config import LogConfig
from txnsim.log.replicated import describe_batch
from txnsim.log.txn_index import AbortedTxn, TxnIndex
from txnsim.types import TopicPartition

TAIL_BATCHES_MAX: Final = 64
"""Number of the newest batches whose descriptions are kept for followers; the headers of older ones
are read again.
"""
ENOUGH_BYTES: Final = 1 << 62
"""More bytes than any reader waits for."""


class WriteAllowance:
    """How many bytes all logs of a cluster may write before their sizes are measured.

    Every append takes its bytes from it, and nothing returns bytes: ``txnsim.replica.log_budget``
    measures the logs and sets how much may be written until the next time.
    """

    __slots__ = ("bytes_left", "on_exceeded")

    def __init__(self, bytes_left: int, on_exceeded: Callable[[], object]) -> None:
        self.bytes_left = bytes_left
        """Bytes that may still be written."""
        self.on_exceeded = on_exceeded
        """Called by the append that exceeds the budget, and by all later ones."""


class LocalLog:
    """The stored batches of one replica, with the indexes beside them.

    Other modules may read ``segments`` and ``index``, but only this class changes them. The
    exception is ``PartitionLog.append``, through which all appends go: it adds batches to the
    active segment.
    """

    __slots__ = (
        *("_topic_partition", "cleaned_until", "end_offset", "generation", "index"),
        *("recovery_point", "segments", "tail"),
    )

    def __init__(
        self, *, topic_partition: TopicPartition, start_offset: int, index_interval_bytes: int
    ) -> None:
        self._topic_partition = topic_partition
        self.segments = Segments(Segment(start_offset, index_interval_bytes=index_interval_bytes))
        self.index = TxnIndex()
        self.end_offset = start_offset
        """Offset of the next record."""
        self.recovery_point = start_offset
        """First offset that a machine failure may lose: everything below is on disk."""
        self.generation = 0
        """Counts truncations: work on old segments that runs in pieces stops when it changes
        (LogCleanerManager.abortCleaning).
        """
        self.cleaned_until: int | None = None
        """Offset up to which the log was cleaned (cleaner-offset-checkpoint); None before the first
        round.
        """
        self.tail: deque[ReplicatedBatch] | None = None
        """The newest batches with their descriptions, if the log has followers."""

    # Commands: at the new end

    def roll(self, base_offset: int, config: LogConfig, *, now_ms: int) -> None:
        """End the active segment, which is flushed to disk (LocalLog.roll)."""
        self.segments.add(self.new_segment(base_offset, config, now_ms=now_ms))
        self.recovery_point = max(self.recovery_point, self.end_offset)

    def new_segment(self, base_offset: int, config: LogConfig, *, now_ms: int) -> Segment:
        """A new empty segment with that base offset; it is not part of the log yet."""
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        if jitter_ms:
            # Kafka draws it. A number that follows from the place spreads rolls just as well, and a
            # run can be repeated.
            jitter_ms = crc32(f"{self._topic_partition}@{base_offset}".encode()) % jitter_ms
        return Segment(
            base_offset,
            created_ms=now_ms,
            roll_jitter_ms=jitter_ms,
            index_interval_bytes=config.index_interval_bytes,
        )

    def keep_tail(self) -> None:
        """Keep descriptions of new batches, because the log has followers."""
        if self.tail is None:
            self.tail = deque(maxlen=TAIL_BATCHES_MAX)

    def drop_tail(self) -> None:
        self.tail = None

    # Commands: what is cut off or exchanged

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Truncate the log to ``offset``, which must be inside it (LocalLog.truncateTo)."""
        self.segments.truncate_to(offset, now_ms=now_ms)
        self.index.truncate_to(offset)
        self.tail = None
        self.generation += 1
        if self.cleaned_until is not None:
            self.cleaned_until = min(self.cleaned_until, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.end_offset = offset

    def restart_at(self, offset: int, config: LogConfig, *, now_ms: int) -> None:
        """Drop everything; the next record will have this offset
        (LocalLog.truncateFullyAndStartAt).
        """
        self.segments = Segments(self.new_segment(offset, config, now_ms=now_ms))
        self.index = TxnIndex()
        self.tail = None
        self.generation += 1
        self.cleaned_until = None
        self.recovery_point = offset
        self.end_offset = offset

    def drop_first(self, count: int) -> None:
        """Drop the oldest ``count`` segments, but never all of them, with their index entries."""
        self.segments.drop_first(count)
        self.index.drop_before(self.segments.first_base_offset)

    def replace_segments(
        self,
        old_segments: Sequence[Segment],
        cleaned_segment: Segment,
        aborted_txns: Sequence[AbortedTxn],
    ) -> bool:
        """Replace the segments ``old_segments`` by a cleaned one, with the aborted transactions
        that it still needs; returns whether they were still here (LocalLog.replaceSegments).
        """
        end_offset = self.segments.higher_base_offset(old_segments[-1], self.end_offset)
        if not self.segments.replace_segments(old_segments, cleaned_segment):
            return False
        self.index.replace(old_segments[0].base_offset, end_offset, aborted_txns)
        kept_tail = self.tail
        while kept_tail and kept_tail[0].base_offset < end_offset:
            kept_tail.popleft()  # it describes a batch as it was before it was cleaned
        return True

    # Commands: what is on disk

    def flush(self) -> None:
        """Flush the whole log to disk (UnifiedLog.flush)."""
        self.recovery_point = self.end_offset

    def flush_up_to(self, offset: int) -> None:
        """Flush everything below ``offset`` to disk (UnifiedLog.flushUptoOffsetExclusive)."""
        self.recovery_point = max(self.recovery_point, min(offset, self.end_offset))

    def lose_flush(self, recovery_point: int) -> None:
        """Undo a flush: the records from ``recovery_point`` on are not on disk after all."""
        self.recovery_point = min(self.recovery_point, recovery_point)

    # Queries

    @property
    def active_base_offset(self) -> int:
        """Base offset of the segment that is written."""
        return self.segments.active.base_offset

    def inactive_segments(self, start_offset: int, end_offset: int) -> list[Segment]:
        """Inactive segments that may contain offsets of ``[start, end)``."""
        return self.segments.segments_between(
            start_offset, min(end_offset, self.active_base_offset)
        )

    def removable_segments(
        self, may_remove: Callable[[Segment], bool], *, end_offset: int
    ) -> list[Segment]:
        """The oldest segments up to the first one that must stay (UnifiedLog.deletableSegments)."""
        removable_segments: list[Segment] = []
        for segment in self.segments:
            next_base_offset = self.segments.higher_base_offset(segment, self.end_offset)
            is_empty_end = segment is self.segments.active and not len(segment)
            if end_offset < next_base_offset or not may_remove(segment) or is_empty_end:
                break
            removable_segments.append(segment)
        return removable_segments

    def base_of(self, offset: int) -> int:
        """Base offset of the batch that contains ``offset``; ``offset`` itself if none does."""
        segment_and_index = self.segments.segment_holding(offset)
        if segment_and_index is None:
            return offset
        segment, index = segment_and_index
        return min(segment.batch_base(index), offset)

    def batches_for_follower(
        self, offset: int, *, max_bytes: int, max_batches: int
    ) -> tuple[ReplicatedBatch, ...]:
        """Stored batches from ``offset`` to the log end; at least one, if there is any.

        New batches are passed on with their descriptions; headers are read only for older ones.
        """
        tail_batches = self.tail
        if tail_batches and tail_batches[0].base_offset <= offset:
            return _from_tail(tail_batches, offset, max_bytes)
        span = self.segments.read(
            offset, self.end_offset, max_bytes=max_bytes, reads_one_batch_at_least=True
        )
        return (
            ()
            if span is None
            else tuple([describe_batch(batch) for batch in span.batches[:max_batches]])
        )

    def aborted_in(self, offset: int, span: Span) -> tuple[AbortedTxn, ...]:
        """Aborted transactions for a read that begins at ``offset``.

        Kafka looks up the end of the returned bytes in its sparse offset index, and takes the
        segment's end if the index has no entry (LocalLog.addAbortedTransactions). So the result may
        contain transactions that the returned bytes do not reach.
        """
        end_offset = span.segment.offset_behind(span.reach_position)
        if end_offset is None:
            end_offset = self.segments.higher_base_offset(span.segment, self.end_offset)
        return self.index.lookup(offset, end_offset)

    def readable_bytes(self, offset: int, upper_offset: int) -> int:
        """Number of bytes that a read of ``[offset, upper)`` could return. A reader of an older
        segment does not wait (DelayedFetch.tryComplete).
        """
        if self.segments.is_older(offset, upper_offset):
            return ENOUGH_BYTES
        return self.segments.bytes_between(offset, upper_offset)


def _from_tail(
    tail: deque[ReplicatedBatch], offset: int, max_bytes: int
) -> tuple[ReplicatedBatch, ...]:
    tail_batches: list[ReplicatedBatch] = []
    for batch in reversed(tail):
        if batch.last_offset < offset:
            break
        tail_batches.append(batch)
    tail_batches.reverse()
    size_bytes = 0
    for index, batch in enumerate(tail_batches):
        size_bytes += len(batch.batch_bytes)
        if size_bytes > max_bytes and index:
            return tuple(tail_batches[:index])
    return tuple(tail_batches)
