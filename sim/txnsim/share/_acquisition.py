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
from txnsim.share._in_flight import InFlightBatches
from txnsim.share._in_flight_state import InFlightBatch, InFlightState
from txnsim.share._locks import LockDeadline
from txnsim.share.commands import (
    AbortedRange,
    AcquireCommand,
    AcquiredRange,
    AcquireMode,
    AcquireResult,
    ReadBatch,
    RecordState,
    SharePartitionSettings,
)

_NONE_ACQUIRED = AcquireResult()
_LAST_DELIVERY_ALONE_ABOVE = 2
"""If the delivery count limit is higher, a record is delivered alone the last time."""


def acquire(
    records: InFlightBatches, command: AcquireCommand, settings: SharePartitionSettings, now_ms: int
) -> AcquireResult | Rejection:
    """Acquire as many records as possible of the batches that were read."""
    if command.max_records <= 0 or not command.batches:
        return _NONE_ACQUIRED
    last_offset = command.batches[-1].last_offset
    if last_offset < records.start_offset:
        return _NONE_ACQUIRED
    remaining_count = min(command.max_records, settings.max_record_locks - records.offset_count)
    if remaining_count <= 0:
        # No lock is left for new records. Those in flight have theirs.
        if command.fetch_offset > records.end_offset:
            return _NONE_ACQUIRED
        remaining_count = command.max_records
        last_offset = min(last_offset, records.end_offset)
    acquisition = _Acquisition(records, command, settings, now_ms, remaining_count)
    refusal = acquisition.take(last_offset)
    if refusal is not None:
        return refusal
    if not command.aborted:
        return AcquireResult(ranges=tuple(acquisition.ranges), count=acquisition.count)
    return _archive_aborted(records, command, acquisition.ranges)


