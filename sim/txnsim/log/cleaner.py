"""Compaction: only the last value of each key remains (Kafka's Cleaner and LogCleanerManager).

A round has two passes. The first collects the last offset of each key in the *dirty* part, which no
earlier round has cleaned. The second rewrites every inactive segment below the end of that part,
without outdated records:

- records whose key occurs again, and records without a key;
- records of aborted transactions;
- tombstones, once a reader has had ``delete.retention.ms`` to see them: the first round that meets
  one writes that time, the *delete horizon*, into its batch (KIP-534);
- markers whose transaction has no batch left, by the same horizon.

Two batches stay in any case, emptied: the last batch of each producer, because it carries the
producer's sequence and epoch, and the batch that ends at the high watermark, because it carries the
offset up to which the log is known (before 4.4 the last batch of each round stayed). A round never
passes the last stable offset or reaches the active segment. If the dirty part has more keys than it
can remember, the round ends at the first one too many, inside a segment.

``clean`` is a generator that pauses after some work, so that no request waits for a whole round. It
reads segments that are no longer written, and replaces them by their cleaned copy in one step. A
compressed batch may be small and contain a lot, so the work on it is yielded first: it may run in a
thread beside the loop, because it needs only that batch and the round's own state.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from txnsim.log._segment import RELATIVE_OFFSET_MAX, Segment
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import ProducerEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.log.validation import is_heavy_to_check
from txnsim.wire.batch import (
    ABORT,
    COMMIT,
    BatchHeader,
    ControlRecord,
    read_batch_header,
    read_control_record,
)
from txnsim.wire.batch_rewrite import batch_keys, empty_batch, filtering_batch
from txnsim.wire.codec import run_to_end
from txnsim.wire.records import iter_records

T = TypeVar("T")

PAUSE_BYTES: Final = 65_536
"""Number of bytes read between two pauses."""
RECORD_COST_BYTES: Final = 512
"""Number of bytes that a record counts in addition to its size, because it takes some
microseconds.
"""
PAUSE_RECORDS: Final = 128
"""Number of records that are read or written between two pauses inside a batch."""
LONG_MAX: Final = 2**63 - 1


class DirtyPart(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a log that could be cleaned (LogToClean)."""

    first_dirty_offset: int
    end_offset: int
    """First offset that must not change: the base offset of a segment."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether something has waited for longer than ``max.compaction.lag.ms``."""

    @property
    def ratio(self) -> float:
        """Dirty bytes as a share of all cleanable bytes."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


def dirty_part_of(log: PartitionLog, now_ms: int) -> DirtyPart | None:
    """What a round could clean in this log; None if a round is not worth it
    (LogCleanerManager.grabFilthiestCompactedLog).
    """
    if len(log.local.segments) == 1:
        return None
    dirty_part = measure_dirty_part(log, now_ms)
    is_due = dirty_part.is_overdue or dirty_part.ratio > log.config.min_cleanable_dirty_ratio
    return dirty_part if is_due and dirty_part.dirty_bytes else None


class CompressedRecords(Generic[T]):
    """Work on compressed records, which a thread may do in advance."""

    def __init__(self, steps: Generator[int, None, T]) -> None:
        self._steps = steps
        self._results: list[T] = []

    def compress_in_advance(self) -> None:
        """Compress the records now, before ``result`` is asked for."""
        self._results.append(run_to_end(self._steps))

    def result(self) -> T:
        """The result, computed now unless ``compress_in_advance`` was called."""
        if not self._results:
            self.compress_in_advance()
        return self._results[0]


Pauses = Generator[CompressedRecords[Any] | None, None, T]
"""Yields work that may be done during the pause; None for a pause without work."""


def _in_pauses(record_steps: Generator[int, None, T], header: BatchHeader) -> Pauses[T]:
    """The result of steps over a batch; the work on a heavy batch is yielded."""
    if is_heavy_to_check((header,)):
        compressed_records = CompressedRecords(record_steps)
        yield compressed_records
        return compressed_records.result()
    if header.records_count <= PAUSE_RECORDS:
        return run_to_end(record_steps)
    steps_done = 0
    while True:
        try:
            steps_done += next(record_steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if steps_done >= PAUSE_RECORDS:
            steps_done = 0
            yield None


def clean(log: PartitionLog, dirty_part: DirtyPart, now_ms: int) -> Pauses[None]:
    """One round; pauses after each piece of work, and ends early if the log is truncated meanwhile.

    Yields:
        The work that comes next, if it is large.

    Raises:
        CorruptBatchError: A batch is unreadable, so the log can't be cleaned.
        MissingExtraError: Its codec needs a library that is not installed.
    """
    generation = log.local.generation
    key_offsets = _KeyOffsets(log.config.cleaner_keys_max)
    for compressed_records in key_offsets.note_dirty_keys(log, dirty_part):
        yield compressed_records
        if log.local.generation != generation:
            return
    cleaned_txns = CleanedTxns()
    for segment_group in _segment_groups(
        log.local.inactive_segments(0, key_offsets.end_offset), log, dirty_part.end_offset
    ):
        segment_rewriting = _SegmentRewriting(log, key_offsets, cleaned_txns, now_ms)
        for compressed_records in segment_rewriting.rewrite(segment_group):
            yield compressed_records
            if log.local.generation != generation:
                return
        if not log.replace_segments(segment_group, segment_rewriting.cleaned, cleaned_txns.kept):
            return
    log.local.cleaned_until = key_offsets.end_offset


# What could be cleaned


def first_uncleanable_offset(log: PartitionLog, now_ms: int) -> int:
    """The offset at which cleaning has to end: an open transaction, a record younger than
    ``min.compaction.lag.ms``, or the active segment (LogCleanerManager.cleanableOffsets).
    """
    first_dirty_offset = _first_dirty_offset(log)
    active_offset = log.local.active_base_offset
    uncleanable_offset = min(log.last_stable_offset, active_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        dirty_segments = log.local.inactive_segments(first_dirty_offset, active_offset)
        young_offsets = (
            segment.base_offset
            for segment in dirty_segments
            if segment.largest_timestamp > now_ms - lag_ms
        )
        uncleanable_offset = min(uncleanable_offset, next(young_offsets, uncleanable_offset))
    return max(first_dirty_offset, uncleanable_offset)


def _first_dirty_offset(log: PartitionLog) -> int:
    cleaned_until = log.local.cleaned_until
    if cleaned_until is None or not log.log_start_offset <= cleaned_until <= log.log_end_offset:
        return log.log_start_offset
    return cleaned_until


def measure_dirty_part(log: PartitionLog, now_ms: int) -> DirtyPart:
    """How much of a log is dirty and may be cleaned (LogCleanerManager.cleanableOffsets)."""
    first_dirty_offset = _first_dirty_offset(log)
    active_offset = log.local.active_base_offset
    dirty_segments = log.local.inactive_segments(first_dirty_offset, active_offset)
    uncleanable_offset = first_uncleanable_offset(log, now_ms)
    uncleanable_segments = log.local.inactive_segments(uncleanable_offset, active_offset)
    end_offset = uncleanable_segments[0].base_offset if uncleanable_segments else active_offset
    cleanable_segments = log.local.inactive_segments(
        min(first_dirty_offset, end_offset), end_offset
    )
    first_timestamps = [
        segment.first_timestamp for segment in dirty_segments if segment.first_timestamp > 0
    ]
    return DirtyPart(
        first_dirty_offset=first_dirty_offset,
        end_offset=end_offset,
        clean_bytes=sum(
            segment.size_bytes for segment in log.local.inactive_segments(0, first_dirty_offset)
        ),
        dirty_bytes=sum(segment.size_bytes for segment in cleanable_segments),
        is_overdue=bool(first_timestamps)
        and min(first_timestamps) < now_ms - log.config.max_compaction_lag_ms,
    )


def _segment_groups(
    segments: Sequence[Segment], log: PartitionLog, end_offset: int
) -> Iterator[list[Segment]]:
    """Adjacent segments that fit into one together, so that cleaning does not leave ever smaller
    ones (Cleaner.groupSegmentsBySize).
    """
    config = log.config
    segment_group: list[Segment] = []
    group_bytes = index_bytes = 0
    for index, segment in enumerate(segments):
        next_base_offset = (
            segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
        )
        fits_group = (
            group_bytes + segment.size_bytes <= config.segment_bytes
            and index_bytes + segment.index_bytes <= config.segment_index_bytes
            and (
                not segment.size_bytes
                or not segment_group
                or next_base_offset - 1 - segment_group[0].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if segment_group and not fits_group:
            yield segment_group
            segment_group, group_bytes, index_bytes = [], 0, 0
        segment_group.append(segment)
        group_bytes += segment.size_bytes
        index_bytes += segment.index_bytes
    if segment_group:
        yield segment_group


# First pass


class _KeyOffsets:
    """The last offset of each key in the dirty part, without aborted records (SkimpyOffsetMap,
    Cleaner.buildOffsetMap).
    """

    __slots__ = ("_keys_max", "end_offset", "offsets")

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self.offsets: dict[bytes, int] = {}
        self.end_offset = 0
        """End of the round: the keys of batches from there on are unknown."""

    def note_dirty_keys(self, log: PartitionLog, dirty_part: DirtyPart) -> Pauses[None]:
        """Collect the keys of the dirty part, up to the memory limit."""
        first_dirty_offset = self.end_offset = dirty_part.first_dirty_offset
        cleaned_txns = CleanedTxns()
        cleaned_txns.expect(log.local.index.lookup(first_dirty_offset, dirty_part.end_offset))
        work_bytes = 0
        segments = log.local.inactive_segments(first_dirty_offset, dirty_part.end_offset)
        next_offsets = [*(segment.base_offset for segment in segments[1:]), dirty_part.end_offset]
        for segment, next_offset in zip(segments, next_offsets, strict=False):
            for batch in segment.batches():
                header = read_batch_header(batch)
                if header.is_control:
                    cleaned_txns.on_control(header, read_control_record(batch))
                elif not cleaned_txns.on_data(header):
                    has_room = yield from _in_pauses(
                        self._note_batch_keys(batch, header, first_dirty_offset), header
                    )
                    if not has_room:
                        return
                self.end_offset = max(self.end_offset, header.last_offset + 1)
                work_bytes += header.size + header.records_count * RECORD_COST_BYTES
                if work_bytes >= PAUSE_BYTES:
                    work_bytes = 0
                    yield None
            self.end_offset = next_offset

    def _note_batch_keys(
        self, batch: bytes, header: BatchHeader, first_dirty_offset: int
    ) -> Generator[int, None, bool]:
        """Collect the keys of a batch; False if some did not fit. Yield after each."""
        for offset, key, _ in batch_keys(batch, header):
            yield 1
            if key is None or offset < first_dirty_offset:
                continue
            if len(self.offsets) >= self._keys_max:
                return False
            self.offsets[key] = offset
            self.end_offset = offset + 1
        return True


# Second pass


class _SegmentRewriting:
    """Rewrites a group of segments into one segment."""

    __slots__ = ("_end_offset", "_key_offsets", "_log", "_now_ms", "_producers", "_txns", "cleaned")

    def __init__(
        self, log: PartitionLog, key_offsets: _KeyOffsets, cleaned_txns: CleanedTxns, now_ms: int
    ) -> None:
        self._log = log
        self._key_offsets = key_offsets.offsets
        self._end_offset = key_offsets.end_offset
        self._txns = cleaned_txns
        self._now_ms = now_ms
        self._producers: dict[int, ProducerEntry] = {}
        """Producers at the start of the group (UnifiedLog.lastRecordsOfActiveProducers)."""
        self.cleaned = Segment(0)

    def rewrite(self, segment_group: Sequence[Segment]) -> Pauses[None]:
        """Fill ``cleaned`` from the group's batches (Cleaner.cleanSegments)."""
        self._producers = {
            producer.producer_id: producer for producer in self._log.producers.all_producers()
        }
        self._txns.kept = []
        self.cleaned = Segment(
            segment_group[0].base_offset,
            created_ms=segment_group[0].created_ms,
            index_interval_bytes=self._log.config.index_interval_bytes,
        )
        work_bytes = 0
        for index, segment in enumerate(segment_group):
            if index + 1 < len(segment_group):
                upper_offset = segment_group[index + 1].base_offset
            elif self._log.config.rules.half_cleaned_segments_are_indexed:
                upper_offset = segment.next_offset
            else:
                upper_offset = self._end_offset  # KAFKA-13727: the segment may go on behind it
            self._txns.expect(self._log.local.index.lookup(segment.base_offset, upper_offset))
            for batch in segment.batches():
                header = read_batch_header(batch)
                remaining_batch = yield from _in_pauses(
                    self._remaining_batch(batch, header), header
                )
                if remaining_batch is not None:
                    self.cleaned.append(
                        remaining_batch,
                        header.base_offset,
                        header.last_offset,
                        max_timestamp=header.max_timestamp_ms
                        if remaining_batch is batch
                        else read_batch_header(remaining_batch).max_timestamp_ms,
                        now_ms=segment.modified_ms,
                    )
                work_bytes += header.size + header.records_count * RECORD_COST_BYTES
                if work_bytes >= PAUSE_BYTES:
                    work_bytes = 0
                    yield None
        self.cleaned.modified_ms = segment_group[-1].modified_ms

    def _remaining_batch(
        self, batch: bytes, header: BatchHeader
    ) -> Generator[int, None, bytes | None]:
        """The remainder of a batch, None if nothing remains (MemoryRecords.filterTo); yields after
        records.
        """
        if header.is_control:
            is_idle = self._txns.on_control(header, read_control_record(batch))
            is_dropped = (
                is_idle and header.has_delete_horizon and header.base_timestamp_ms <= self._now_ms
            )
            is_dropped = is_dropped or self._is_mistaken_for_a_record(batch, header)
            surviving_offsets = None if is_dropped or not header.records_count else ALL_RECORDS
            needs_horizon = is_idle
        else:
            is_dropped = self._txns.on_data(header)
            surviving_offsets, needs_horizon = None, False
            if not is_dropped:
                surviving_offsets, needs_horizon = yield from self._surviving_offsets(batch, header)
        if surviving_offsets is None:
            if not self._must_remain(header):
                return None
            is_whole = header.is_control and self._log.config.rules.last_markers_stay_whole
            return batch if is_whole else empty_batch(header)
        needs_horizon = needs_horizon and not header.has_delete_horizon
        if surviving_offsets is ALL_RECORDS and not needs_horizon:
            return batch
        return (
            yield from self._filter_batch(
                batch, header, surviving_offsets, needs_horizon=needs_horizon
            )
        )

    def _surviving_offsets(
        self, batch: bytes, header: BatchHeader
    ) -> Generator[int, None, tuple[frozenset[int] | None, bool]]:
        """(surviving offsets or ``ALL_RECORDS``, whether a tombstone survives); None offsets if no
        record survives.
        """
        key_offsets = self._key_offsets
        is_young = not header.has_delete_horizon or self._now_ms < header.base_timestamp_ms
        surviving_offsets: list[int] = []
        has_tombstone = False
        for offset, key, has_value in batch_keys(batch, header):
            yield 1
            if offset < self._end_offset and (
                key is None or offset < key_offsets.get(key, -1) or not (has_value or is_young)
            ):
                continue
            surviving_offsets.append(offset)
            has_tombstone = has_tombstone or not has_value
        if not surviving_offsets:
            return None, False
        if len(surviving_offsets) == header.records_count:
            return ALL_RECORDS, has_tombstone
        return frozenset(surviving_offsets), has_tombstone

    def _is_mistaken_for_a_record(self, batch: bytes, header: BatchHeader) -> bool:
        """Whether a marker is removed because a newer record has its very key (before
        KAFKA-14055).
        """
        if self._log.config.rules.cleaner_spares_markers:
            return False
        return any(
            key is not None and offset < self._key_offsets.get(key, -1)
            for offset, key, _ in batch_keys(batch, header)
        )

    def _must_remain(self, header: BatchHeader) -> bool:
        """Whether the batch must stay because it is its producer's last one, or the last known one
        of the log.
        """
        is_newest = self._log.config.rules.rounds_leave_no_mark
        end_offset = self._log.high_watermark if is_newest else self._end_offset
        if header.last_offset + 1 == end_offset:
            return True
        if header.producer_id < 0:
            return False
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return False
        if producer.batches:
            return header.last_offset == producer.batches[-1].last_offset
        return header.is_control and header.producer_epoch == producer.producer_epoch

    def _filter_batch(
        self,
        batch: bytes,
        header: BatchHeader,
        surviving_offsets: frozenset[int],
        *,
        needs_horizon: bool,
    ) -> Generator[int, None, bytes]:
        horizon_ms = header.base_timestamp_ms if header.has_delete_horizon else None
        if needs_horizon:
            horizon_ms = min(LONG_MAX, self._now_ms + self._log.config.delete_retention_ms)
        records = iter_records(batch)
        if surviving_offsets is not ALL_RECORDS:
            records = (record for record in records if record.offset in surviving_offsets)
        return (yield from filtering_batch(header, records, delete_horizon_ms=horizon_ms))


