from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import Steps, call, failure, seen, sentences, told, transaction
from txnsim_lab.check.observations import Ended, Healed, Wrote
from txnsim_lab.scenario.fields import ByRun, Situation
from txnsim_lab.scenario.runner import FAILED
from txnsim_lab.scenario.steps import expected_error, expected_offset

HOLD = {"hold": {"id": "late", "point": "client.request", "api": "Produce", "topic": "t"}}
LATE = call("produce", partition="t-0", value="r1", connection="slow", background="r1")
BEGUN = [call("init-producer-id"), call("begin"), call("add-partitions", partitions="t-0")]
ARMED = Situation(run="V-/before", mode="V-", take="armed")
DISARMED = Situation(run="V-/before", mode="V-", take="disarmed")


def because(steps: Steps, **options: Any) -> str:
    """Why a story could not be told."""
    result = told(steps, **options)
    assert result.verdict.observed == (FAILED,)
    return failure(result)


def test_what_is_held_goes_on_when_it_is_released_and_is_awaited() -> None:
    steps = [
        *BEGUN,
        HOLD,
        LATE,
        {"wait-until": {"struck": "late"}},
        {"release": "late"},
        {"wait-until": {"answered": "r1"}},
        {"await": {"call": "r1", "offset": 0}},
        call("commit"),
    ]
    armed, disarmed = told(steps), told(steps, take="disarmed")
    assert armed.as_declared
    assert disarmed.as_declared
    assert "hold Produce of P" in sentences(armed)
    assert "hold" not in sentences(disarmed)


def test_what_is_held_is_lost_where_the_story_wants_it() -> None:
    steps = [
        *BEGUN,
        HOLD,
        LATE,
        {"wait-until": {"struck": "late"}},
        {"release": {"rule": "late", "as": "drop"}},
        {"give-up": "r1"},
        call("abort"),
    ]
    lost = told(steps)
    assert lost.as_declared
    assert b'"msg.drop"' in lost.trace
    assert b'"log.append"' not in lost.trace
    held_answer = [*BEGUN, HOLD | {"hold": HOLD["hold"] | {"point": "client.response"}}, LATE]
    wait = {"wait-until": {"struck": "late"}}
    doubled = {"release": {"rule": "late", "as": "duplicate"}}
    assert "can't be lost or doubled so" in because([*held_answer, wait, doubled])


def test_who_gives_up_has_an_unknown_outcome_and_learns_nothing_later() -> None:
    steps = [
        *BEGUN,
        HOLD,
        LATE,
        {"wait-until": {"struck": {"rule": "late", "times": 1}}},
        {"give-up": "r1"},
        {"release": "late"},
        call("abort"),
    ]
    result = told(steps)
    assert result.as_declared
    (wrote,) = seen(result, Wrote)
    assert (wrote.outcome, wrote.error) == ("unknown", "REQUEST_TIMED_OUT")


def test_a_fault_that_never_strikes_fails_its_story() -> None:
    assert "the fault late never struck" in because([*BEGUN, HOLD, call("abort")])
    early = [*BEGUN, HOLD, {"release": "late"}]
    assert "there is nothing to release" in because(early)


def test_a_fault_that_never_strikes_names_its_line_and_whom_it_may_mean() -> None:
    hold = {"hold": {**HOLD["hold"], "transactional_id": "ap", "topic": "T", "client_id": "q"}}
    (why,) = told([*BEGUN, hold, call("abort")]).verdict.because
    assert why.startswith("small.yaml:36: steps.3.hold: the fault late never struck")
    assert "no transactional id 'ap'; did you mean app?" in why
    assert "no topic 'T'; did you mean t?" in why
    assert "no client id 'q'; there are: " in why


@pytest.mark.parametrize("waits", [{"release": "late"}, {"wait-until": {"struck": "late"}}])
def test_who_waits_for_a_fault_in_vain_is_told_whom_it_may_mean(waits: dict[str, Any]) -> None:
    hold = {"hold": {**HOLD["hold"], "transactional_id": "ap"}}
    assert "no transactional id 'ap'; did you mean app?" in because([*BEGUN, hold, waits])


def test_a_call_in_the_background_without_an_error_took_its_first_answer() -> None:
    hold = {"hold": {"id": "late", "point": "peer.request", "api": "WriteTxnMarkers"}}
    steps = [
        *BEGUN,
        call("produce", partition="t-0", value="r1"),
        hold,
        call("commit"),
        call("begin"),
        {"wait-until": {"struck": "late"}},
        call("add-partitions", partitions="t-0", background="added"),
        {"wait-until": {"answered": "added"}},
        {"release": "late"},
        {"await": "added"},
    ]
    assert because(steps) == (
        "P: add-partitions (added) is answered CONCURRENT_TRANSACTIONS, expected NONE; it took its "
        "first answer: write `error: NONE`"
    )
    steps[8]["call"]["error"] = "NONE"
    del steps[9]
    assert told([*steps, call("abort")]).as_declared


def test_a_reader_believes_an_entry_that_was_put_into_its_answer() -> None:
    entry = {"producer_id": 0, "first_offset": 0}
    insert = {"do": "rewrite", "field": "aborted_transactions", "how": "insert", "entry": entry}
    rule = {"id": "lie", "point": "client.response", "api": "Fetch", "action": insert}
    steps = [
        *BEGUN,
        call("produce", partition="t-0", value="r1", offset=0),
        call("commit"),
        {"wait-until": {"stable": {"partition": "t-0", "offset": 2}}},
        call("read", who="reader", partition="t-0", reads=["r1"]),
        {"arm": rule},
        call("read", who="reader", partition="t-0", **{"from": 0}, reads=[]),
        {"disarm": "lie"},
    ]
    assert told(steps).verdict.observed == ("lost-write",)


