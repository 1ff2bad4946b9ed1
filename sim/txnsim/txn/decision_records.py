"""The records that a finding of ``decision_audit`` concerns, from what a producer wrote to a
partition. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from txnsim.txn.decision_audit import AuditState, AuditVerdict
from txnsim.txn.decision_report import RecordsConcerned


class ProducerBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a producer on a partition."""

    base_offset: int
    last_offset: int
    producer_epoch: int
    is_control: bool
    is_commit: bool
    record_count: int
    max_timestamp_ms: int
    leader_epoch: int


def records_of(
    verdict: AuditVerdict, producer_epoch: int, batches: Sequence[ProducerBatch]
) -> RecordsConcerned | None:
    match verdict.state:
        case AuditState.NO_MARKER:
            return _unmarked_records(verdict, producer_epoch, batches)
        case AuditState.RECORDS_BEHIND:
            return _records_between(batches, _last_marker_offset(batches), None)
        case AuditState.EPOCH_BACK:
            return _records_of_older_epochs(batches)
        case AuditState.CONTRADICTS | AuditState.WITHOUT_DECISION:
            marker_offset = verdict.markers[0].offset
        case _:  # twice: what the repetition has ended
            marker_offset = verdict.markers[-1].offset
    return _records_between(batches, _marker_offset_before(batches, marker_offset), marker_offset)


def _unmarked_records(
    verdict: AuditVerdict, producer_epoch: int, batches: Sequence[ProducerBatch]
) -> RecordsConcerned | None:
    """The records of a decision without a marker; None if there are none. By transactions v2 they
    have its epoch, less one. In the old flow they lie in front of the first marker after the
    decision, or are open, and were written before the decision.
    """
    decision = verdict.decision
    assert decision is not None
    remaining_batches: list[ProducerBatch] = []
    for batch in batches:
        if not batch.is_control:
            is_own = (
                batch.producer_epoch == producer_epoch - 1
                if decision.by_epoch
                else batch.producer_epoch <= producer_epoch
            )
            remaining_batches += [batch] if is_own else []
            continue
        if remaining_batches and (decision.by_epoch or batch.max_timestamp_ms >= decision.at_ms):
            return _concern_of(_batches_before(remaining_batches, decision.at_ms), batch)
        remaining_batches = []
    return (
        _concern_of(_batches_before(remaining_batches, decision.at_ms), None)
        if remaining_batches
        else None
    )


def _batches_before(batches: Sequence[ProducerBatch], at_ms: int) -> Sequence[ProducerBatch]:
    """Batches that were written before a time, by their producer's clock; all of them if none was,
    as such a clock may be wrong.
    """
    return [batch for batch in batches if batch.max_timestamp_ms <= at_ms] or batches


def _records_of_older_epochs(batches: Sequence[ProducerBatch]) -> RecordsConcerned | None:
    newest_epoch = -1
    older_batches = []
    for batch in batches:
        if batch.producer_epoch < newest_epoch and not batch.is_control:
            older_batches.append(batch)
        newest_epoch = max(newest_epoch, batch.producer_epoch)
    if not older_batches:
        return None
    marker = next(
        (
            batch
            for batch in batches
            if batch.is_control and batch.base_offset > older_batches[-1].last_offset
        ),
        None,
    )
    return _concern_of(older_batches, marker)


def _concern_of(batches: Sequence[ProducerBatch], marker: ProducerBatch | None) -> RecordsConcerned:
    return RecordsConcerned(
        first_offset=batches[0].base_offset,
        last_offset=batches[-1].last_offset,
        records=sum(batch.record_count for batch in batches),
        ended_at=None if marker is None else marker.base_offset,
        ended_by_commit=None if marker is None else marker.is_commit,
    )


def _records_between(
    batches: Sequence[ProducerBatch], after_offset: int, marker_offset: int | None
) -> RecordsConcerned | None:
    own_batches = [
        batch
        for batch in batches
        if not batch.is_control
        and batch.base_offset > after_offset
        and (marker_offset is None or batch.base_offset < marker_offset)
    ]
    marker = next((batch for batch in batches if batch.base_offset == marker_offset), None)
    return _concern_of(own_batches, marker) if own_batches else None


def written_ms_of(
    concerned_records: RecordsConcerned | None, batches: Sequence[ProducerBatch]
) -> int | None:
    """When the first of some records was written, by its producer's clock."""
    if concerned_records is None:
        return None
    return next(
        batch.max_timestamp_ms
        for batch in batches
        if batch.base_offset == concerned_records.first_offset
    )


def _last_marker_offset(batches: Sequence[ProducerBatch]) -> int:
    return max((batch.base_offset for batch in batches if batch.is_control), default=-1)


def _marker_offset_before(batches: Sequence[ProducerBatch], marker_offset: int) -> int:
    return max(
        (
            batch.base_offset
            for batch in batches
            if batch.is_control and batch.base_offset < marker_offset
        ),
        default=-1,
    )
