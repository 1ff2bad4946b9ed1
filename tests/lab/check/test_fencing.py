"""Judges of fencing and of coordinators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.told import FAILED, T0, T1, UNKNOWN, Told
from txnsim_lab.check._coordinators import stuck_coordinators, stuck_partitions
from txnsim_lab.check._fencing import false_fencing

WRONG_STATE: dict[str, Any] = {"outcome": FAILED, "error": "INVALID_TXN_STATE"}
FENCED: dict[str, Any] = {"outcome": FAILED, "error": "PRODUCER_FENCED"}


def in_a_transaction() -> Told:
    told = Told()
    told.initialised()
    told.began()
    told.wrote("T1", "r1", 0)
    return told


def test_told_that_it_never_began_what_it_had_begun() -> None:
    told = in_a_transaction()
    told.wait(5)
    ended = told.committed(**WRONG_STATE)
    (anomaly,) = false_fencing(told.history)
    assert anomaly.evidence == (1, ended)


def test_fenced_in_time_by_nobody() -> None:
    told = in_a_transaction()
    refused = told.wrote("T1", "r2", outcome=FAILED, error="INVALID_PRODUCER_EPOCH")
    told.wrote("T1", "r3", outcome=FAILED, error="INVALID_PRODUCER_EPOCH")
    (anomaly,) = false_fencing(told.history)
    assert anomaly.evidence == (1, refused)
    assert "timeout of 60000 ms had not passed" in anomaly.because


def test_fenced_because_it_took_too_long() -> None:
    told = in_a_transaction()
    told.wait(1)
    told.committed(**FENCED)
    assert false_fencing(told.history) == ()


def test_fenced_where_nobody_knows_the_timeout() -> None:
    told = Told()
    told.initialised(timeout_ms=None)
    told.began()
    told.committed(**FENCED)
    assert false_fencing(told.history) == ()


def test_the_timeout_as_last_told_counts() -> None:
    told = in_a_transaction()
    told.described("Ongoing", timeout_ms=1000)
    told.described("Ongoing", timeout_ms=None)
    told.described("Empty", transactional_id="another", timeout_ms=900_000)
    told.wait(0.1)
    told.committed(**FENCED)
    assert false_fencing(told.history) == ()


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param(lambda told: told.initialised("another"), id="replaced"),
        pytest.param(lambda told: told.initialised("another", outcome=UNKNOWN), id="perhaps"),
        pytest.param(lambda told: told.initialised(), id="initialised itself anew"),
        pytest.param(
            lambda told: told.initialised(outcome=FAILED, error="CONCURRENT_TRANSACTIONS"),
            id="an abort that was begun by initialising",
        ),
        pytest.param(lambda told: told.operator_aborted(), id="an operator's abort"),
        pytest.param(lambda told: told.aborted(), id="its own abort"),
        pytest.param(lambda told: told.committed(outcome=UNKNOWN), id="its own commit"),
    ],
)
@pytest.mark.parametrize("error", [WRONG_STATE, FENCED])
def test_reasons_for_the_error(reason: Callable[[Told], int], error: dict[str, str]) -> None:
    told = Told()
    told.initialised()
    told.began("T0")
    told.aborted("T0")
    told.began()
    told.wrote("T1", "r1", 0)
    reason(told)
    told.committed(**error)
    assert false_fencing(told.history) == ()


@pytest.mark.parametrize(
    "nothing",
    [
        pytest.param(lambda told: told.initialised("another", outcome=FAILED), id="refused"),
        pytest.param(
            lambda told: told.initialised("another", "another-id", producer_id=8), id="another id"
        ),
        pytest.param(lambda told: told.operator_aborted(producer_id=8), id="of another producer"),
        pytest.param(lambda told: told.operator_aborted(outcome=FAILED), id="a refused abort"),
        pytest.param(lambda told: told.committed("T9", outcome=UNKNOWN), id="of another id"),
    ],
)
def test_no_reasons(nothing: Callable[[Told], int]) -> None:
    told = in_a_transaction()
    told.began("T9", transactional_id="other")
    nothing(told)
    told.committed(**WRONG_STATE)
    assert len(false_fencing(told.history)) == 1


# What was under way


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda told: told.initialised("another", outcome=UNKNOWN), id="unknown"),
        pytest.param(lambda told: told.initialised("another"), id="acknowledged"),
        pytest.param(lambda told: told.operator_aborted(), id="an operator's abort"),
    ],
)
@pytest.mark.parametrize("error", [WRONG_STATE, FENCED])
def test_what_is_answered_later_may_have_been_under_way(
    answer: Callable[[Told], int], error: dict[str, str]
) -> None:
    told = in_a_transaction()
    told.committed(**error)
    assert len(false_fencing(told.history)) == 1
    answer(told)
    assert false_fencing(told.history) == ()


def test_what_was_refused_has_done_nothing_though_it_was_under_way() -> None:
    told = in_a_transaction()
    told.committed(**FENCED)
    told.initialised("another", outcome=FAILED)
    told.operator_aborted(producer_id=8)
    told.began("T2", "a third")
    assert len(false_fencing(told.history)) == 1


def test_what_was_asked_for_afterwards_was_not_under_way() -> None:
    told = in_a_transaction()
    told.committed(**FENCED)
    told.read(0, {}, 0, who="another")
    told.initialised("another")
    told.initialised()
    assert len(false_fencing(told.history)) == 1


def test_an_init_without_an_answer_may_come_after_the_next_one() -> None:
    told = Told()
    told.initialised("another", outcome=UNKNOWN)
    told.initialised()
    told.began()
    told.wrote("T1", "r1", 0)
    told.committed(**FENCED)
    assert false_fencing(told.history) == ()


def test_an_abort_of_a_producer_that_is_known_only_later_counts() -> None:
    told = Told()
    told.operator_aborted(outcome=UNKNOWN)
    told.initialised()
    told.began()
    told.wrote("T1", "r1", 0)
    told.committed(**FENCED)
    assert false_fencing(told.history) == ()


# Which identity was sent


def sent(epoch: int | None, producer_id: int = 7) -> dict[str, Any]:
    return {"producer_id": producer_id, "producer_epoch": epoch}


@pytest.mark.parametrize(
    ("identity", "false"),
    [
        pytest.param(sent(3), True, id="as it was given"),
        pytest.param(sent(2), False, id="an old epoch"),
        pytest.param(sent(4), False, id="an epoch to come"),
        pytest.param(sent(3, producer_id=8), False, id="another producer"),
        pytest.param({"producer_epoch": 3}, True, id="no producer is told"),
        pytest.param({"producer_id": 7}, True, id="no epoch is told"),
    ],
)
@pytest.mark.parametrize("error", [WRONG_STATE, FENCED])
def test_who_forges_its_identity_is_refused_rightly(
    identity: dict[str, Any], error: dict[str, str], *, false: bool
) -> None:
    told = Told()
    told.initialised(producer_epoch=3)
    told.began()
    told.wrote("T1", "r1", 0, **sent(3))
    told.committed(**error, **identity)
    assert bool(false_fencing(told.history)) is false


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(
            lambda told, **how: told.wrote(
                "T1", "r2", outcome=FAILED, error="PRODUCER_FENCED", **how
            ),
            id="a record",
        ),
        pytest.param(
            lambda told, **how: told.added(outcome=FAILED, error="PRODUCER_FENCED", **how),
            id="added",
        ),
        pytest.param(
            lambda told, **how: told.sent("T1", 5, outcome=FAILED, error="PRODUCER_FENCED", **how),
            id="a position",
        ),
    ],
)
def test_every_request_may_be_forged(end: Callable[..., int]) -> None:
    told = in_a_transaction()
    end(told, **sent(1))
    assert false_fencing(told.history) == ()
    told = in_a_transaction()
    end(told, **sent(0))
    assert len(false_fencing(told.history)) == 1


@pytest.mark.parametrize(
    ("following", "epoch", "false"),
    [
        pytest.param({"next_producer_epoch": 1}, 1, True, id="raised by the end"),
        pytest.param({"next_producer_epoch": 1}, 0, False, id="raised, and the old one was sent"),
        pytest.param({"next_producer_epoch": 0}, 0, True, id="not raised"),
        pytest.param({"next_producer_epoch": 0}, 1, False, id="not raised, and forged"),
        pytest.param({}, 0, True, id="not told: the same"),
        pytest.param({}, 1, True, id="not told: raised"),
        pytest.param({}, 2, False, id="not told: raised twice"),
        pytest.param(
            {"next_producer_id": 8, "next_producer_epoch": 0}, 0, False, id="of the producer before"
        ),
    ],
)
def test_an_end_may_raise_the_epoch(following: dict[str, int], epoch: int, *, false: bool) -> None:
    told = Told()
    told.initialised()
    told.began("T0")
    told.committed("T0", **sent(0), **following)
    told.began()
    told.committed(**FENCED, **sent(epoch))
    assert bool(false_fencing(told.history)) is false


def test_what_was_acknowledged_says_whether_the_epoch_was_raised() -> None:
    told = Told()
    told.initialised()
    told.began("T0")
    told.committed("T0", **sent(0))
    told.began()
    told.wrote("T1", "r1", 0, **sent(1))
    told.committed(**FENCED, **sent(0))
    assert false_fencing(told.history) == ()


@pytest.mark.parametrize(
    ("more", "false"),
    [
        pytest.param({}, False, id="taken"),
        pytest.param({"outcome": UNKNOWN}, False, id="perhaps"),
        pytest.param({"outcome": FAILED}, True, id="refused"),
    ],
)
def test_a_record_with_a_higher_epoch_fences_whoever_sent_it(
    more: dict[str, Any], *, false: bool
) -> None:
    told = in_a_transaction()
    told.wrote(None, "forged", 1, who="forger", **sent(5), **more)
    told.wrote("T1", "r2", outcome=FAILED, error="INVALID_PRODUCER_EPOCH", **sent(0))
    assert bool(false_fencing(told.history)) is false


# Who owns what


def test_who_does_not_own_the_id_is_fenced_rightly() -> None:
    told = Told()
    told.initialised()
    told.initialised("another", outcome=FAILED)
    told.initialised("another", outcome=UNKNOWN)
    told.began()
    told.committed(**FENCED)
    assert false_fencing(told.history) == ()


@pytest.mark.parametrize(("given", "false"), [(0, False), (1, True), (2, True)])
def test_of_two_who_ask_at_once_the_higher_epoch_came_later(given: int, *, false: bool) -> None:
    """Seed 4186: its answer overtook the other's."""
    told = Told()
    told.initialised("another", producer_epoch=1)
    told.initialised(producer_epoch=given)
    told.began()
    told.wrote("T1", "r1", producer_id=7, producer_epoch=given, **FENCED)
    assert bool(false_fencing(told.history)) is false