ALL_RECORDS: Final[frozenset[int]] = frozenset((-1,))
"""Means that all records of a batch survive."""


class CleanedTxns:
    """The transactions around the current position (CleanedTransactionMetadata). It is called with
    each batch in order.

    Records of an aborted transaction are removed at once. Its marker may be removed only when no
    batch of it remains, or else a reader would take the remaining batches for an open transaction;
    the same holds for the marker of a committed one.
    """

    __slots__ = ("_aborted", "_committed", "_observed", "_upcoming_txns", "kept")

    def __init__(self) -> None:
        self._upcoming_txns: list[tuple[int, int, AbortedTxn]] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()
        """Producers of aborted transactions of which a batch was seen."""
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []
        """Aborted transactions whose marker was seen and has to stay: the transaction index of the
        cleaned part.
        """

    def expect(self, aborted_txns: Iterable[AbortedTxn]) -> None:
        """Add transactions that were aborted in the part that follows."""
        for aborted_txn in aborted_txns:
            heapq.heappush(
                self._upcoming_txns,
                (aborted_txn.first_offset, aborted_txn.last_offset, aborted_txn),
            )

    def on_control(self, header: BatchHeader, record: ControlRecord | None) -> bool:
        """Process a control batch; returns whether no remaining batch needs it."""
        self._advance_to(header.last_offset)
        if record is None:
            return True  # emptied before
        producer_id = header.producer_id
        if record.type == ABORT:
            aborted_txn = self._aborted.pop(producer_id, None)
            if aborted_txn is None or producer_id not in self._observed:
                return True
            self._observed.discard(producer_id)
            self.kept.append(aborted_txn)
            return False
        if record.type == COMMIT:
            if producer_id not in self._committed:
                return True
            self._committed.discard(producer_id)
        return False

    def on_data(self, header: BatchHeader) -> bool:
        """Process a batch of records; returns whether its transaction was aborted."""
        self._advance_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._observed.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def _advance_to(self, offset: int) -> None:
        upcoming_txns = self._upcoming_txns
        while upcoming_txns and upcoming_txns[0][0] <= offset:
            aborted_txn = heapq.heappop(upcoming_txns)[2]
            self._aborted.setdefault(aborted_txn.producer_id, aborted_txn)
