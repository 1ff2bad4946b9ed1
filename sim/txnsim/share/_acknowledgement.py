"""Applies a member's acknowledgements to the records that it has acquired.

Each record changes its state at once, with the token of the write that persists the change: until
the write is answered, no member can acquire or acknowledge the record. If an acknowledgement is
refused, the caller undoes the changes made so far. A lock that was renewed before stays renewed, as
in Kafka.

Kafka's counterparts: SharePartition.acknowledge, acknowledgeBatchRecords, acknowledgeCompleteBatch,
acknowledgePerOffsetBatchRecords, fetchSubMapForAcknowledgementBatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.share._in_flight import InFlightBatches
from txnsim.share._in_flight_state import InFlightBatch, InFlightState
from txnsim.share.commands import (
    NULL_POINTER_REJECTION,
    TERMINAL,
    AcknowledgementBatch,
    AcknowledgeType,
    DeadLetterReason,
    RecordState,
    SharePartitionSettings,
)

STATE_AFTER: Final[Mapping[int, RecordState]] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
_ACKNOWLEDGE_TYPES: Final = frozenset(AcknowledgeType)
MovedStates = list[tuple[InFlightState, DeadLetterReason]]
"""(changed state, reason to use if its records become dead letters) pairs."""

_NOT_FOUND: Final = "Batch record not found. "
_NO_BATCH: Final = f"{_NOT_FOUND}The request batch offsets are not found in the cache."
_BATCH_NOT_ACQUIRED: Final = (
    "The batch cannot be acknowledged. The batch is not in the acquired state."
)
_NOT_ACQUIRED: Final = "The offset cannot be acknowledged. The offset is not acquired."
_NO_RENEWAL: Final = "Renewing acquisition locks is not enabled for the group."


@dataclass(slots=True, kw_only=True)
class Acknowledgement:
    """The acknowledgements of one request for one share partition."""

    records: InFlightBatches
    member_id: str
    settings: SharePartitionSettings
    token: int
    now_ms: int
    moved_states: MovedStates = field(default_factory=list)

    def carry_out(self, acknowledgement: AcknowledgementBatch) -> Rejection | None:
        """Acknowledge the records of one range; do nothing below the start offset."""
        allowed_lengths = {1, acknowledgement.last_offset - acknowledgement.first_offset + 1}
        if len(acknowledgement.types) not in allowed_lengths or not _ACKNOWLEDGE_TYPES.issuperset(
            acknowledgement.types
        ):
            reason = f"Invalid acknowledge type: {list(acknowledgement.types)}"
            return Rejection(error=ErrorCode.invalid_request, reason=reason)
        if acknowledgement.last_offset < self.records.start_offset:
            return None
        batches = self._find_batches(acknowledgement)
        if isinstance(batches, Rejection):
            return batches
        for batch in batches:
            if batch.last_offset >= self.records.start_offset:
                refusal = self._acknowledge_batch(acknowledgement, batch)
                if refusal is not None:
                    return refusal
        return None

    def _find_batches(
        self, acknowledgement: AcknowledgementBatch
    ) -> list[InFlightBatch] | Rejection:
        """The batches in flight that contain these offsets, apart from gaps between them."""
        first_offset, last_offset = acknowledgement.first_offset, acknowledgement.last_offset
        batches = self.records.batches_from_floor(first_offset, last_offset)
        if first_offset < self.records.start_offset:
            batches = self.records.batches_from_floor(self.records.start_offset, last_offset)
            if not batches:
                return NULL_POINTER_REJECTION
        if not batches:
            return _invalid_state(_NO_BATCH)
        if batches[-1].last_offset < first_offset:
            reason = f"{_NOT_FOUND}The first offset in request is past acquired records."
            return Rejection(error=ErrorCode.invalid_request, reason=reason)
        if batches[-1].last_offset < last_offset:
            reason = f"{_NOT_FOUND}The last offset in request is past acquired records."
            return Rejection(error=ErrorCode.invalid_request, reason=reason)
        return batches

    def _acknowledge_batch(
        self, acknowledgement: AcknowledgementBatch, batch: InFlightBatch
    ) -> Rejection | None:
        if not batch.is_by_offset:
            state = batch.states[0]
            if state.state is not RecordState.ACQUIRED:
                return _invalid_state(_BATCH_NOT_ACQUIRED)
            if state.member_id != self.member_id:
                return _invalid_state("Member is not the owner of batch record")
            is_whole = (
                len(acknowledgement.types) == 1
                and acknowledgement.first_offset <= batch.first_offset
                and batch.last_offset <= acknowledgement.last_offset
                and self.records.start_offset <= batch.first_offset
            )
            if is_whole:
                return self._apply_type(acknowledgement.types[0], state)
            batch.is_by_offset = True
        first_offset = max(
            acknowledgement.first_offset, self.records.start_offset, batch.first_offset
        )
        last_offset = min(acknowledgement.last_offset, batch.last_offset)
        for state in batch.states_within(first_offset, last_offset):
            if state.state is not RecordState.ACQUIRED:
                return _invalid_state(_NOT_ACQUIRED)
            if state.member_id != self.member_id:
                return _invalid_state("Member is not the owner of offset")
            part_start, part_end = (
                max(state.first_offset, first_offset),
                min(state.last_offset, last_offset),
            )
            for part_type, part_first, part_last in _split_by_type(
                acknowledgement, part_start, part_end
            ):
                for state_part in batch.cut_states(part_first, part_last):
                    refusal = self._apply_type(part_type, state_part)
                    if refusal is not None:
                        return refusal
        return None

    def _apply_type(self, acknowledge_type: int, state: InFlightState) -> Rejection | None:
        if acknowledge_type == AcknowledgeType.RENEW:
            if not self.settings.is_renew_enabled:
                return _invalid_state(_NO_RENEWAL)
            deadline_ms = self.now_ms + self.settings.record_lock_duration_ms
            self.records.lock(state, deadline_ms)
            return None
        state_after = STATE_AFTER[acknowledge_type]
        dead_letter_reason = DeadLetterReason.TOO_MANY_DELIVERIES
        if acknowledge_type == AcknowledgeType.REJECT and self.settings.has_dead_letter_topic:
            state_after = RecordState.ARCHIVING
            dead_letter_reason = DeadLetterReason.REJECTED
        state.move(state_after, self.settings, token=self.token)
        if state.state in TERMINAL:
            self.records.delivery_complete_count += state.last_offset - state.first_offset + 1
        self.moved_states.append((state, dead_letter_reason))
        return None


def _split_by_type(
    acknowledgement: AcknowledgementBatch, first_offset: int, last_offset: int
) -> Iterator[tuple[int, int, int]]:
    """Split a range into parts of one type each: (type, first offset, last offset)."""
    if len(acknowledgement.types) == 1:
        yield acknowledgement.types[0], first_offset, last_offset
        return
    base_offset = acknowledgement.first_offset
    types = acknowledgement.types[first_offset - base_offset : last_offset - base_offset + 1]
    for acknowledge_type, equal_types in groupby(types):
        run_length = sum(1 for _ in equal_types)
        yield acknowledge_type, first_offset, first_offset + run_length - 1
        first_offset += run_length


def _invalid_state(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_record_state, reason=reason)