def test_who_has_the_higher_epoch_is_not_fenced_by_a_late_answer() -> None:
    told = Told()
    told.initialised(producer_epoch=1)
    told.initialised("another", producer_epoch=0)
    told.began()
    told.wrote("T1", "r1", producer_id=7, producer_epoch=1, **FENCED)
    assert false_fencing(told.history)


def test_an_abort_that_initialising_began_fences_whoever_had_the_id() -> None:
    told = Told()
    told.initialised()
    told.initialised("another", outcome=FAILED, error="CONCURRENT_TRANSACTIONS")
    told.began()
    told.committed(**FENCED)
    assert false_fencing(told.history) == ()


@pytest.mark.parametrize(
    ("before", "false"),
    [
        pytest.param([], False, id="nothing was ever acknowledged"),
        pytest.param([{"outcome": FAILED, "error": "NOT_COORDINATOR"}], False, id="refused"),
        pytest.param([{}], True, id="added"),
    ],
)
def test_a_producer_that_adds_partitions_must_have_had_one_added(
    before: list[dict[str, str]], *, false: bool
) -> None:
    told = Told()
    told.initialised()
    told.began()
    for more in before:
        told.added(**more)
    told.committed(**WRONG_STATE)
    assert bool(false_fencing(told.history)) is false


