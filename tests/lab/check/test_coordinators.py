from __future__ import annotations

from typing import Any

import pytest

from tests.support.told import FAILED, T0, T1, UNKNOWN, Told
from txnsim_lab.check._coordinators import stuck_coordinators, stuck_partitions

BUSY = "CONCURRENT_TRANSACTIONS"


def test_decided_for_longer_than_its_timeout_is_stuck() -> None:
    told = Told()
    first = told.described("PrepareCommit", T0, T1)
    told.wait(1.1)
    last = told.described("PrepareCommit", T1)
    (anomaly,) = stuck_coordinators(told.history)
    assert anomaly.evidence == (first, last)
    assert anomaly.because.startswith("app has been PrepareCommit for ")
    assert stuck_partitions(told.history) == {T0, T1}


def test_it_may_take_as_long_as_its_timeout() -> None:
    told = Told()
    told.described("PrepareCommit")
    told.wait(0.5)
    told.described("PrepareCommit")
    assert stuck_coordinators(told.history) == ()


@pytest.mark.parametrize(
    "other",
    [
        {"state": "PrepareAbort"},
        {"producer_epoch": 1},
        {"start_ms": 5},
        {"state": "CompleteCommit"},
        {"error": "NOT_COORDINATOR", "state": ""},
        {"transactional_id": "another"},
    ],
)
def test_another_transaction_or_state_begins_anew(other: dict[str, Any]) -> None:
    told = Told()
    told.described("PrepareCommit")
    told.wait(2)
    given: dict[str, Any] = {"state": "PrepareCommit"}
    told.described(**(given | other))
    assert stuck_coordinators(told.history) == ()


def test_an_answer_with_an_error_tells_nothing() -> None:
    told = Told()
    told.described("PrepareCommit")
    told.described("", error="COORDINATOR_LOAD_IN_PROGRESS")
    told.wait(2)
    told.described("PrepareCommit")
    assert len(stuck_coordinators(told.history)) == 1


def test_without_a_known_timeout_nobody_can_say_how_long_is_too_long() -> None:
    told = Told()
    told.described("PrepareCommit", timeout_ms=None)
    told.wait(60)
    told.described("PrepareCommit", timeout_ms=None)
    assert stuck_coordinators(told.history) == ()


def test_only_what_lasts_after_everything_was_healed_counts() -> None:
    told = Told()
    told.began()
    told.initialised(outcome=FAILED, error=BUSY)
    told.described("PrepareCommit")
    told.wait(10)
    told.healed()
    told.described("PrepareCommit")
    told.initialised(outcome=FAILED, error=BUSY)
    assert stuck_coordinators(told.history) == ()
    told.wait(2)
    told.described("PrepareCommit")
    assert len(stuck_coordinators(told.history)) == 1


def test_busy_for_longer_than_the_timeout_is_stuck() -> None:
    told = Told()
    told.initialised()
    told.began()
    first = told.added(outcome=FAILED, error=BUSY)
    told.committed(outcome=FAILED, error="NOT_COORDINATOR")
    told.wrote(None, "of somebody else", 0)
    told.wait(1.1)
    last = told.initialised(outcome=FAILED, error=BUSY)
    (anomaly,) = stuck_coordinators(told.history)
    assert anomaly.evidence == (first, last)
    assert f"app has been answered {BUSY}" in anomaly.because
    assert stuck_partitions(told.history) == set()


@pytest.mark.parametrize("label", ["T1", "T9"])
def test_an_answer_of_success_shows_that_it_goes_on(label: str) -> None:
    told = Told()
    told.initialised()
    told.began()
    told.added(outcome=FAILED, error=BUSY)
    told.sent(label, 5)
    told.wait(2)
    told.added(outcome=FAILED, error=BUSY)
    # T9 is nobody's: what became of it says nothing about this id.
    assert len(stuck_coordinators(told.history)) == (label == "T9")


def test_an_id_is_convicted_once() -> None:
    told = Told()
    told.initialised(outcome=FAILED, error=BUSY)
    told.described("PrepareCommit")
    told.wait(2)
    told.initialised(outcome=FAILED, error=BUSY)
    told.described("PrepareCommit")
    assert len(stuck_coordinators(told.history)) == 1


def test_an_unknown_outcome_between_two_answers_may_have_been_a_success() -> None:
    told = Told()
    told.initialised(outcome=FAILED, error=BUSY)
    told.initialised("another", outcome=UNKNOWN)
    told.wait(2)
    told.initialised(outcome=FAILED, error=BUSY)
    assert stuck_coordinators(told.history) == ()
    told.wait(2)
    told.initialised(outcome=FAILED, error=BUSY)
    assert len(stuck_coordinators(told.history)) == 1


@pytest.mark.parametrize(
    ("more", "start_ms", "stuck"),
    [
        pytest.param({}, None, False, id="granted"),
        pytest.param({"outcome": UNKNOWN}, None, False, id="perhaps granted"),
        pytest.param({"outcome": FAILED}, None, True, id="refused"),
        pytest.param({"transactional_id": "another"}, None, True, id="another's"),
        pytest.param({}, 5, True, id="the same transaction all along"),
    ],
)
def test_two_looks_without_a_start_are_of_one_transaction_if_nothing_was_granted(
    more: dict[str, Any], start_ms: int | None, *, stuck: bool
) -> None:
    told = Told()
    told.described("PrepareCommit", start_ms=start_ms)
    told.wrote(None, "plain", 0)
    told.initialised(**more)
    told.wait(2)
    told.described("PrepareCommit", start_ms=start_ms)
    assert bool(stuck_coordinators(told.history)) is stuck


def test_an_id_that_was_seen_once_is_not_stuck_whatever_its_timeout() -> None:
    told = Told()
    told.initialised(timeout_ms=-1)
    told.described("PrepareCommit", timeout_ms=None)
    assert stuck_coordinators(told.history) == ()


def test_a_stuck_coordinator_owes_what_any_of_its_answers_has_listed() -> None:
    told = Told()
    told.described("PrepareCommit", start_ms=0)
    told.described("PrepareCommit", T0, start_ms=0)
    told.described("Ongoing", T1, start_ms=0, transactional_id="another")
    told.wait(2)
    told.described("PrepareCommit", start_ms=0)
    assert stuck_partitions(told.history) == {T0}