@dataclass(slots=True)
class _Acquisition:
    """The acquisition of records by one member."""

    _records: InFlightBatches
    _command: AcquireCommand
    _settings: SharePartitionSettings
    _now_ms: int
    _remaining_count: int
    """Number of records that may still be acquired; negative if a batch was given beyond the
    limit.
    """
    ranges: list[AcquiredRange] = field(default_factory=list)
    count: int = 0

    @property
    def _is_strict(self) -> bool:
        return self._command.mode is AcquireMode.RECORD_LIMIT

    def _lock_state(self, state: InFlightState) -> None:
        self._records.lock(state, self._now_ms + self._settings.record_lock_duration_ms)

    def take(self, last_offset: int) -> Rejection | None:
        """Acquire records from the first batch that was read up to ``last_offset``."""
        records = self._records
        read_start = self._command.batches[0].base_offset
        first_offset = read_start
        _archive_cleaned(records, self._command.fetch_offset, read_start)
        floor_batch = records.floor_batch(first_offset)
        if floor_batch is None:
            first_offset = max(first_offset, records.start_offset)
        elif floor_batch.last_offset >= first_offset:
            first_offset = floor_batch.first_offset
        lowest_offset = min(read_start, first_offset)
        if lowest_offset > last_offset:
            # The records to fetch are cleaned away, and no lock is left for later records:
            # Kafka asks its map for a range that ends before it begins.
            return Rejection(error=ErrorCode.unknown_server_error, reason="inconsistent range")
        batches = records.batches_between(lowest_offset, last_offset)
        if not batches:
            self._acquire_new(first_offset, last_offset)
            return None
        is_throttled = self._acquire_in_flight(batches, first_offset, last_offset)
        if isinstance(is_throttled, Rejection):
            return is_throttled
        next_offset = batches[-1].last_offset + 1
        if not is_throttled and self._remaining_count > 0 and next_offset <= last_offset:
            self._acquire_new(next_offset, last_offset)
        if self.ranges:
            records.move_gap(self.ranges[-1].last_offset + 1)
        return None

    def _acquire_in_flight(
        self, batches: Sequence[InFlightBatch], gap_from: int, last_offset: int
    ) -> bool | Rejection:
        """Acquire available records in flight, and new records between them. Return whether
        throttling ends the acquisition.
        """
        read_start = self._command.batches[0].base_offset
        least_throttled_delivery_count = self._settings.throttled_from
        for batch in batches:
            if self._remaining_count <= 0:
                break
            if self._records.gap_start is not None:
                if gap_from < batch.first_offset:
                    self._acquire_new(gap_from, batch.first_offset - 1)
                gap_from = batch.last_offset + 1
                if self._remaining_count <= 0:
                    break
            states = batch.states
            if batch.is_by_offset:
                states = batch.states_within(read_start, last_offset)
            available_states = [state for state in states if state.is_acquirable]
            is_throttled = any(
                state.delivery_count >= least_throttled_delivery_count for state in available_states
            )
            if is_throttled and self.count:
                return True
            is_batch_within = read_start <= batch.first_offset and batch.last_offset <= last_offset
            is_too_large = self._is_strict and batch.size > self._remaining_count
            if is_batch_within and not batch.is_by_offset and not is_too_large and not is_throttled:
                for state in available_states:
                    self._acquire_state(state)
            elif available_states:
                batch.is_by_offset = True
                refusal = self._acquire_by_offset(batch, read_start, last_offset)
                if refusal is not None:
                    return refusal
                if is_throttled:
                    return True
        return False

    def _acquire_state(self, state: InFlightState) -> None:
        state.move(RecordState.ACQUIRED, self._settings, member_id=self._command.member_id)
        self._lock_state(state)
        record_count = state.last_offset - state.first_offset + 1
        self.count += record_count
        self._remaining_count -= record_count
        self.ranges.append(
            AcquiredRange(state.first_offset, state.last_offset, state.delivery_count)
        )

    def _acquire_by_offset(
        self, batch: InFlightBatch, first_offset: int, last_offset: int
    ) -> Rejection | None:
        """Acquire available records of this batch, fewer of them if they were delivered often."""
        delivery_limit = self._settings.delivery_count_limit
        record_limit = self._remaining_count
        throttled_count: int | None = None
        taken_count = 0
        ranges_before = len(self.ranges)
        for state in batch.states_within(first_offset, last_offset):
            if not state.is_acquirable:
                continue
            delivery_count = state.delivery_count
            is_last_delivery = (
                delivery_limit > _LAST_DELIVERY_ALONE_ABOVE and delivery_count == delivery_limit - 1
            )
            if is_last_delivery and taken_count:
                break
            excess_deliveries = delivery_count - self._settings.throttled_from
            if excess_deliveries >= 0 and throttled_count is None:
                throttled_count = max(1, batch.size >> (excess_deliveries + 1))
            part_start = max(state.first_offset, first_offset)
            part_count = (
                1 if is_last_delivery else min(state.last_offset, last_offset) - part_start + 1
            )
            if self._is_strict:
                part_count = min(part_count, record_limit - taken_count)
            if throttled_count is not None and throttled_count > taken_count:
                part_count = min(part_count, throttled_count - taken_count)
            if state.lock_deadline_ms is not None:
                return self._refuse_locked_record(batch, part_start)
            for state_part in batch.cut_states(part_start, part_start + part_count - 1):
                self._acquire_state(state_part)
            taken_count += part_count
            if (
                is_last_delivery
                or taken_count == throttled_count
                or (self._is_strict and taken_count == record_limit)
            ):
                break
        self.ranges[ranges_before:] = _join_ranges(self.ranges[ranges_before:])
        return None

    def _refuse_locked_record(self, batch: InFlightBatch, offset: int) -> Rejection:
        """The error for a record that is available and still has a lock: its batch was split while
        the record was being released.

        Kafka acquires the record, starts the timeout of another lock, and fails because of the
        existing one.
        """
        deadline_ms = self._now_ms + self._settings.record_lock_duration_ms
        self._records.locks.add(LockDeadline(deadline_ms, offset, offset, is_stray=True))
        for state in batch.cut_states(offset, offset):
            state.move(RecordState.ACQUIRED, self._settings, member_id=self._command.member_id)
        reason = "Existing acquisition lock timeout exists, cannot override."
        return Rejection(error=ErrorCode.unknown_server_error, reason=reason)

    def _acquire_new(self, first_offset: int, last_offset: int) -> None:
        """Acquire records that are not in flight yet."""
        records = self._records
        if not len(records) and records.end_offset > first_offset:
            first_offset = records.end_offset
        remaining_count = self._remaining_count
        if remaining_count < last_offset - first_offset + 1:
            batch_end = self._end_of_batch(first_offset + remaining_count - 1)
            last_offset = (
                min(batch_end, last_offset) if records.gap_start is not None else batch_end
            )
        is_batch_cut = self._is_strict and last_offset - first_offset + 1 > remaining_count
        if is_batch_cut:
            ranges = [self._add_partly_acquired(first_offset, last_offset, remaining_count)]
        else:
            ranges = self._add_batches(first_offset, last_offset)
        if records.first_batch.first_offset == first_offset:
            records.start_offset = first_offset
        records.end_offset = max(records.end_offset, last_offset)
        acquired_end = ranges[-1].last_offset
        records.move_gap(acquired_end + 1)
        self.ranges += ranges
        self.count += acquired_end - first_offset + 1
        self._remaining_count -= acquired_end - first_offset + 1

    def _end_of_batch(self, offset: int) -> int:
        """Last offset of the log's batch that contains this offset; the offset itself if no batch
        does.
        """
        for batch in self._command.batches:
            if batch.base_offset <= offset <= batch.last_offset:
                return batch.last_offset
        return offset

    def _add_batches(self, first_offset: int, last_offset: int) -> list[AcquiredRange]:
        """Adds new batches in flight: one, or several if it would be larger than ``batch_size``."""
        batch_starts = [first_offset]
        batch_size = self._command.batch_size
        if not self._is_strict and last_offset - first_offset + 1 > batch_size:
            for batch in self._command.batches:
                if batch_starts[-1] + batch_size <= batch.base_offset <= last_offset:
                    batch_starts.append(batch.base_offset)
        batch_ends = [*(offset - 1 for offset in batch_starts[1:]), last_offset]
        for batch_start, batch_end in zip(batch_starts, batch_ends, strict=True):
            if batch_start > batch_end:  # below a batch size of 1, Kafka's answer begins so
                continue
            state = self._new_state(batch_start, batch_end)
            self._records.add(state)
            self._lock_state(state)
        return [
            AcquiredRange(batch_start, batch_end, 1)
            for batch_start, batch_end in zip(batch_starts, batch_ends, strict=True)
        ]

    def _add_partly_acquired(
        self, first_offset: int, last_offset: int, acquired_count: int
    ) -> AcquiredRange:
        """Add a batch in flight, of which the member gets only the first records."""
        records = self._records
        state = self._new_state(first_offset, first_offset + acquired_count - 1)
        rest_state = InFlightState(
            first_offset + acquired_count, last_offset, RecordState.AVAILABLE, 0
        )
        records.add(state, rest_state)
        self._lock_state(state)
        records.needs_next_offset = True
        return AcquiredRange(first_offset, state.last_offset, 1)

    def _new_state(self, first_offset: int, last_offset: int) -> InFlightState:
        member_id = self._command.member_id
        return InFlightState(first_offset, last_offset, RecordState.ACQUIRED, 1, member_id)