def test_a_record_that_was_taken_does_not_replace_a_refused_addition() -> None:
    told = Told()
    told.initialised()
    told.began()
    told.added(outcome=FAILED, error="CONCURRENT_TRANSACTIONS")
    told.wrote("T1", "r1", 0)
    told.committed(**WRONG_STATE)
    assert false_fencing(told.history) == ()


def test_a_refused_record_is_no_end() -> None:
    told = in_a_transaction()
    told.wrote("T1", "r2", **WRONG_STATE)
    assert false_fencing(told.history) == ()


def test_a_refused_end_of_another_kind_may_have_been_an_end() -> None:
    told = in_a_transaction()
    told.committed(outcome=FAILED, error="CONCURRENT_TRANSACTIONS")
    told.committed(**WRONG_STATE)
    assert false_fencing(told.history) == ()


def test_a_transaction_of_an_unknown_id_convicts_nobody() -> None:
    told = Told()
    told.initialised()
    told.wrote("T1", "r1", 0)
    told.committed(**WRONG_STATE)
    assert false_fencing(told.history) == ()


def test_reasons_are_asked_for_once_an_end_is_told() -> None:
    told = Told()
    told.initialised()
    told.began()
    told.wrote("T1", "r1", 0)
    told.initialised("another")
    told.wrote("T1", "r2", **FENCED)
    told.committed(**FENCED)
    told.committed(**FENCED)
    assert false_fencing(told.history) == ()


@pytest.mark.parametrize(
    ("end", "false"),
    [
        pytest.param({}, True, id="acknowledged"),
        pytest.param({"outcome": UNKNOWN}, False, id="nobody knows when it came"),
        pytest.param({"outcome": FAILED, "error": "NOT_COORDINATOR"}, False, id="refused"),
        pytest.param(None, False, id="left open, and perhaps timed out"),
    ],
)
def test_the_transaction_before_must_have_come_to_its_end(
    end: dict[str, Any] | None, *, false: bool
) -> None:
    told = Told()
    told.initialised()
    told.began("T0")
    if end is not None:
        told.aborted("T0", **end)
    told.began()
    told.wrote("T1", "r1", 0)
    told.committed(**FENCED)
    assert bool(false_fencing(told.history)) is false


def test_a_new_life_begins_without_old_debts() -> None:
    told = Told()
    told.initialised()
    told.began("T0")
    told.initialised()
    told.began()
    told.wrote("T1", "r1", 0)
    told.committed(**FENCED)
    assert len(false_fencing(told.history)) == 1


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