@pytest.mark.parametrize(
    "again",
    [{"release": "late"}, {"disarm": "late"}, {"wait-until": {"struck": "late"}}],
    ids=["release", "disarm", "struck"],
)
def test_what_was_released_is_armed_no_more(again: dict[str, Any]) -> None:
    steps = [*BEGUN, HOLD, LATE, {"wait-until": {"struck": "late"}}, {"release": "late"}]
    why = "the fault late is armed no more: a step before has released it or taken it back"
    assert because([*steps, {"await": "r1"}, again]) == why


@pytest.mark.parametrize(
    "step",
    [{"release": "late"}, {"disarm": "late"}, {"wait-until": {"struck": "late"}}],
    ids=["release", "disarm", "struck"],
)
def test_a_rule_that_this_run_leaves_out_is_not_armed(step: dict[str, Any]) -> None:
    steps = [*BEGUN, {**HOLD, "only": "V+"}, step]
    assert because(steps) == "the fault late was not armed in this run"


@pytest.mark.parametrize(
    "step",
    [{"await": "r1"}, {"give-up": "r1"}, {"wait-until": {"answered": "r1"}}],
    ids=["await", "give-up", "answered"],
)
def test_a_call_that_this_run_leaves_out_was_not_made(step: dict[str, Any]) -> None:
    steps = [*BEGUN, {**LATE, "only": "V+"}, step]
    assert because(steps) == "the call r1 was not made in this run"


def test_a_rule_can_be_taken_back_and_any_rule_be_armed() -> None:
    rule = {
        "id": "moved",
        "point": "client.request",
        "api": "EndTxn",
        "limit": 1,
        "action": {"do": "error", "error": "NOT_COORDINATOR"},
    }
    steps = [*BEGUN, {"arm": rule}, call("commit"), {"disarm": "moved"}]
    assert told(steps).as_declared
    once = [*BEGUN, {"arm": rule}, call("commit", once=True, error="NOT_COORDINATOR")]
    result = told([*once, call("commit")])
    assert result.as_declared
    assert [end.outcome for end in seen(result, Ended)] == ["unknown", "ok"]


def test_an_answer_that_is_not_expected_fails_the_story() -> None:
    wrong = [call("init-producer-id"), call("begin"), call("commit")]
    assert because(wrong) == "P: commit is answered INVALID_TXN_STATE, expected NONE"
    elsewhere = [*BEGUN, call("produce", partition="t-0", value="r1", offset=3)]
    assert because(elsewhere) == "P: produce is at offset 0, expected 3"
    assert told([*wrong[:-1], call("commit", error="any")]).as_declared


def test_the_story_is_over_when_the_file_says_so_and_what_follows_is_not_excused() -> None:
    result = told([*BEGUN, call("abort"), {"observe": "everything"}, {"observe": "healed"}])
    assert len(seen(result, Healed)) == 1
    assert told([{"advance": "5m"}, {"say": "Hm.", "advance": "1s"}]).story[-1].is_narrated


@pytest.mark.parametrize(
    ("given", "armed", "disarmed"),
    [
        (None, "NONE", "NONE"),
        ("FENCED", "FENCED", "FENCED"),
        ({"V-": "A", "else": "B"}, "A", "NONE"),
        ({"V-/before": "A", "V-": "B"}, "A", "NONE"),
        ({"V-": "A", "disarmed": "C"}, "A", "C"),
        ({"TV2": "A"}, "NONE", "NONE"),
        ({"TV2": "A", "else": "B"}, "B", "NONE"),
        ({"V-": {"armed": "A", "disarmed": "C", "else": "B"}}, "A", "C"),
        ({"V-": {"control": "C", "else": "B"}, "else": "D"}, "B", "NONE"),
        ({"disarmed": {"TV2": "A", "else": "B"}, "else": "D"}, "D", "B"),
        ({"disarmed": {"TV2": "A"}, "V-": {"disarmed": "C"}}, "NONE", "C"),
    ],
)
def test_an_error_is_expected_by_run_mode_or_take(
    given: ByRun | None, armed: str, disarmed: str
) -> None:
    assert expected_error(given, ARMED) == armed
    assert expected_error(given, DISARMED) == disarmed


def test_an_offset_is_expected_likewise() -> None:
    assert expected_offset(None, ARMED) is None
    assert expected_offset(4, ARMED) == 4
    assert expected_offset({"V-": 1, "else": 2}, ARMED) == 1
    assert expected_offset({"TV2": 1, "else": 2}, ARMED) == 2
    assert expected_offset({"TV2": 1}, ARMED) is None


@pytest.mark.slow
def test_transactions_follow_one_another() -> None:
    steps = [call("init-producer-id"), *transaction("r1"), *transaction("r2", end="abort")]
    for run in ("V-", "V+", "TV2", "TV2+"):
        result = told(steps, run=run)
        assert result.as_declared, (run, result.verdict)


def test_what_runs_expect_does_not_hold_for_a_control() -> None:
    control = Situation(run="V-", mode="V-", take="control")
    assert expected_error({"V-": "A"}, control) == "NONE"
    assert expected_error({"V-": "A", "control": "B"}, control) == "B"
    assert expected_offset({"V-": 1}, control) is None
    assert expected_offset({"control": 2}, control) == 2


def test_what_is_done_to_the_cluster_at_once_is_done_before_the_next_step() -> None:
    back = {"id": "back", "point": "now", "action": {"do": "clock", "by_ms": -10_000}}
    nobody = {"id": "gone", "point": "now", "action": {"do": "crash", "broker": 9}}
    assert told([{"arm": back}, {"wait-until": {"struck": "back"}}]).as_declared
    assert "broker 9" in because([{"arm": nobody}])