def _join_ranges(ranges: Sequence[AcquiredRange]) -> list[AcquiredRange]:
    """Join adjacent ranges that have the same delivery count.

    Counterpart: ShareFetchUtils.accumulateAcquiredRecords.
    """
    joined_ranges: list[AcquiredRange] = []
    for acquired_range in ranges:
        previous_range = joined_ranges[-1] if joined_ranges else None
        delivery_count = acquired_range.delivery_count
        if previous_range and (previous_range.last_offset + 1, previous_range.delivery_count) == (
            acquired_range.first_offset,
            delivery_count,
        ):
            joined_ranges[-1] = AcquiredRange(
                previous_range.first_offset, acquired_range.last_offset, delivery_count
            )
        else:
            joined_ranges.append(acquired_range)
    return joined_ranges


def _archive_cleaned(records: InFlightBatches, fetch_offset: int, read_start: int) -> None:
    """Archive available records between the fetch offset and the first batch that was read:
    compaction has removed them from the log.
    """
    if fetch_offset >= read_start:
        return
    floor_batch = records.floor_batch(fetch_offset)
    lowest_offset = fetch_offset
    if floor_batch is not None and floor_batch.last_offset >= fetch_offset:
        lowest_offset = floor_batch.first_offset
    cleaned_batches = records.batches_between(lowest_offset, read_start - 1)
    if records.archive(cleaned_batches, fetch_offset, read_start - 1, RecordState.AVAILABLE):
        records.needs_next_offset = True


