from __future__ import annotations

import pytest

from tests.support.told import FAILED, UNKNOWN, Told
from txnsim_lab.check._dirty_reads import aborted_reads, intermediate_reads


def test_a_record_of_an_aborted_transaction_convicts_who_gave_it() -> None:
    told = Told()
    wrote = told.wrote("T1", "r1", outcome=UNKNOWN)
    ended = told.aborted()
    read = told.read(0, {5: "r1"}, 6)
    told.read(0, {5: "r1"}, 6)
    (anomaly,) = aborted_reads(told.history)
    assert anomaly.evidence == (wrote, ended, read)
    assert "'r1' at t-0@5" in anomaly.because


@pytest.mark.parametrize("outcome", [UNKNOWN, FAILED])
def test_who_asked_for_an_abort_and_never_for_a_commit_can_not_have_committed(
    outcome: str,
) -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.aborted(outcome=outcome)
    told.read(0, {0: "r1"}, 1)
    assert len(aborted_reads(told.history)) == 1


@pytest.mark.parametrize("other", [None, "T2"])
def test_a_value_that_somebody_else_may_have_committed_convicts_nobody(
    other: str | None,
) -> None:
    told = Told()
    told.wrote("T1", "r1", outcome=UNKNOWN)
    told.aborted("T1")
    told.wrote(other, "r1", outcome=UNKNOWN)
    told.read(0, {0: "r1", 1: "of nobody we know"}, 2)
    assert aborted_reads(told.history) == ()


def test_an_open_transaction_is_not_aborted() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.read(0, {0: "r1"}, 1)
    assert aborted_reads(told.history) == ()


def test_a_record_read_before_its_transaction_has_finished_writing_is_intermediate() -> None:
    told = Told()
    told.wrote("T1", "r0", 0, partition=1)
    early = told.wrote("T1", "r1", 1)
    read = told.read(0, {1: "r1"}, 2)
    told.wrote("T1", "r2", outcome=UNKNOWN)
    late = told.wrote("T1", "r3")
    told.committed()
    (anomaly,) = intermediate_reads(told.history)
    assert anomaly.evidence == (early, read, late)


@pytest.mark.parametrize(("asked_ms", "intermediate"), [(2000, False), (1999, False), (2001, True)])
def test_an_end_that_was_asked_for_in_time_excuses_even_what_follows(
    asked_ms: int, *, intermediate: bool
) -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.read(0, {0: "r1"}, 2)
    told.committed(asked_ms=asked_ms)
    told.wrote("T1", "r2", 2)
    assert bool(intermediate_reads(told.history)) is intermediate


def test_an_end_that_was_answered_before_the_rest_was_may_have_come_first() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.read(0, {0: "r1"}, 2)
    told.committed()
    told.wrote("T1", "r2", 2)
    assert intermediate_reads(told.history) == ()


def test_a_last_stable_offset_between_two_records_may_be_the_start_of_another() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.wrote("T2", "other", 1)
    told.wrote("T1", "r2", 2)
    told.committed("T1")
    told.read(0, {0: "r1"}, 1, high_watermark=4)
    assert intermediate_reads(told.history) == ()


def test_two_partitions_are_two_logs() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.read(0, {0: "r1"}, 2)
    told.wrote("T1", "r2", 5, partition=1)
    assert intermediate_reads(told.history) == ()


def test_a_record_is_not_that_of_a_transaction_in_which_it_was_refused() -> None:
    told = Told()
    told.wrote("T1", "r1", outcome=FAILED)
    told.wrote("T2", "r1", 0)
    told.read(0, {0: "r1"}, 1)
    told.wrote("T1", "r2", 2)
    assert intermediate_reads(told.history) == ()
    told.committed("T1")
    told.aborted("T2")
    assert len(aborted_reads(told.history)) == 1


def test_a_refused_record_that_is_read_all_the_same_is_of_its_transaction() -> None:
    told = Told()
    told.wrote("T1", "r1", outcome=FAILED)
    told.aborted("T1")
    told.read(0, {0: "r1"}, 1)
    assert len(aborted_reads(told.history)) == 1
