"""Stories on real brokers: what is adapted, compared, or can't be played."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, small, transaction
from txnsim.errors import ConfigError
from txnsim.releases import RELEASES
from txnsim.types import TopicPartition
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.on_real.comparison import (
    SHORT_TIMEOUT_MS,
    ComparedRun,
    counterpart_of,
    only_simulated,
    simulate_beforehand,
    simulated_counterpart,
    why_not,
    why_not_of,
    why_not_there,
    with_prefixed_names,
)
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.target.cluster import RUNNING_ABILITIES, STARTED_ABILITIES
from txnsim_lab.target.generation import Generation


@pytest.mark.parametrize(
    ("version", "release", "has_strict_markers", "is_verified"),
    [
        ("3.1.0", "3.6", False, False),
        ("3.5.2", "3.6", False, False),
        ("3.9.2", "3.9", False, True),
        ("4.1.2", "4.1", False, True),
        ("4.3.1", "4.3", True, True),
        ("99.0.0", [*RELEASES][-1], True, True),
    ],
)
def test_a_release_is_held_against_the_newest_simulated_one(
    version: str, release: str, has_strict_markers: bool, is_verified: bool
) -> None:
    counterpart = counterpart_of(version)
    assert counterpart.release.name == release
    assert counterpart.effective.v2_markers_need_higher_epoch is has_strict_markers
    assert counterpart.effective.transactions_are_verified is is_verified


def test_what_is_no_release_is_refused() -> None:
    with pytest.raises(ConfigError, match="newest: no release"):
        counterpart_of("newest")


@pytest.mark.parametrize(
    ("name", "run_name", "version", "reason"),
    [
        ("z01", "V-", "3.5.2", None),
        ("z01", "V+", "3.5.2", "verification came with 3.6"),
        ("z01", "TV2", "3.9.2", "transactions v2 came with 4.0"),
        ("z01", "TV2", "4.0.2", None),
        ("z01", "TV2", "4.3.1", "strict markers (KIP-1228) came with 4.2"),
        ("z22-upgrade", "TV2+/before", "4.0.2", "strict markers (KIP-1228) came with 4.2"),
        ("z01", "TV2+", "4.3.1", None),
        ("z27", "V+/4.3", "4.3.1", None),
        ("z27", "TV2/4.3", "4.3.1", None),
        ("z27", "TV2/4.3", "4.4.0", None),
        ("z27", "V+/4.2", "4.4.0", "it is the world of 4.2"),
        ("z27", "V+/4.2", "4.3.1", "it is the world of 4.2"),
        ("z27", "V+/4.2", "4.2.2", None),
        ("z12", "V-/before", "3.5.2", None),
        ("z14", "V-/before", "3.1.0", None),
        ("z17", "V-/2.5", "4.3.1", None),
        ("z22", "V-", "3.5.2", None),
    ],
)
def test_a_run_has_a_world(name: str, run_name: str, version: str, reason: str | None) -> None:
    assert why_not_there(find(name)[1], run_name, version) == reason


@pytest.mark.parametrize(
    ("name", "run_name", "version", "ticket"),
    [
        ("z12", "V-/before", "4.3.1", "KAFKA-16352"),
        ("z12", "V-/fixed", "3.5.2", "KAFKA-16352"),
        ("z14", "V-/before", "3.2.1", "KAFKA-14055"),
        ("z14", "V-/fixed", "3.2.0", "KAFKA-14055"),
        ("z17", "V-/2.5", "4.0.2", "KAFKA-20734"),
    ],
)
def test_a_rule_that_a_release_does_not_have_is_named(
    name: str, run_name: str, version: str, ticket: str
) -> None:
    reason = why_not_there(find(name)[1], run_name, version)
    assert reason is not None
    assert reason.startswith(ticket)


def test_what_only_some_releases_lack_is_not_said_to_have_come() -> None:
    assert why_not_there(find("z17")[1], "V-/2.5", "4.0.2") == (
        "KAFKA-20734: up to 4.2 a partition without a leader keeps its marker waiting;"
        " elsewhere it counts as deleted and its marker is dropped: a hanging transaction"
    )


CLOCK = "it moves the clock by 11 minutes"
LOST = "a broker loses what it had not flushed"
OTHER = "a broker starts as another release"
ROLLS = "it has to end a segment, and these brokers are yours"
INSIDE = "a fault at log.append, inside of a broker"
KILLS = "it has to kill a broker, and these brokers are yours"
GROWS = "it gives a topic more partitions"
MODES = ("V-", "V+", "TV2", "TV2+")
NAMED = "it names a producer id, which a real cluster chooses itself"
HOLD = {"id": "h", "point": "client.request", "api": "EndTxn"}
PEER = {"id": "h", "point": "peer.request", "api": "WriteTxnMarkers"}


@pytest.mark.parametrize(
    ("step", "reason_of_ours", "reason_of_theirs"),
    [
        ({"hold": HOLD}, None, None),
        ({"hold": {**HOLD, "broker": 2}}, None, "a fault that names a broker by its number"),
        (
            {"hold": PEER},
            None,
            "a fault at peer.request, between brokers that do not come through the proxy",
        ),
        (
            {"hold": {"id": "h", "point": "log.append"}},
            INSIDE,
            INSIDE,
        ),
        ({"advance": "10s"}, None, None),
        ({"advance": "75s"}, None, None),
        ({"advance": "50s"}, None, None),
        ({"advance": "11m"}, CLOCK, CLOCK),
        ({"cluster": {"do": "kill", "broker": 2}}, None, KILLS),
        ({"cluster": {"do": "kill", "broker": 2, "lose-unflushed": True}}, LOST, LOST),
        ({"cluster": {"do": "start", "broker": 2, "as-version": "4.3"}}, OTHER, OTHER),
        ({"cluster": {"do": "roll", "partition": "t-0"}}, None, ROLLS),
        (
            {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 2}},
            None,
            "it moves a leader of __transaction_state",
        ),
        (
            {"cluster": {"do": "reassign", "partition": "__consumer_offsets-0", "replicas": [1]}},
            None,
            "it moves a leader of __consumer_offsets",
        ),
        ({"cluster": {"do": "move-leader", "partition": "t-0", "to": 2}}, None, None),
        ({"cluster": {"do": "grow-topic", "topic": "t", "partitions": 3}}, GROWS, GROWS),
        (call("commit", producer_id=0, epoch=0), NAMED, NAMED),
        (call("commit", broker=2), None, "it asks a broker by its number"),
    ],
)
def test_what_only_a_simulator_can_do_is_named_with_its_step(
    step: dict[str, Any], reason_of_ours: str | None, reason_of_theirs: str | None
) -> None:
    story = small([call("begin"), step])
    for abilities, expected_reason in (
        (STARTED_ABILITIES, reason_of_ours),
        (RUNNING_ABILITIES, reason_of_theirs),
    ):
        reason = only_simulated(story, "V-", "armed", abilities=abilities)
        assert reason == (None if expected_reason is None else f"step 2: {expected_reason}")


def test_a_long_time_in_which_nothing_is_due_can_pass() -> None:
    assert (
        only_simulated(
            find("lingering-is-not-hanging")[1], "V-", "armed", abilities=STARTED_ABILITIES
        )
        is None
    )
    control = only_simulated(
        find("lingering-is-not-hanging")[1], "V-", "control", abilities=STARTED_ABILITIES
    )
    assert control == "step 12: it moves the clock by 50 minutes"


def test_a_day_is_waited_for_only_where_our_cleaner_keeps_things_so_long() -> None:
    cleaning_scenario = find("abort-marker-before-its-data")[1]
    assert (
        only_simulated(cleaning_scenario, "V-/fixed", "armed", abilities=STARTED_ABILITIES) is None
    )
    reason = only_simulated(cleaning_scenario, "V-/fixed", "armed", abilities=RUNNING_ABILITIES)
    assert reason == "step 27: it has to end a segment, and these brokers are yours"
    story = small([call("begin"), {"advance": "25h"}])
    for abilities in (STARTED_ABILITIES, RUNNING_ABILITIES):
        found_reason = only_simulated(story, "V-", "armed", abilities=abilities)
        assert found_reason == "step 2: it moves the clock by 1500 minutes"


def test_a_step_of_the_cure_is_called_so() -> None:
    story = small([call("begin")], cure=[{"advance": "11m"}])
    reason = only_simulated(story, "V-", "armed", abilities=STARTED_ABILITIES)
    assert reason == "step of the cure 1: it moves the clock by 11 minutes"


@pytest.mark.parametrize(
    ("transaction_version", "verification", "is_strict", "modes"),
    [
        (0, {False}, False, ("V-",)),
        (0, {True}, False, ("V+",)),
        (1, {True}, True, ("V+",)),
        (1, (), True, ("V-", "V+")),
        (1, {True, False}, True, ()),
        (2, {True}, False, ("TV2",)),
        (2, {True}, True, ("TV2+",)),
        (2, {False}, True, ()),
    ],
)
def test_a_cluster_is_the_world_of_these_modes(
    transaction_version: int, verification: set[bool], is_strict: bool, modes: tuple[str, ...]
) -> None:
    cluster = Generation(
        transaction_version=transaction_version,
        verification=frozenset(verification),
        has_strict_markers=is_strict,
    )
    story = small([call("begin")])
    assert modes == tuple(mode for mode in MODES if why_not_of(cluster, story, mode) is None)


def test_where_a_story_is_the_same_with_strict_markers_both_will_do() -> None:
    cluster = Generation(transaction_version=2, has_strict_markers=True)
    story = small([call("begin")], runs={"TV2": {"mode": "TV2", "verdict": "healthy"}})
    assert why_not_of(cluster, story, "TV2") is None


def test_a_member_and_what_it_subscribes_to() -> None:
    actors = {"a": {"plays": "member", "group": "g"}}
    adapted_scenario = with_prefixed_names(
        small([call("subscribe", "a", topics=["t", "in"])], actors=actors), "my-"
    )
    assert adapted_scenario.actors["a"].group == "my-g"
    subscribe_call = adapted_scenario.steps[0].call
    assert subscribe_call is not None
    assert subscribe_call.topics == ("my-t", "my-in")


def test_every_name_of_the_clusters_gets_the_prefix_and_no_other() -> None:
    steps = [
        {"hold": {"id": "t", "point": "client.request", "transactional_id": "app"}},
        {"wait-until": {"struck": "t"}},
        {"wait-until": {"transaction": {"id": "app", "is": "Ongoing"}}},
        {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 1}},
        {"cluster": {"do": "move-leader", "partition": "__transaction_state@app", "to": 1}},
        call("commit-offsets", group="g", offsets={"in-0": 3}),
        call("producers", "operator", partition="__consumer_offsets@g"),
        call("producers", "operator", partition="__consumer_offsets-3"),
        {"cluster": {"do": "create-topic", "topic": "late"}},
        call("begin", transaction="T1"),
    ]  # fmt: skip
    adapted_steps = with_prefixed_names(small(steps), "my-").steps
    assert set(with_prefixed_names(small(steps), "my-").topics) == {"my-t", "my-in"}
    rule = adapted_steps[0].rule
    assert rule is not None
    assert (rule.id, rule.transactional_id) == ("t", "my-app")
    assert adapted_steps[1].struck == "t"
    assert adapted_steps[2].wait_until is not None
    assert adapted_steps[2].wait_until.transaction is not None
    assert adapted_steps[2].wait_until.transaction.id == "my-app"
    assert adapted_steps[3].cluster is not None
    assert adapted_steps[3].cluster.coordinator_of == "my-app"
    assert [
        topic_partition for step in adapted_steps[4:8] for topic_partition in step.partitions
    ] == [
        TopicPartition("__transaction_state@my-app", -1),
        TopicPartition("__consumer_offsets@my-g", -1),
        TopicPartition("__consumer_offsets", 3),
    ]
    commit_call = adapted_steps[5].call
    assert commit_call is not None
    assert (commit_call.group, commit_call.offsets) == ("my-g", {TopicPartition("my-in", 0): 3})
    assert adapted_steps[8].cluster is not None
    assert adapted_steps[8].cluster.topic == "my-late"
    assert adapted_steps[9].call is not None
    assert adapted_steps[9].call.transaction == "T1"


def test_only_ordinary_timeouts_are_shortened() -> None:
    actors = {
        "P": {"plays": "wire"},
        "Q": {"plays": "wire", "transactional-id": "q", "transaction-timeout": "1h"},
        "R": {"plays": "reader"},
    }
    adapted_actors = with_prefixed_names(small([call("begin")], actors=actors), "my-").actors
    assert (adapted_actors["P"].transactional_id, adapted_actors["P"].transaction_timeout) == (
        "my-P",
        SHORT_TIMEOUT_MS,
    )
    assert (adapted_actors["Q"].transactional_id, adapted_actors["Q"].transaction_timeout) == (
        "my-q",
        3_600_000,
    )
    assert adapted_actors["R"].transactional_id is None


def test_a_story_that_stays_within_a_timeout_keeps_it() -> None:
    actors = {"P": {"plays": "wire"}}
    adapted_actors = with_prefixed_names(small([{"advance": "50s"}], actors=actors), "my-").actors
    assert adapted_actors["P"].transaction_timeout == 60_000


def test_a_step_keeps_its_place_in_the_file() -> None:
    scenario = find("z01")[1]
    assert [step.place for step in with_prefixed_names(scenario, "my-").steps] == [
        step.place for step in scenario.steps
    ]


INIT = call("init-producer-id")


def test_the_simulated_side_is_the_world_of_the_release() -> None:
    scenario_run = ScenarioRun(scenario=find("z12")[1], run="V-/before")
    assert why_not(scenario_run, "3.5.2") is None
    assert (
        simulated_counterpart(scenario_run, "3.5.2").scenario.runs["V-/before"].as_version == "3.6"
    )
    (result,) = simulate_beforehand([scenario_run], "3.5.2").values()
    assert result.verdict.observed == ("stuck-coordinator",)


def test_where_the_fault_can_not_be_had_the_other_takes_are_left_out_too() -> None:
    story = small([{"hold": {"id": "h", "point": "log.append"}, "only": "armed"}, INIT])
    for take_name in ("armed", "disarmed"):
        reason = why_not(ScenarioRun(scenario=story, run="V-", take=take_name), "4.3.1")
        assert reason == "step 1: a fault at log.append, inside of a broker"
    assert simulate_beforehand([ScenarioRun(scenario=story, run="V-")], "4.3.1") == {}


def test_a_cell_agrees_where_both_verdicts_are_the_same() -> None:
    scenario_run = ScenarioRun(scenario=small([INIT, *transaction("r1")]), run="V-")
    healthy_result = run_in_virtual_time(scenario_run)
    hang_result = run_in_virtual_time(ScenarioRun(scenario=find("z01")[1], run="V-"))
    assert ComparedRun(
        scenario_run=scenario_run, on="4.3.1", simulated=healthy_result, real=healthy_result
    ).agrees
    assert not ComparedRun(
        scenario_run=scenario_run, on="4.3.1", simulated=healthy_result, real=hang_result
    ).agrees
    assert not ComparedRun(
        scenario_run=scenario_run, on="4.3.1", simulated=healthy_result, why_not="refused"
    ).agrees
    assert ComparedRun(scenario_run=scenario_run, on="4.3.1", why_not="left out").agrees
