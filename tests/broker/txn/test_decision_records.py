"""The records that a finding concerns, from what a producer wrote to a partition."""

from __future__ import annotations

from typing import Final

import pytest

from txnsim.txn.decision_audit import AuditedDecision, AuditedMarker, AuditState, AuditVerdict
from txnsim.txn.decision_records import ProducerBatch, records_of, written_ms_of
from txnsim.txn.decision_report import RecordsConcerned


def data(offset: int, at_ms: int, *, epoch: int = 0, record_count: int = 2) -> ProducerBatch:
    return ProducerBatch(
        base_offset=offset,
        last_offset=offset + record_count - 1,
        producer_epoch=epoch,
        is_control=False,
        is_commit=False,
        record_count=record_count,
        max_timestamp_ms=at_ms,
        leader_epoch=0,
    )


def ending(offset: int, at_ms: int, *, epoch: int = 0, is_commit: bool = True) -> ProducerBatch:
    return ProducerBatch(
        base_offset=offset,
        last_offset=offset,
        producer_epoch=epoch,
        is_control=True,
        is_commit=is_commit,
        record_count=1,
        max_timestamp_ms=at_ms,
        leader_epoch=0,
    )


def verdict(
    state: AuditState, *marker_offsets: int, decided_ms: int = 250, by_epoch: bool = False
) -> AuditVerdict:
    return AuditVerdict(
        state=state,
        decision=AuditedDecision(
            coordinator=0, offset=0, at_ms=decided_ms, is_commit=True, by_epoch=by_epoch
        ),
        markers=tuple(
            AuditedMarker(offset=offset, at_ms=0, is_commit=True) for offset in marker_offsets
        ),
    )


OLD_FLOW: Final = (
    data(0, 100),
    ending(2, 150),
    data(3, 200),  # of the decision at 250, whose marker is missing
    data(5, 300),
    ending(7, 350, is_commit=False),
)


def test_without_a_marker_they_are_those_before_the_decision_up_to_the_next_marker() -> None:
    assert records_of(verdict(AuditState.NO_MARKER), 0, OLD_FLOW) == RecordsConcerned(
        first_offset=3, last_offset=4, records=2, ended_at=7, ended_by_commit=False
    )


def test_a_producers_wrong_clock_takes_all_of_them() -> None:
    batches = (data(0, 9_000), ending(2, 400))
    found_records = records_of(verdict(AuditState.NO_MARKER), 0, batches)
    assert found_records is not None
    assert (found_records.first_offset, found_records.records) == (0, 2)


@pytest.mark.parametrize("is_open", [False, True])
def test_by_transactions_v2_they_have_the_epoch_before(is_open: bool) -> None:
    batches = [data(0, 999, epoch=3), data(2, 1, epoch=4), ending(4, 50, epoch=5)]
    found_records = records_of(
        verdict(AuditState.NO_MARKER, by_epoch=True), 4, batches[: 2 if is_open else 3]
    )
    assert found_records is not None
    assert (found_records.first_offset, found_records.records) == (0, 2)
    assert found_records.ended_at == (None if is_open else 4)


def test_without_records_nothing_is_concerned() -> None:
    assert records_of(verdict(AuditState.NO_MARKER), 0, ()) is None
    assert records_of(verdict(AuditState.CONTRADICTS, 2), 0, OLD_FLOW[1:2]) is None
    assert written_ms_of(None, OLD_FLOW) is None


def test_of_a_wrong_marker_they_are_those_that_it_ended() -> None:
    found_records = records_of(verdict(AuditState.CONTRADICTS, 7), 0, OLD_FLOW)
    assert found_records == RecordsConcerned(
        first_offset=3, last_offset=6, records=4, ended_at=7, ended_by_commit=False
    )
    assert written_ms_of(found_records, OLD_FLOW) == 200


def test_of_a_repeated_marker_they_are_those_that_the_repetition_ended() -> None:
    batches = (data(0, 1), ending(2, 2), ending(3, 3))
    assert records_of(verdict(AuditState.TWICE, 2, 3), 0, batches) is None
    batches = (data(0, 1), ending(2, 2), data(3, 3), ending(5, 4))
    found_records = records_of(verdict(AuditState.TWICE, 2, 5), 0, batches)
    assert found_records is not None
    assert found_records.first_offset == 3


def test_behind_the_last_marker_they_are_open() -> None:
    found_records = records_of(verdict(AuditState.RECORDS_BEHIND), 0, OLD_FLOW[:3])
    assert found_records == RecordsConcerned(first_offset=3, last_offset=4, records=2)


def test_of_an_epoch_that_goes_back_they_are_the_older_ones() -> None:
    batches = (data(0, 1, epoch=1), ending(2, 2, epoch=1), data(3, 3), ending(5, 4, epoch=1))
    found_records = records_of(verdict(AuditState.EPOCH_BACK), 1, batches)
    assert found_records == RecordsConcerned(
        first_offset=3, last_offset=4, records=2, ended_at=5, ended_by_commit=True
    )


def test_without_an_older_epoch_nothing_has_gone_back() -> None:
    assert records_of(verdict(AuditState.EPOCH_BACK), 0, OLD_FLOW) is None
