"""Judges of fencing and of coordinators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.hand_made_histories import FAILED, T0, T1, UNKNOWN, HistoryBuilder
from txnsim_lab.check._coordinators import stuck_coordinators, stuck_partitions
from txnsim_lab.check._fencing import false_fencing

WRONG_STATE: dict[str, Any] = {"outcome": FAILED, "error": "INVALID_TXN_STATE"}
FENCED: dict[str, Any] = {"outcome": FAILED, "error": "PRODUCER_FENCED"}


def in_a_transaction() -> HistoryBuilder:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    history_builder.write("T1", "r1", 0)
    return history_builder


def test_told_that_it_never_began_what_it_had_begun() -> None:
    history_builder = in_a_transaction()
    history_builder.wait(5)
    end_number = history_builder.commit(**WRONG_STATE)
    (anomaly,) = false_fencing(history_builder.history)
    assert anomaly.evidence == (1, end_number)


def test_fenced_in_time_by_nobody() -> None:
    history_builder = in_a_transaction()
    refused_number = history_builder.write(
        "T1", "r2", outcome=FAILED, error="INVALID_PRODUCER_EPOCH"
    )
    history_builder.write("T1", "r3", outcome=FAILED, error="INVALID_PRODUCER_EPOCH")
    (anomaly,) = false_fencing(history_builder.history)
    assert anomaly.evidence == (1, refused_number)
    assert "timeout of 60000 ms had not passed" in anomaly.because


def test_fenced_because_it_took_too_long() -> None:
    history_builder = in_a_transaction()
    history_builder.wait(1)
    history_builder.commit(**FENCED)
    assert false_fencing(history_builder.history) == ()


def test_fenced_where_nobody_knows_the_timeout() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise(timeout_ms=None)
    history_builder.begin()
    history_builder.commit(**FENCED)
    assert false_fencing(history_builder.history) == ()


def test_the_timeout_as_last_told_counts() -> None:
    history_builder = in_a_transaction()
    history_builder.describe("Ongoing", timeout_ms=1000)
    history_builder.describe("Ongoing", timeout_ms=None)
    history_builder.describe("Empty", transactional_id="another", timeout_ms=900_000)
    history_builder.wait(0.1)
    history_builder.commit(**FENCED)
    assert false_fencing(history_builder.history) == ()


@pytest.mark.parametrize(
    "reason_of",
    [
        pytest.param(lambda history_builder: history_builder.initialise("another"), id="replaced"),
        pytest.param(
            lambda history_builder: history_builder.initialise("another", outcome=UNKNOWN),
            id="perhaps",
        ),
        pytest.param(
            lambda history_builder: history_builder.initialise(), id="initialised itself anew"
        ),
        pytest.param(
            lambda history_builder: history_builder.initialise(
                outcome=FAILED, error="CONCURRENT_TRANSACTIONS"
            ),
            id="an abort that was begun by initialising",
        ),
        pytest.param(
            lambda history_builder: history_builder.abort_by_operator(), id="an operator's abort"
        ),
        pytest.param(lambda history_builder: history_builder.abort(), id="its own abort"),
        pytest.param(
            lambda history_builder: history_builder.commit(outcome=UNKNOWN), id="its own commit"
        ),
    ],
)
@pytest.mark.parametrize("error", [WRONG_STATE, FENCED])
def test_reasons_for_the_error(
    reason_of: Callable[[HistoryBuilder], int], error: dict[str, str]
) -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin("T0")
    history_builder.abort("T0")
    history_builder.begin()
    history_builder.write("T1", "r1", 0)
    reason_of(history_builder)
    history_builder.commit(**error)
    assert false_fencing(history_builder.history) == ()


@pytest.mark.parametrize(
    "nothing",
    [
        pytest.param(
            lambda history_builder: history_builder.initialise("another", outcome=FAILED),
            id="refused",
        ),
        pytest.param(
            lambda history_builder: history_builder.initialise(
                "another", "another-id", producer_id=8
            ),
            id="another id",
        ),
        pytest.param(
            lambda history_builder: history_builder.abort_by_operator(producer_id=8),
            id="of another producer",
        ),
        pytest.param(
            lambda history_builder: history_builder.abort_by_operator(outcome=FAILED),
            id="a refused abort",
        ),
        pytest.param(
            lambda history_builder: history_builder.commit("T9", outcome=UNKNOWN),
            id="of another id",
        ),
    ],
)
def test_no_reasons(nothing: Callable[[HistoryBuilder], int]) -> None:
    history_builder = in_a_transaction()
    history_builder.begin("T9", transactional_id="other")
    nothing(history_builder)
    history_builder.commit(**WRONG_STATE)
    assert len(false_fencing(history_builder.history)) == 1


# What was under way


@pytest.mark.parametrize(
    "make_answer",
    [
        pytest.param(
            lambda history_builder: history_builder.initialise("another", outcome=UNKNOWN),
            id="unknown",
        ),
        pytest.param(
            lambda history_builder: history_builder.initialise("another"), id="acknowledged"
        ),
        pytest.param(
            lambda history_builder: history_builder.abort_by_operator(), id="an operator's abort"
        ),
    ],
)
@pytest.mark.parametrize("error", [WRONG_STATE, FENCED])
def test_what_is_answered_later_may_have_been_under_way(
    make_answer: Callable[[HistoryBuilder], int], error: dict[str, str]
) -> None:
    history_builder = in_a_transaction()
    history_builder.commit(**error)
    assert len(false_fencing(history_builder.history)) == 1
    make_answer(history_builder)
    assert false_fencing(history_builder.history) == ()


def test_what_was_refused_has_done_nothing_though_it_was_under_way() -> None:
    history_builder = in_a_transaction()
    history_builder.commit(**FENCED)
    history_builder.initialise("another", outcome=FAILED)
    history_builder.abort_by_operator(producer_id=8)
    history_builder.begin("T2", "a third")
    assert len(false_fencing(history_builder.history)) == 1


def test_what_was_asked_for_afterwards_was_not_under_way() -> None:
    history_builder = in_a_transaction()
    history_builder.commit(**FENCED)
    history_builder.read(0, {}, 0, client_name="another")
    history_builder.initialise("another")
    history_builder.initialise()
    assert len(false_fencing(history_builder.history)) == 1


def test_an_init_without_an_answer_may_come_after_the_next_one() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise("another", outcome=UNKNOWN)
    history_builder.initialise()
    history_builder.begin()
    history_builder.write("T1", "r1", 0)
    history_builder.commit(**FENCED)
    assert false_fencing(history_builder.history) == ()


def test_an_abort_of_a_producer_that_is_known_only_later_counts() -> None:
    history_builder = HistoryBuilder()
    history_builder.abort_by_operator(outcome=UNKNOWN)
    history_builder.initialise()
    history_builder.begin()
    history_builder.write("T1", "r1", 0)
    history_builder.commit(**FENCED)
    assert false_fencing(history_builder.history) == ()


# Which identity was sent


def identity_fields(epoch: int | None, producer_id: int = 7) -> dict[str, Any]:
    return {"producer_id": producer_id, "producer_epoch": epoch}


@pytest.mark.parametrize(
    ("identity", "is_false"),
    [
        pytest.param(identity_fields(3), True, id="as it was given"),
        pytest.param(identity_fields(2), False, id="an old epoch"),
        pytest.param(identity_fields(4), False, id="an epoch to come"),
        pytest.param(identity_fields(3, producer_id=8), False, id="another producer"),
        pytest.param({"producer_epoch": 3}, True, id="no producer is told"),
        pytest.param({"producer_id": 7}, True, id="no epoch is told"),
    ],
)
@pytest.mark.parametrize("error", [WRONG_STATE, FENCED])
def test_who_forges_its_identity_is_refused_rightly(
    identity: dict[str, Any], error: dict[str, str], *, is_false: bool
) -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise(producer_epoch=3)
    history_builder.begin()
    history_builder.write("T1", "r1", 0, **identity_fields(3))
    history_builder.commit(**error, **identity)
    assert bool(false_fencing(history_builder.history)) is is_false


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(
            lambda history_builder, **how: history_builder.write(
                "T1", "r2", outcome=FAILED, error="PRODUCER_FENCED", **how
            ),
            id="a record",
        ),
        pytest.param(
            lambda history_builder, **how: history_builder.add_partitions(
                outcome=FAILED, error="PRODUCER_FENCED", **how
            ),
            id="added",
        ),
        pytest.param(
            lambda history_builder, **how: history_builder.send_offsets(
                "T1", 5, outcome=FAILED, error="PRODUCER_FENCED", **how
            ),
            id="a position",
        ),
    ],
)
def test_every_request_may_be_forged(end: Callable[..., int]) -> None:
    history_builder = in_a_transaction()
    end(history_builder, **identity_fields(1))
    assert false_fencing(history_builder.history) == ()
    history_builder = in_a_transaction()
    end(history_builder, **identity_fields(0))
    assert len(false_fencing(history_builder.history)) == 1


@pytest.mark.parametrize(
    ("next_fields", "epoch", "is_false"),
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
def test_an_end_may_raise_the_epoch(
    next_fields: dict[str, int], epoch: int, *, is_false: bool
) -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin("T0")
    history_builder.commit("T0", **identity_fields(0), **next_fields)
    history_builder.begin()
    history_builder.commit(**FENCED, **identity_fields(epoch))
    assert bool(false_fencing(history_builder.history)) is is_false


def test_what_was_acknowledged_says_whether_the_epoch_was_raised() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin("T0")
    history_builder.commit("T0", **identity_fields(0))
    history_builder.begin()
    history_builder.write("T1", "r1", 0, **identity_fields(1))
    history_builder.commit(**FENCED, **identity_fields(0))
    assert false_fencing(history_builder.history) == ()


@pytest.mark.parametrize(
    ("fields", "is_false"),
    [
        pytest.param({}, False, id="taken"),
        pytest.param({"outcome": UNKNOWN}, False, id="perhaps"),
        pytest.param({"outcome": FAILED}, True, id="refused"),
    ],
)
def test_a_record_with_a_higher_epoch_fences_whoever_sent_it(
    fields: dict[str, Any], *, is_false: bool
) -> None:
    history_builder = in_a_transaction()
    history_builder.write(None, "forged", 1, client_name="forger", **identity_fields(5), **fields)
    history_builder.write(
        "T1", "r2", outcome=FAILED, error="INVALID_PRODUCER_EPOCH", **identity_fields(0)
    )
    assert bool(false_fencing(history_builder.history)) is is_false


# Who owns what


def test_who_does_not_own_the_id_is_fenced_rightly() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.initialise("another", outcome=FAILED)
    history_builder.initialise("another", outcome=UNKNOWN)
    history_builder.begin()
    history_builder.commit(**FENCED)
    assert false_fencing(history_builder.history) == ()


@pytest.mark.parametrize(("producer_epoch", "is_false"), [(0, False), (1, True), (2, True)])
def test_of_two_who_ask_at_once_the_higher_epoch_came_later(
    producer_epoch: int, *, is_false: bool
) -> None:
    """Found by seed 4186, where the answer to one request overtook the answer to the other."""
    history_builder = HistoryBuilder()
    history_builder.initialise("another", producer_epoch=1)
    history_builder.initialise(producer_epoch=producer_epoch)
    history_builder.begin()
    history_builder.write("T1", "r1", producer_id=7, producer_epoch=producer_epoch, **FENCED)
    assert bool(false_fencing(history_builder.history)) is is_false


def test_who_has_the_higher_epoch_is_not_fenced_by_a_late_answer() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise(producer_epoch=1)
    history_builder.initialise("another", producer_epoch=0)
    history_builder.begin()
    history_builder.write("T1", "r1", producer_id=7, producer_epoch=1, **FENCED)
    assert false_fencing(history_builder.history)


def test_an_abort_that_initialising_began_fences_whoever_had_the_id() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.initialise("another", outcome=FAILED, error="CONCURRENT_TRANSACTIONS")
    history_builder.begin()
    history_builder.commit(**FENCED)
    assert false_fencing(history_builder.history) == ()


@pytest.mark.parametrize(
    ("additions_before", "is_false"),
    [
        pytest.param([], False, id="nothing was ever acknowledged"),
        pytest.param([{"outcome": FAILED, "error": "NOT_COORDINATOR"}], False, id="refused"),
        pytest.param([{}], True, id="added"),
    ],
)
def test_a_producer_that_adds_partitions_must_have_had_one_added(
    additions_before: list[dict[str, str]], *, is_false: bool
) -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    for addition in additions_before:
        history_builder.add_partitions(**addition)
    history_builder.commit(**WRONG_STATE)
    assert bool(false_fencing(history_builder.history)) is is_false


def test_a_record_that_was_taken_does_not_replace_a_refused_addition() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    history_builder.add_partitions(outcome=FAILED, error="CONCURRENT_TRANSACTIONS")
    history_builder.write("T1", "r1", 0)
    history_builder.commit(**WRONG_STATE)
    assert false_fencing(history_builder.history) == ()


def test_a_refused_record_is_no_end() -> None:
    history_builder = in_a_transaction()
    history_builder.write("T1", "r2", **WRONG_STATE)
    assert false_fencing(history_builder.history) == ()


def test_a_refused_end_of_another_kind_may_have_been_an_end() -> None:
    history_builder = in_a_transaction()
    history_builder.commit(outcome=FAILED, error="CONCURRENT_TRANSACTIONS")
    history_builder.commit(**WRONG_STATE)
    assert false_fencing(history_builder.history) == ()


def test_a_transaction_of_an_unknown_id_convicts_nobody() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.write("T1", "r1", 0)
    history_builder.commit(**WRONG_STATE)
    assert false_fencing(history_builder.history) == ()


def test_reasons_are_asked_for_once_an_end_is_told() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    history_builder.write("T1", "r1", 0)
    history_builder.initialise("another")
    history_builder.write("T1", "r2", **FENCED)
    history_builder.commit(**FENCED)
    history_builder.commit(**FENCED)
    assert false_fencing(history_builder.history) == ()


@pytest.mark.parametrize(
    ("end", "is_false"),
    [
        pytest.param({}, True, id="acknowledged"),
        pytest.param({"outcome": UNKNOWN}, False, id="nobody knows when it came"),
        pytest.param({"outcome": FAILED, "error": "NOT_COORDINATOR"}, False, id="refused"),
        pytest.param(None, False, id="left open, and perhaps timed out"),
    ],
)
def test_the_transaction_before_must_have_come_to_its_end(
    end: dict[str, Any] | None, *, is_false: bool
) -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin("T0")
    if end is not None:
        history_builder.abort("T0", **end)
    history_builder.begin()
    history_builder.write("T1", "r1", 0)
    history_builder.commit(**FENCED)
    assert bool(false_fencing(history_builder.history)) is is_false


def test_a_new_life_begins_without_old_debts() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin("T0")
    history_builder.initialise()
    history_builder.begin()
    history_builder.write("T1", "r1", 0)
    history_builder.commit(**FENCED)
    assert len(false_fencing(history_builder.history)) == 1


BUSY = "CONCURRENT_TRANSACTIONS"


def test_decided_for_longer_than_its_timeout_is_stuck() -> None:
    history_builder = HistoryBuilder()
    first_description = history_builder.describe("PrepareCommit", T0, T1)
    history_builder.wait(1.1)
    last_description = history_builder.describe("PrepareCommit", T1)
    (anomaly,) = stuck_coordinators(history_builder.history)
    assert anomaly.evidence == (first_description, last_description)
    assert anomaly.because.startswith("app has been PrepareCommit for ")
    assert stuck_partitions(history_builder.history) == {T0, T1}


def test_it_may_take_as_long_as_its_timeout() -> None:
    history_builder = HistoryBuilder()
    history_builder.describe("PrepareCommit")
    history_builder.wait(0.5)
    history_builder.describe("PrepareCommit")
    assert stuck_coordinators(history_builder.history) == ()


@pytest.mark.parametrize(
    "other_fields",
    [
        {"state": "PrepareAbort"},
        {"producer_epoch": 1},
        {"start_ms": 5},
        {"state": "CompleteCommit"},
        {"error": "NOT_COORDINATOR", "state": ""},
        {"transactional_id": "another"},
    ],
)
def test_another_transaction_or_state_begins_anew(other_fields: dict[str, Any]) -> None:
    history_builder = HistoryBuilder()
    history_builder.describe("PrepareCommit")
    history_builder.wait(2)
    fields: dict[str, Any] = {"state": "PrepareCommit"}
    history_builder.describe(**(fields | other_fields))
    assert stuck_coordinators(history_builder.history) == ()


def test_an_answer_with_an_error_tells_nothing() -> None:
    history_builder = HistoryBuilder()
    history_builder.describe("PrepareCommit")
    history_builder.describe("", error="COORDINATOR_LOAD_IN_PROGRESS")
    history_builder.wait(2)
    history_builder.describe("PrepareCommit")
    assert len(stuck_coordinators(history_builder.history)) == 1


def test_without_a_known_timeout_nobody_can_say_how_long_is_too_long() -> None:
    history_builder = HistoryBuilder()
    history_builder.describe("PrepareCommit", timeout_ms=None)
    history_builder.wait(60)
    history_builder.describe("PrepareCommit", timeout_ms=None)
    assert stuck_coordinators(history_builder.history) == ()


def test_only_what_lasts_after_everything_was_healed_counts() -> None:
    history_builder = HistoryBuilder()
    history_builder.begin()
    history_builder.initialise(outcome=FAILED, error=BUSY)
    history_builder.describe("PrepareCommit")
    history_builder.wait(10)
    history_builder.heal()
    history_builder.describe("PrepareCommit")
    history_builder.initialise(outcome=FAILED, error=BUSY)
    assert stuck_coordinators(history_builder.history) == ()
    history_builder.wait(2)
    history_builder.describe("PrepareCommit")
    assert len(stuck_coordinators(history_builder.history)) == 1


def test_busy_for_longer_than_the_timeout_is_stuck() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    first_answer = history_builder.add_partitions(outcome=FAILED, error=BUSY)
    history_builder.commit(outcome=FAILED, error="NOT_COORDINATOR")
    history_builder.write(None, "of somebody else", 0)
    history_builder.wait(1.1)
    last_answer = history_builder.initialise(outcome=FAILED, error=BUSY)
    (anomaly,) = stuck_coordinators(history_builder.history)
    assert anomaly.evidence == (first_answer, last_answer)
    assert f"app has been answered {BUSY}" in anomaly.because
    assert stuck_partitions(history_builder.history) == set()


@pytest.mark.parametrize("label", ["T1", "T9"])
def test_an_answer_of_success_shows_that_it_goes_on(label: str) -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    history_builder.add_partitions(outcome=FAILED, error=BUSY)
    history_builder.send_offsets(label, 5)
    history_builder.wait(2)
    history_builder.add_partitions(outcome=FAILED, error=BUSY)
    # T9 is nobody's: what became of it says nothing about this id.
    assert len(stuck_coordinators(history_builder.history)) == (label == "T9")


def test_an_id_is_convicted_once() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise(outcome=FAILED, error=BUSY)
    history_builder.describe("PrepareCommit")
    history_builder.wait(2)
    history_builder.initialise(outcome=FAILED, error=BUSY)
    history_builder.describe("PrepareCommit")
    assert len(stuck_coordinators(history_builder.history)) == 1


def test_an_unknown_outcome_between_two_answers_may_have_been_a_success() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise(outcome=FAILED, error=BUSY)
    history_builder.initialise("another", outcome=UNKNOWN)
    history_builder.wait(2)
    history_builder.initialise(outcome=FAILED, error=BUSY)
    assert stuck_coordinators(history_builder.history) == ()
    history_builder.wait(2)
    history_builder.initialise(outcome=FAILED, error=BUSY)
    assert len(stuck_coordinators(history_builder.history)) == 1


@pytest.mark.parametrize(
    ("fields", "start_ms", "is_stuck"),
    [
        pytest.param({}, None, False, id="granted"),
        pytest.param({"outcome": UNKNOWN}, None, False, id="perhaps granted"),
        pytest.param({"outcome": FAILED}, None, True, id="refused"),
        pytest.param({"transactional_id": "another"}, None, True, id="another's"),
        pytest.param({}, 5, True, id="the same transaction all along"),
    ],
)
def test_two_looks_without_a_start_are_of_one_transaction_if_nothing_was_granted(
    fields: dict[str, Any], start_ms: int | None, *, is_stuck: bool
) -> None:
    history_builder = HistoryBuilder()
    history_builder.describe("PrepareCommit", start_ms=start_ms)
    history_builder.write(None, "plain", 0)
    history_builder.initialise(**fields)
    history_builder.wait(2)
    history_builder.describe("PrepareCommit", start_ms=start_ms)
    assert bool(stuck_coordinators(history_builder.history)) is is_stuck


def test_an_id_that_was_seen_once_is_not_stuck_whatever_its_timeout() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise(timeout_ms=-1)
    history_builder.describe("PrepareCommit", timeout_ms=None)
    assert stuck_coordinators(history_builder.history) == ()


def test_a_stuck_coordinator_owes_what_any_of_its_answers_has_listed() -> None:
    history_builder = HistoryBuilder()
    history_builder.describe("PrepareCommit", start_ms=0)
    history_builder.describe("PrepareCommit", T0, start_ms=0)
    history_builder.describe("Ongoing", T1, start_ms=0, transactional_id="another")
    history_builder.wait(2)
    history_builder.describe("PrepareCommit", start_ms=0)
    assert stuck_partitions(history_builder.history) == {T0}