# Records of aborted transactions


def _archive_aborted(
    records: InFlightBatches, command: AcquireCommand, ranges: Sequence[AcquiredRange]
) -> AcquireResult | Rejection:
    """Archives records of aborted transactions, whichever member holds them; the member gets the
    others.
    """
    aborted_batches = list(_aborted_batches(command.batches, command.aborted))
    for batch in aborted_batches:
        base_offset, last_offset = batch.base_offset, batch.last_offset
        if records.floor_batch(base_offset) is None:
            # The start offset lies inside of this batch. Kafka gives up, and leaves the locks.
            return Rejection(
                error=ErrorCode.unknown_server_error,
                reason="Batch record not found. The request batch offsets are not found in the "
                "cache.",
            )
        records.archive(
            records.batches_from_floor(base_offset, last_offset),
            base_offset,
            last_offset,
            RecordState.ACQUIRED,
        )
    kept_ranges = tuple(_without_batches(ranges, aborted_batches))
    return AcquireResult(
        ranges=kept_ranges,
        count=sum(
            kept_range.last_offset - kept_range.first_offset + 1 for kept_range in kept_ranges
        ),
    )


def _aborted_batches(
    batches: Sequence[ReadBatch], aborted_ranges: Sequence[AbortedRange]
) -> Iterator[ReadBatch]:
    """The batches whose records a READ_COMMITTED reader drops; markers are not among them."""
    upcoming_ranges = deque(
        sorted(aborted_ranges, key=lambda aborted_range: aborted_range.first_offset)
    )
    aborted_producer_ids: set[int] = set()
    for batch in batches:
        while upcoming_ranges and upcoming_ranges[0].first_offset <= batch.last_offset:
            aborted_producer_ids.add(upcoming_ranges.popleft().producer_id)
        if batch.is_abort_marker:
            aborted_producer_ids.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in aborted_producer_ids:
            yield batch


def _without_batches(
    ranges: Sequence[AcquiredRange], batches: Sequence[ReadBatch]
) -> Iterator[AcquiredRange]:
    """The ranges without the offsets of the batches; both are in the order of offsets."""
    batch_index = 0
    for acquired_range in ranges:
        first_offset = acquired_range.first_offset
        if (
            first_offset > acquired_range.last_offset
        ):  # below a batch size of 1, Kafka's answer begins so
            yield acquired_range
        while (
            batch_index < len(batches)
            and batches[batch_index].base_offset <= acquired_range.last_offset
        ):
            batch = batches[batch_index]
            if batch.base_offset > first_offset:
                yield AcquiredRange(
                    first_offset, batch.base_offset - 1, acquired_range.delivery_count
                )
            first_offset = max(first_offset, batch.last_offset + 1)
            if batch.last_offset > acquired_range.last_offset:
                break
            batch_index += 1
        if first_offset <= acquired_range.last_offset:
            yield AcquiredRange(
                first_offset, acquired_range.last_offset, acquired_range.delivery_count
            )
