from __future__ import annotations

import pytest

from sim.check.dirty_reads import aborted_reads, intermediate_reads
from tests.support.told import FAILED, UNKNOWN, Told


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


def test_a_last_stable_offset_inside_of_a_transaction_is_seen_by_who_got_its_beginning() -> None:
    told = Told()
    told.wrote("T2", "x", 0)
    told.wrote("T1", "r1", 1)
    told.wrote("T1", "r2", 3)
    told.wrote("T1", "r3")
    told.read(2, {2: "between"}, 3)  # the place tells that something is wrong, but nothing came
    read = told.read(0, {0: "x", 1: "r1"}, 2)
    (anomaly,) = intermediate_reads(told.history)
    assert anomaly.evidence == (1, 2, read)


@pytest.mark.parametrize("stable", [1, 4, -1])
def test_before_or_behind_all_of_it_is_right(stable: int) -> None:
    told = Told()
    told.wrote("T1", "r1", 1)
    told.wrote("T1", "r2", 3)
    told.read(0, {1: "r1"}, 2, last_stable_offset=stable)
    assert intermediate_reads(told.history) == ()


def test_two_partitions_are_decided_one_after_the_other() -> None:
    told = Told()
    told.wrote("T1", "r1", 0)
    told.wrote("T1", "r2", 5, partition=1)
    told.read(0, {0: "r1"}, 2)
    assert intermediate_reads(told.history) == ()
