"""Steps of stories: what each says, does, and refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.stories import (
    Steps,
    call,
    failure,
    observations_of,
    play_steps,
    sentences,
    small,
    transaction,
)
from txnsim.errors import ConfigError
from txnsim.faults.plan import FaultRule
from txnsim.releases import REFERENCE
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import (
    Cleaned,
    Deleted,
    Ended,
    Gauge,
    Healed,
    Listed,
    Producers,
    Read,
    Wrote,
)
from txnsim_lab.scenario import steps as conditions
from txnsim_lab.scenario.driver_commands import (
    Back,
    Command,
    Drive,
    Go,
    Input,
    Order,
    RunFailed,
    encode,
    to_command,
    to_order,
    to_state,
)
from txnsim_lab.scenario.fields import (
    ByRun,
    RunSelection,
    as_tuple,
    content,
    duration_ms,
    fault_rule,
    offsets,
    partition,
)
from txnsim_lab.scenario.final_observation import LATE_GAUGE, SECOND_LOOK_PAUSE_MS
from txnsim_lab.scenario.runner import FAILED_VERDICT
from txnsim_lab.scenario.steps import expected_error, expected_offset
from txnsim_lab.scenario.steps_model import (
    FIELDS_BY_CALL,
    FIELDS_BY_CLUSTER_ACT,
    Call,
    ClusterAct,
    Step,
)
from txnsim_lab.target.cluster import POLL_MAX_MS

HOLD = {"hold": {"id": "late", "point": "client.request", "api": "Produce", "topic": "t"}}
LATE = call("produce", partition="t-0", value="r1", connection="slow", background="r1")
BEGUN = [call("init-producer-id"), call("begin"), call("add-partitions", partitions="t-0")]
ARMED = RunSelection(run="V-/before", mode="V-", take="armed")
DISARMED = RunSelection(run="V-/before", mode="V-", take="disarmed")


def because(steps: Steps, **options: Any) -> str:
    result = play_steps(steps, **options)
    assert result.verdict.observed == (FAILED_VERDICT,)
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
    armed_result, disarmed_result = play_steps(steps), play_steps(steps, take_name="disarmed")
    assert armed_result.as_declared
    assert disarmed_result.as_declared
    assert "hold Produce of P" in sentences(armed_result)
    assert "hold" not in sentences(disarmed_result)


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
    lost_result = play_steps(steps)
    assert lost_result.as_declared
    assert b'"msg.drop"' in lost_result.trace
    assert b'"log.append"' not in lost_result.trace
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
    result = play_steps(steps)
    assert result.as_declared
    (write,) = observations_of(result, Wrote)
    assert (write.outcome, write.error) == ("unknown", "REQUEST_TIMED_OUT")


def test_a_fault_that_never_strikes_fails_its_story() -> None:
    assert "the fault late never struck" in because([*BEGUN, HOLD, call("abort")])
    early_steps = [*BEGUN, HOLD, {"release": "late"}]
    assert "there is nothing to release" in because(early_steps)


def test_a_fault_that_never_strikes_names_its_line_and_whom_it_may_mean() -> None:
    hold = {"hold": {**HOLD["hold"], "transactional_id": "ap", "topic": "T", "client_id": "q"}}
    (reason,) = play_steps([*BEGUN, hold, call("abort")]).verdict.because
    assert reason.startswith("small.yaml:36: steps.3.hold: the fault late never struck")
    assert "no transactional id 'ap'; did you mean app?" in reason
    assert "no topic 'T'; did you mean t?" in reason
    assert "no client id 'q'; there are: " in reason


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
    assert play_steps([*steps, call("abort")]).as_declared


def test_a_reader_believes_an_entry_that_was_put_into_its_answer() -> None:
    entry = {"producer_id": 0, "first_offset": 0}
    insert = {"do": "rewrite", "field": "aborted_transactions", "how": "insert", "entry": entry}
    fault_rule = {"id": "lie", "point": "client.response", "api": "Fetch", "action": insert}
    steps = [
        *BEGUN,
        call("produce", partition="t-0", value="r1", offset=0),
        call("commit"),
        {"wait-until": {"stable": {"partition": "t-0", "offset": 2}}},
        call("read", who="reader", partition="t-0", reads=["r1"]),
        {"arm": fault_rule},
        call("read", who="reader", partition="t-0", **{"from": 0}, reads=[]),
        {"disarm": "lie"},
    ]
    assert play_steps(steps).verdict.observed == ("lost-write",)


@pytest.mark.parametrize(
    "second_release",
    [{"release": "late"}, {"disarm": "late"}, {"wait-until": {"struck": "late"}}],
    ids=["release", "disarm", "struck"],
)
def test_what_was_released_is_armed_no_more(second_release: dict[str, Any]) -> None:
    steps = [*BEGUN, HOLD, LATE, {"wait-until": {"struck": "late"}}, {"release": "late"}]
    reason = "the fault late is armed no more: a step before has released it or taken it back"
    assert because([*steps, {"await": "r1"}, second_release]) == reason


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
    fault_rule = {
        "id": "moved",
        "point": "client.request",
        "api": "EndTxn",
        "limit": 1,
        "action": {"do": "error", "error": "NOT_COORDINATOR"},
    }
    steps = [*BEGUN, {"arm": fault_rule}, call("commit"), {"disarm": "moved"}]
    assert play_steps(steps).as_declared
    steps_before = [*BEGUN, {"arm": fault_rule}, call("commit", once=True, error="NOT_COORDINATOR")]
    result = play_steps([*steps_before, call("commit")])
    assert result.as_declared
    assert [end.outcome for end in observations_of(result, Ended)] == ["unknown", "ok"]


def test_an_answer_that_is_not_expected_fails_the_story() -> None:
    wrong_steps = [call("init-producer-id"), call("begin"), call("commit")]
    assert because(wrong_steps) == "P: commit is answered INVALID_TXN_STATE, expected NONE"
    misplaced_steps = [*BEGUN, call("produce", partition="t-0", value="r1", offset=3)]
    assert because(misplaced_steps) == "P: produce is at offset 0, expected 3"
    assert play_steps([*wrong_steps[:-1], call("commit", error="any")]).as_declared


def test_the_story_is_over_when_the_file_says_so_and_what_follows_is_not_excused() -> None:
    result = play_steps([*BEGUN, call("abort"), {"observe": "everything"}, {"observe": "healed"}])
    assert len(observations_of(result, Healed)) == 1
    assert play_steps([{"advance": "5m"}, {"say": "Hm.", "advance": "1s"}]).story[-1].is_narrated


@pytest.mark.parametrize(
    ("by_run", "armed", "disarmed_error"),
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
    by_run: ByRun | None, armed: str, disarmed_error: str
) -> None:
    assert expected_error(by_run, ARMED) == armed
    assert expected_error(by_run, DISARMED) == disarmed_error


def test_an_offset_is_expected_likewise() -> None:
    assert expected_offset(None, ARMED) is None
    assert expected_offset(4, ARMED) == 4
    assert expected_offset({"V-": 1, "else": 2}, ARMED) == 1
    assert expected_offset({"TV2": 1, "else": 2}, ARMED) == 2
    assert expected_offset({"TV2": 1}, ARMED) is None


@pytest.mark.slow
def test_transactions_follow_one_another() -> None:
    steps = [call("init-producer-id"), *transaction("r1"), *transaction("r2", end="abort")]
    for run_name in ("V-", "V+", "TV2", "TV2+"):
        result = play_steps(steps, run_name=run_name)
        assert result.as_declared, (run_name, result.verdict)


def test_what_runs_expect_does_not_hold_for_a_control() -> None:
    control_selection = RunSelection(run="V-", mode="V-", take="control")
    assert expected_error({"V-": "A"}, control_selection) == "NONE"
    assert expected_error({"V-": "A", "control": "B"}, control_selection) == "B"
    assert expected_offset({"V-": 1}, control_selection) is None
    assert expected_offset({"control": 2}, control_selection) == 2


def test_what_is_done_to_the_cluster_at_once_is_done_before_the_next_step() -> None:
    back = {"id": "back", "point": "now", "action": {"do": "clock", "by_ms": -10_000}}
    unknown_broker_rule = {"id": "gone", "point": "now", "action": {"do": "crash", "broker": 9}}
    assert play_steps([{"arm": back}, {"wait-until": {"struck": "back"}}]).as_declared
    assert "broker 9" in because([{"arm": unknown_broker_rule}])


OPEN = [
    call("init-producer-id"),
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r1"),
]


@pytest.mark.parametrize(
    "condition",
    [
        {"open": "t-0"},
        {"transaction": {"id": "app", "is": ["Empty", "Ongoing"]}},
        {"high-watermark": {"partition": "t-0", "offset": 1}},
        {"stable": {"partition": "t-0", "offset": 0}},
        {"leader": {"partition": "t-1", "is": 2}},
        {"in-sync": "t-0"},
    ],
)
def test_what_is_so_is_not_waited_for_in_vain(condition: dict[str, Any]) -> None:
    assert play_steps([*OPEN, {"wait-until": condition}, call("abort")]).as_declared


def test_a_marker_is_waited_for() -> None:
    slow_rule = {"id": "slow", "point": "peer.request", "api": "WriteTxnMarkers",
            "action": {"do": "delay", "delay_ms": 700}}  # fmt: skip
    steps = [
        *OPEN,
        {"arm": slow_rule},
        call("commit"),
        {"expect": {"partition": "t-0", "committed": [], "uncommitted": ["r1"], "stable": 0}},
        {"wait-until": {"marker": "t-0"}},
        {"expect": {"partition": "t-0", "committed": ["r1"], "stable": 2, "high-watermark": 2}},
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    assert 700 < result.duration_ms < 700 + 4 * POLL_MAX_MS + 400


def test_what_never_comes_about_fails_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "PATIENCE_MS", 1_000)
    result = play_steps([*OPEN, {"wait-until": {"transaction": {"id": "app", "is": "Dead"}}}])
    assert "in vain until app is Dead" in result.verdict.because[0]
    fault_rule = {"id": "never", "point": "client.request", "api": "DeleteTopics"}
    struck_result = play_steps([{"hold": fault_rule}, {"wait-until": {"struck": "never"}}])
    assert "0 of 1 strikes" in struck_result.verdict.because[0]


@pytest.mark.parametrize(
    ("expectation", "because"),
    [
        ({"committed": ["r1"]}, "read_committed readers of t-0 get (), expected ('r1',)"),
        ({"stable": 5}, "the last stable offset of t-0 is 0, expected 5"),
        ({"high-watermark": 5}, "the high watermark of t-0 is 1, expected 5"),
    ],
)
def test_what_is_otherwise_than_expected_fails_the_story(
    expectation: dict[str, Any], because: str
) -> None:
    result = play_steps([*OPEN, {"expect": {"partition": "t-0", **expectation}}])
    assert failure(result) == because


HELD_RULE = {"id": "slow", "point": "peer.request", "api": "WriteTxnMarkers"}


@pytest.mark.parametrize(
    ("condition", "case"),
    [
        ({"transaction": {"id": "app", "is": "CompleteCommit"}}, "app is PrepareCommit"),
        ({"transaction": {"id": "none", "is": "Empty"}}, "none is not known to any coordinator"),
        ({"marker": "t-0"}, "t-0: producer 0, epoch 0: a transaction is open since 0"),
        ({"open": "t-1"}, "t-1 knows no producer"),
        ({"stable": {"partition": "t-0", "offset": 2}}, "last stable offset is 0, the high water"),
        ({"high-watermark": {"partition": "t-0", "offset": 9}}, "the high watermark 1"),
        ({"leader": {"partition": "t-1", "is": 9}}, "t-1: broker 2 leads; in sync "),
    ],
)
def test_who_waits_in_vain_is_told_what_is_the_case_and_what_still_holds(
    condition: dict[str, Any], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE_MS", 1_000)
    steps = [
        *OPEN,
        {"hold": HELD_RULE},
        call("commit", background="end"),
        {"wait-until": condition},
    ]
    because = play_steps(steps).verdict.because[0]
    location, _, waits_told = because.partition(": waited 1000 ms in vain until ")
    assert re.fullmatch(r"small\.yaml:\d+: steps\.6\.wait-until", location)
    assert case in waits_told
    assert "slow" in waits_told, "a forgotten release"


def test_a_call_that_is_not_answered_names_the_fault_that_holds_it() -> None:
    fault_rule = {"id": "late", "point": "client.response", "api": "EndTxn"}
    steps = [
        *OPEN,
        {"hold": fault_rule},
        call("commit", background="end"),
        {"wait-until": {"struck": "late"}},
    ]
    because = play_steps([*steps, {"await": "end"}]).verdict.because[0]
    assert "end (P: commit) is not answered after" in because
    assert "the fault late still holds 1 at client.response" in because
    assert "`release: late`" in because


def test_a_strike_that_is_waited_for_in_vain_names_what_still_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE_MS", 1_000)
    never_rule = {"id": "never", "point": "client.request", "api": "DeleteTopics"}
    steps = [
        *OPEN,
        {"hold": HELD_RULE},
        call("commit", background="end"),
        {"wait-until": {"struck": "slow"}},
        {"hold": never_rule},
    ]
    because = play_steps([*steps, {"wait-until": {"struck": "never"}}]).verdict.because[0]
    assert "0 of 1 strikes" in because
    assert "the fault slow still holds 1 at peer.request" in because


def test_a_flush_that_does_not_return_is_expected_to_have_no_answer() -> None:
    actors = {"app": {"plays": "application"}}
    hold = {"id": "late", "point": "client.request", "api": "Produce", "client_id": "app"}
    steps = [
        call("begin", "app"),
        {"hold": hold},
        call("send", "app", partition="t-0", value="r1"),
        call("await-ack", "app", background="flush"),
        {"wait-until": {"struck": "late"}},
        {"advance": "10s"},
        {"only": "armed", "expect": {"unanswered": "flush"}},
        {"release": "late"},
        {"await": "flush"},
        call("commit", "app"),
    ]
    result = play_steps(steps, actors=actors)
    assert result.as_declared, result.verdict
    late_steps = [*steps[:-1], {"expect": {"unanswered": "flush"}}]
    assert (
        failure(play_steps(late_steps, actors=actors))
        == "flush is answered, expected no answer yet"
    )


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        ({"stable": 1}, "expected partition, or group and positions, or unanswered alone"),
        ({"group": "g"}, "expected partition, or group and positions, or unanswered alone"),
        ({"partition": "t-0", "group": "g"}, "expected one of committed, uncommitted, records"),
        ({"partition": "t-0"}, "expected one of committed, uncommitted, records"),
        ({"unanswered": "x"}, "expect.unanswered: no step before names 'x'"),
        ({"group": "g", "positions": {"q-0": 1}}, "expect.positions.q-0: no topic 'q'"),
    ],
)
def test_an_expectation_is_of_a_partition_a_group_or_a_call(
    expectation: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as error_info:
        small([{"expect": expectation}])
    assert message in str(error_info.value)


# ``cluster_steps``


INIT = call("init-producer-id")
COMPACTED = {"t": {"partitions": 1, "configs": {"cleanup.policy": "compact"}}, "in": 1}


def cluster_step(verb: str, **step_fields: Any) -> dict[str, Any]:
    return {"cluster": {"do": verb, **{k.replace("_", "-"): v for k, v in step_fields.items()}}}


def test_leaders_move_and_coordinators_are_loaded_again() -> None:
    steps = [
        INIT,
        cluster_step("move-leader", partition="t-0", to=1),
        cluster_step("move-leader", partition="t-0", to=3),
        {"wait-until": {"leader": {"partition": "t-0", "is": 3}}},
        cluster_step("move-leader", coordinator_of="app", to=2),
        cluster_step("reload-coordinator", coordinator_of="app"),
        *transaction("r1"),
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    assert sentences(result).count("is made the leader of") >= 3


@pytest.mark.parametrize(
    "steps",
    [
        [cluster_step("stop", broker=2), cluster_step("start", broker=2)],
        [cluster_step("kill", broker=2, lose_unflushed=True), cluster_step("start", broker=2)],
        [
            cluster_step("stop", broker=2),
            cluster_step("start", broker=2, as_version=REFERENCE.name),
        ],
        [cluster_step("restart", broker=2)],
        [cluster_step("restart", broker=2, kill=True)],
        [cluster_step("isolate", broker=2, from_clients=True), cluster_step("heal", broker=2)],
    ],
)
def test_brokers_go_and_come_back(steps: list[dict[str, Any]]) -> None:
    wait_until_in_sync = {"wait-until": {"in-sync": "t-1"}}
    result = play_steps([INIT, *transaction("r1", partition="t-1"), *steps, wait_until_in_sync])
    assert result.as_declared, result.verdict


def test_a_broker_does_not_come_back_as_a_release_that_can_not_register() -> None:
    with pytest.raises(ConfigError, match="does not support finalized version"):
        play_steps(
            [
                INIT,
                cluster_step("stop", broker=2),
                cluster_step("start", broker=2, as_version="4.3"),
            ]
        )


def test_replicas_and_configs_are_changed() -> None:
    steps = [
        cluster_step("reassign", partition="t-0", replicas=[2, 3]),
        cluster_step("configure", topic="t", name="retention.ms", value="1000"),
        INIT,
        *transaction("r1"),
    ]
    assert play_steps(steps).as_declared
    wrong_result = play_steps([cluster_step("configure", topic="t", name="no.such", value="1")])
    assert "steps.0.cluster: t: no.such: " in wrong_result.verdict.because[0]
    nobody_result = play_steps([cluster_step("reassign", partition="t-0", replicas=[9])])
    assert "steps.0.cluster: t-0 is not given to (9,)" in nobody_result.verdict.because[0]


def test_a_log_is_rolled_cleaned_and_cut_when_the_story_says() -> None:
    append = call("append", "bystander", partition="t-0", values=["a", "b"], key="k")
    steps = [append, cluster_step("roll", partition="t-0"), cluster_step("clean", partition="t-0")]
    result = play_steps([*steps, cluster_step("clean", partition="in-0")], topics=COMPACTED)
    assert result.as_declared, result.verdict
    assert len(observations_of(result, Cleaned)) == 2
    uncommitted = [
        r for r in observations_of(result, Read) if r.isolation == "read_uncommitted" and r.records
    ]
    assert [record.value for record in uncommitted[0].records] == ["b"]

    short_topics = {"t": {"partitions": 1, "configs": {"retention.ms": 1_000}}, "in": 1}
    aged = [
        append,
        cluster_step("roll", partition="t-0"),
        {"advance": "2m"},
        cluster_step("delete-old", partition="t-0"),
    ]
    expectation = {"expect": {"partition": "t-0", "high-watermark": 2}}
    cut_result = play_steps([*aged, expectation], topics=short_topics)
    assert {read.log_start_offset for read in observations_of(cut_result, Read)} >= {2}, (
        cut_result.verdict
    )


def test_topics_come_go_and_grow_in_the_middle_of_a_story() -> None:
    steps = [
        INIT,
        cluster_step("create-topic", topic="late", partitions=2, leaders=[3, 1]),
        {"wait-until": {"leader": {"partition": "late-0", "is": 3}}},
        *transaction("r1", partition="late-1"),
        cluster_step("grow-topic", topic="late", partitions=3, leaders=[2]),
        {"wait-until": {"leader": {"partition": "late-2", "is": 2}}},
        *transaction("r2", partition="late-2"),
        {"expect": {"partition": "late-2", "committed": ["r2"]}},
        cluster_step("delete-topic", topic="in"),
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    assert {str(read.place) for read in observations_of(result, Read)} == {
        "t-0", "t-1", "late-0", "late-1", "late-2",
    }  # fmt: skip
    steps_without_topic = [INIT, cluster_step("delete-topic", topic="t"), call("begin")]
    refused_step = call("add-partitions", partitions="t-0", error="UNKNOWN_TOPIC_OR_PARTITION")
    assert play_steps([*steps_without_topic, refused_step]).as_declared
    assert failure(
        play_steps(
            [cluster_step("delete-topic", topic="t"), cluster_step("delete-topic", topic="t")]
        )
    ) == ("topic t: UNKNOWN_TOPIC_OR_PARTITION")
    second_result = play_steps([cluster_step("create-topic", topic="t")])
    assert failure(second_result).startswith("topic t: TOPIC_ALREADY_EXISTS")


def test_a_topic_that_is_made_again_has_lost_nothing() -> None:
    steps = [
        call("append", "bystander", partition="t-0", values=["a", "b"]),
        call("read", "reader", partition="t-0", reads=["a", "b"]),
        cluster_step("delete-topic", topic="t"),
        cluster_step("create-topic", topic="t"),
        {"wait-until": {"leader": {"partition": "t-0", "is": 1}}},
        call("append", "bystander", partition="t-0", value="a"),
        call("append", "bystander", partition="t-0", value="c"),
        call("read", "reader", partition="t-0", from_=0, reads=["a", "c"]),
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    (deleted,) = observations_of(result, Deleted)
    assert (deleted.topic, deleted.asked_ms < deleted.at_ms) == ("t", True)
    assert observations_of(result, Wrote)[-1].asked_ms > deleted.at_ms, "surely of the second topic"


def test_an_id_begins_near_the_end_of_its_epochs() -> None:
    steps = [
        cluster_step("age", transactional_id="app", epoch=32_764),
        INIT,
        *transaction("r1"),
        *transaction("r2"),
        *transaction("r3"),
    ]
    result = play_steps(steps, run_name="TV2")
    assert result.as_declared, result.verdict
    identities = {
        (observation.producer_id, observation.producer_epoch)
        for observation in observations_of(result, Ended)
    }
    assert len({producer_id for producer_id, _ in identities}) == 2, "the id has rotated"
    busy_steps = [INIT, call("begin"), call("add-partitions", partitions="t-0")]
    refused_result = play_steps([*busy_steps, cluster_step("age", transactional_id="app", epoch=9)])
    assert failure(refused_result) == (
        "INVALID_TXN_STATE: app is in Ongoing: only an idle id can be aged"
    )
    past_result = play_steps(
        [
            cluster_step("age", transactional_id="app", epoch=9),
            cluster_step("age", transactional_id="app", epoch=9),
        ]
    )
    assert failure(past_result) == "INVALID_PRODUCER_EPOCH: app is at epoch 9 already"


def test_internal_topics_are_configured_and_reassigned_once_they_are_there() -> None:
    offsets = "__consumer_offsets"
    move = cluster_step("reassign", partition=f"{offsets}-0", replicas=[2, 3])
    early_result = play_steps([move])
    assert (
        failure(early_result) == f"{offsets}-0 is not given to (2, 3): UNKNOWN_TOPIC_OR_PARTITION"
    )
    steps_before = [INIT, call("begin"), call("add-offsets", group="g", always=True)]
    steps_before += [call("commit-offsets", group="g", offsets={"t-0": 1}), call("commit")]
    configure = cluster_step("configure", topic=offsets, name="retention.ms", value="1000")
    result = play_steps([*steps_before, configure, move])
    assert result.as_declared, result.verdict


def test_values_are_read() -> None:
    assert [duration_ms(text) for text in ("500ms", "-10s", "21m", "2h", "7d")] == [
        500, -10_000, 1_260_000, 7_200_000, 604_800_000,
    ]  # fmt: skip
    assert partition("a-b-12") == TopicPartition("a-b", 12)
    assert offsets({"t-0": 3}) == {TopicPartition("t", 0): 3}
    assert content("k") == b"k"
    assert content({"hex": "0001"}) == b"\x00\x01"
    assert (as_tuple("a"), as_tuple(3), as_tuple(["a"])) == (("a",), (3,), ["a"])
    rule = fault_rule({"id": "x", "point": "client.request"})
    assert isinstance(rule, FaultRule)
    assert str(rule.action) == "hold"


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (duration_ms, 5, "expected a duration such as"),
        (duration_ms, "367d", "367d is more than 366d, the longest duration"),
        (duration_ms, "5 minutes", "'5 minutes' is no duration"),
        (partition, 5, "expected a partition"),
        (partition, "orders", "'orders' is no partition such as orders-0"),
        (offsets, ["t-0"], "expected partitions with offsets"),
        (content, 5, "expected text, or bytes"),
        (content, {"hex": "0"}, "hexadecimal"),
        (fault_rule, "late", "expected the fields of a fault rule"),
        (fault_rule, {"id": "x", "point": "nowhere"}, "nowhere"),
    ],
)
def test_what_is_none_is_refused(read: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(value)


def test_a_situation_is_named_by_its_run_first_and_a_disarmed_one_by_that() -> None:
    armed_selection = RunSelection(run="V-/before", mode="V-", take="armed")
    assert armed_selection.words == ("V-/before", "V-", "armed", "step-by-step")
    control_selection = RunSelection(run="V-", mode="V-", take="control", program=True)
    assert control_selection.words == ("control", "V-", "V-", "program")


def step(**step_fields: object) -> Step:
    return Step.model_validate(
        {name.replace("_", "-"): value for name, value in step_fields.items()}
    )


def test_a_step_does_exactly_one_thing() -> None:
    for fields in ({}, {"release": "a", "advance": "1s"}, {"say": "Hm."}):
        with pytest.raises(ValidationError, match="expected exactly one of call, await, give-up"):
            step(**fields)
    with pytest.raises(ValidationError, match="expected exactly one of struck, answered"):
        step(wait_until={})
    with pytest.raises(ValidationError, match="expected one of committed, uncommitted"):
        step(expect={"partition": "t-0"})


def test_what_is_about_faults_says_so() -> None:
    fault_rule = {"id": "a", "point": "client.request"}
    for fields in (
        {"hold": fault_rule},
        {"arm": {**fault_rule, "action": {"do": "drop"}}},
        {"release": "a"},
        {"disarm": "a"},
        {"give-up": "x"},
        {"wait-until": {"struck": {"rule": "a", "times": 2}}},
    ):
        assert Step.model_validate(fields).is_about_faults, fields
    for fields in ({"await": "x"}, {"advance": "1s"}, {"wait-until": {"answered": "x"}}):
        assert not Step.model_validate(fields).is_about_faults, fields


def test_every_field_of_a_call_and_of_an_act_belongs_to_somebody() -> None:
    used_names = {
        name
        for abilities in FIELDS_BY_CALL.values()
        for needs in abilities.values()
        for part in needs
        for name in part
    }
    assert used_names | {"who", "do"} == set(Call.model_fields)
    acts = {
        name for needed, possible in FIELDS_BY_CLUSTER_ACT.values() for name in (*needed, *possible)
    }
    assert acts | {"do"} == set(ClusterAct.model_fields)


def test_a_call_knows_what_was_given_and_its_records() -> None:
    call = Call.model_validate({"who": "P", "do": "produce", "value": "a", "from": 3})
    assert call.given_fields == {"value", "from_"}
    assert call.records == ("a",)
    assert Call.model_validate({"who": "P", "do": "x", "values": ["a", "b"]}).records == ("a", "b")


@pytest.mark.parametrize("command", [Go(steps=2), Go(), Drive(step={"advance": "1s"}), Back()])
def test_a_command_arrives_as_it_was_sent(command: Command) -> None:
    assert to_command(encode(command)) == command


def test_orders_and_states_arrive_as_they_were_sent() -> None:
    input_given = Input(before=3, step={"release": "late"})
    order = Order(yaml="name: x", run="V-", take="armed", seed=1, inputs=(input_given,))
    assert to_order(encode(order)) == order
    assert to_state(encode(RunFailed(error="why"))) == RunFailed(error="why")


def test_who_only_asks_for_runs_imports_no_story() -> None:
    code = "import sys, txnsim_lab.scenario.driver_commands; print('pydantic' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "False"


def test_everybody_looks_twice_at_the_end_and_twice_more_after_a_cure() -> None:
    steps = [call("init-producer-id"), *transaction("r1")]
    result = play_steps(steps, cure=[{"advance": "1s"}])
    assert len(observations_of(result, Listed)) == 4
    assert len(observations_of(result, Healed)) == 1
    assert {
        (observation.name, observation.value) for observation in observations_of(result, Gauge)
    } == {(LATE_GAUGE, 0)}
    partitions = {
        (observation.topic, observation.partition)
        for observation in observations_of(result, Producers)
    }
    assert partitions == {("t", 0), ("t", 1), ("in", 0)}
    times = [observation.at_ms for observation in observations_of(result, Listed)]
    assert times[1] - times[0] > SECOND_LOOK_PAUSE_MS
    assert {observation.isolation for observation in observations_of(result, Read)} == {
        "read_committed",
        "read_uncommitted",
    }


@pytest.mark.costly
@pytest.mark.slow
def test_a_partition_without_a_leader_is_no_obstacle() -> None:
    topics = {"t": {"partitions": 1, "replication-factor": 1, "leaders": [2]}}
    result = play_steps([{"cluster": {"do": "kill", "broker": 2}}], topics=topics)
    assert result.as_declared, result.verdict
    assert "it is not known who writes to t-0" in sentences(result)
