"""Plans from seeds: what is drawn, with which weights, and how it is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.support.clusters import begin_transaction
from tests.support.hand_made_plans import leaderless_plan
from txnsim.errors import ConfigError
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read
from txnsim_lab.scenario.steps_model import Step
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._curious_client import ASK_KEY
from txnsim_lab.simulation._curious_requests import (
    CURIOUS_FEATURE,
    MISSING_NAMES,
    OWN_GROUPS,
    OWN_TOPICS,
    OWN_TRANSACTIONAL_IDS,
)
from txnsim_lab.simulation._further_features import (
    AMID_FAULTS_FEATURE,
    AMID_TRANSACTIONS_FEATURE,
    HELD_FEATURE,
    JOINT_PRODUCE_FEATURE,
    KEYED_FEATURE,
    LATE_FOLLOWERS_FEATURE,
    LEAVING_FEATURE,
    MEMBER_COMMITS_FEATURE,
    MONITORED_FEATURE,
    REPLACED_FEATURE,
    STREAMS_FEATURE,
    TROUBLED_FEATURE,
)
from txnsim_lab.simulation._sentences import sentence_of
from txnsim_lab.simulation._share_groups import SHARE_GROUPS_FEATURE
from txnsim_lab.simulation.differential import difference, other_plan
from txnsim_lab.simulation.drawing import SimulationOptions, draw
from txnsim_lab.simulation.guests import Guest
from txnsim_lab.simulation.guide import CANDIDATES_PER_RUN, guided_seeds, pairs_of
from txnsim_lab.simulation.plan import RUN_NAME, Act, Plan, Track, World, scenario_of
from txnsim_lab.simulation.play import CRASH_KIND, CoverageCell, play, quieten
from txnsim_lab.simulation.reports import pytest_of, story_of
from txnsim_lab.simulation.seed_batch import SeedTally, row_of

SEEDS = range(120)


def steps_of(plan: Plan) -> list[Step]:
    """The plan's acts as steps, without those of the curious client, which no step can express."""
    acts = [act for track in plan.tracks for act in track.acts]
    return [Step.model_validate(act.step) for act in acts if ASK_KEY not in act.step]


@pytest.mark.costly
@pytest.mark.parametrize("as_version", [None, "4.1", "3.9", "2.8"])
def test_what_is_drawn_could_stand_in_a_scenario_file(as_version: str | None) -> None:
    for seed in SEEDS:
        plan = draw(seed, SimulationOptions(as_version=as_version))
        cast = scenario_of(plan).cast
        for step in steps_of(plan):
            assert step.call is None or step.call.who in cast


def test_a_seed_has_one_plan_and_another_seed_another() -> None:
    assert draw(5) == draw(5)
    plans = {draw(seed).to_json() for seed in SEEDS}
    assert len(plans) == len(SEEDS)


def test_seeds_leave_features_out_and_have_one_replica_mostly() -> None:
    features, replicas = Counter[str](), Counter[int]()
    for seed in SEEDS:
        plan = draw(seed)
        features.update(plan.features)
        replicas.update(topic["replication-factor"] for topic in plan.world.topics.values())
    drawn_features = defaults.CLIENT_FEATURES, defaults.CLUSTER_FEATURES, defaults.FURTHER_FEATURES
    known_features = {
        HELD_FEATURE,
        KEYED_FEATURE,
        JOINT_PRODUCE_FEATURE,
        MONITORED_FEATURE,
        REPLACED_FEATURE,
        CURIOUS_FEATURE,
        TROUBLED_FEATURE,
        MEMBER_COMMITS_FEATURE,
        LATE_FOLLOWERS_FEATURE,
        SHARE_GROUPS_FEATURE,
        STREAMS_FEATURE,
        AMID_FAULTS_FEATURE,
        AMID_TRANSACTIONS_FEATURE,
        LEAVING_FEATURE,
        *(feature_name for features in drawn_features for feature_name in features),
    }
    assert set(features) <= set(known_features)
    assert len(features) >= len(known_features) - 1  # a power failure is seldom allowed
    assert max(features.values()) < len(SEEDS) * 0.8
    assert replicas[1] > sum(replicas.values()) / 2


@pytest.mark.costly
def test_records_have_names_of_their_own() -> None:
    for seed in SEEDS:
        calls = [step.call for step in steps_of(draw(seed)) if step.call is not None]
        sent_calls = [call for call in calls if call.do != "configure-group"]
        values = Counter(call.value for call in sent_calls if call.value is not None)
        assert not values or max(values.values()) == 1


@pytest.mark.costly
def test_a_machine_loses_its_power_only_where_nothing_may_be_lost_by_it() -> None:
    for seed in range(1_500):
        plan = draw(seed)
        if "power-failure" in plan.features:
            assert "kill" not in plan.features
            assert all(topic["replication-factor"] == 3 for topic in plan.world.topics.values())


@pytest.mark.costly
def test_an_old_release_gets_the_protocol_that_it_has() -> None:
    modes = {draw(seed, SimulationOptions(as_version="2.8")).world.mode for seed in SEEDS}
    assert modes == {"V-"}
    assert {draw(seed).world.mode for seed in SEEDS} == {"V+", "TV2+"}


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no release"):
        draw(1, SimulationOptions(as_version="5.0"))


# What comes of the questions of somebody curious.


def plans() -> Iterator[Plan]:
    return (plan for plan in map(draw, range(400)) if CURIOUS_FEATURE in plan.features)


@pytest.mark.costly
@pytest.mark.slow
def test_every_question_can_be_put_and_most_are_answered() -> None:
    outcomes: Counter[str] = Counter()
    for plan in list(plans())[:20]:
        played_run = play(plan)
        assert [finding for finding in played_run.findings if finding.kind == "crash"] == []
        outcomes += Counter(act.error for act in played_run.acts if "ask" in act.step)
    assert outcomes["NONE"] > sum(outcomes.values()) / 4
    assert len(outcomes) > 30


def asking(api: str, version: int, to: dict[str, Any], **fields: Any) -> Plan:
    """A plan in which a curious client sends one request."""
    plan = leaderless_plan(as_version="4.4")
    question = {"api": api, "version": version, "to": to, "fields": fields}
    act = Act({"ask": question}, 0, 1, CURIOUS_FEATURE)
    return msgspec.structs.replace(plan, tracks=(Track(CURIOUS_FEATURE, (act,)),))


def test_an_answer_with_the_same_error_is_told_apart() -> None:
    resource = {"resource_type": 2, "resource_name": "missing", "configuration_keys": None}
    topic = {
        **resource,
        "resource_name": next(iter(leaderless_plan(as_version="4.4").world.topics)),
    }
    flags = {"include_synonyms": False, "include_documentation": False}
    for resources, is_told in ((topic, True), (resource, False)):
        plan = asking("DescribeConfigs", 4, {"broker": 1}, resources=[resources], **flags)
        comparison = difference(plan, other_plan(plan, ["4.3"]))
        assert comparison.is_none is not is_told
        if is_told:
            assert "when a curious client asks for DescribeConfigs" in comparison.sentence
            assert "both answer NONE, and do not say the same." in comparison.sentence


def test_what_he_was_told_is_what_he_says_next() -> None:
    reference = {"told": "member_epoch", "of": "own-group m1"}
    heartbeat = {
        "group_id": "own-group",
        "member_id": "m1",
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": ["own"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    to = {"group": "own-group"}
    plan = asking("ConsumerGroupHeartbeat", 1, to, **heartbeat, member_epoch=reference)
    (track,) = plan.tracks
    (act,) = track.acts
    early_ask = {
        **act.step["ask"],
        "fields": {**heartbeat, "member_epoch": {**reference, "plus": 5}},
    }
    acts = (act, act, Act({"ask": early_ask}, 0, 1, CURIOUS_FEATURE))
    plan = msgspec.structs.replace(plan, tracks=(msgspec.structs.replace(track, acts=acts),))
    errors = [act.error for act in play(plan).acts]
    assert errors == ["NONE", "NONE", "FENCED_MEMBER_EPOCH"]


@pytest.mark.costly
def test_his_questions_are_no_steps_of_a_story_but_of_a_test() -> None:
    plan = next(plans())
    assert Plan.from_json(plan.to_json()) == plan
    played_run = play(plan)
    assert play(Plan.from_json(plan.to_json())).digest == played_run.digest
    assert story_of(plan, msgspec.structs.replace(played_run, acts=played_run.acts[:3])) is None
    assert "Plan.from_json" in pytest_of(plan)


# Workloads of the user's.


async def orders(guest: Guest) -> None:
    async with (
        guest.client("mine") as client,
        await begin_transaction(client, "mine") as own_producer,
    ):
        await own_producer.send("u", 0, b"order")
        await own_producer.commit()


async def wrong(guest: Guest) -> None:
    await asyncio.sleep(1)
    raise AssertionError("two orders for one")


class BrokerResponseError(Exception):
    """An exception with the name of kafka-python's error class."""


async def refuse_workload(_guest: Guest) -> None:
    raise BrokerResponseError


async def unreachable(_guest: Guest) -> None:
    raise ConnectionRefusedError


def with_workload(name: str) -> Plan:
    plan = leaderless_plan(as_version="4.2")
    return msgspec.structs.replace(plan, tracks=(), workload=f"{__name__}:{name}")


def test_a_coroutine_of_the_users_takes_part() -> None:
    played_run = play(with_workload("orders"))
    assert played_run.kinds == ()
    assert b'"value":"order"' in played_run.history
    assert played_run.cells == {CoverageCell("", "workload", "NONE"): 1}
    assert played_run.guest_commit_count == 1


def test_what_it_asserts_is_a_finding() -> None:
    played_run = play(with_workload("wrong"))
    assert played_run.kinds == (CRASH_KIND,)
    assert "two orders for one" in played_run.findings[0].because


@pytest.mark.parametrize(
    ("name", "error"),
    [("refuse_workload", "BrokerResponseError"), ("unreachable", "ConnectionRefusedError")],
)
def test_what_its_library_raises_ends_it_and_is_no_finding(name: str, error: str) -> None:
    played_run = play(with_workload(name))
    assert played_run.kinds == ()
    assert played_run.cells == {CoverageCell("", "workload", error): 1}
    assert played_run.guest_commit_count == 0


def test_a_workload_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="workload"):
        play(with_workload("nothing"))


# What is drawn for somebody curious.


CURIOSITY_SEEDS = range(400)
LOOKS = ("Describe", "List", "Fetch", "Find", "Metadata", "OffsetF", "ConsumerGroupD")
OWN = {*OWN_TOPICS, *OWN_GROUPS, *OWN_TRANSACTIONAL_IDS, *MISSING_NAMES}


def plans_of_curiosity() -> Iterator[Plan]:
    return (plan for plan in map(draw, CURIOSITY_SEEDS) if CURIOUS_FEATURE in plan.features)


def questions(plan: Plan) -> list[dict[str, Any]]:
    return [act.step["ask"] for act in plan.acts if "ask" in act.step]


def field_texts(said_value: Any) -> Iterator[tuple[str, str]]:
    """The texts in a message, with the names of their fields."""
    if isinstance(said_value, dict):
        for name, value in said_value.items():
            for element in value if isinstance(value, list) else [value]:
                if isinstance(element, str):
                    yield name, element
                else:
                    yield from field_texts(element)


@pytest.mark.costly
def test_a_tenth_of_the_seeds_has_him_and_he_asks_for_most_apis() -> None:
    curious_plans = list(plans_of_curiosity())
    assert 20 < len(curious_plans) < 60
    apis = Counter(question["api"] for plan in curious_plans for question in questions(plan))
    assert len(apis) > 40
    assert apis.keys().isdisjoint(("UnregisterBroker", "UpdateFeatures", "SaslAuthenticate"))


@pytest.mark.costly
def test_what_he_changes_is_his_own() -> None:
    named = {
        *("name", "topic", "topic_name", "topic_names", "group_id", "groups_names"),
        *("transactional_id", "transactional_ids", "resource_name"),
    }
    own_text_count = 0
    for plan in plans_of_curiosity():
        for question in questions(plan):
            if question["api"].startswith(LOOKS):
                continue
            for name, topic_text in field_texts(question["fields"]):
                if name in named and (
                    topic_text in plan.world.topics or topic_text in ("__consumer_offsets",)
                ):
                    raise AssertionError((plan.seed, question))
                own_text_count += topic_text in OWN
    assert own_text_count > 500


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"call": {"who": "w1", "do": "init-producer-id"}}, "w1 asks for an identity"),
        (
            {
                "call": {
                    **{"who": "w1", "do": "produce", "partition": "t-0", "value": "{x}"},
                    **{"broker": 2, "once": True, "background": "late", "error": "any"},
                }
            },
            "w1 writes {x} to t-0 (broker 2, once yes)",
        ),
        (
            {"call": {"who": "w1", "do": "add-partitions", "partitions": ["t-0", "t-1"]}},
            "w1 adds t-0, t-1",
        ),
        (
            {"cluster": {"do": "move-leader", "coordinator-of": "x1", "to": 3}},
            "broker 3 becomes the coordinator of x1",
        ),
        (
            {"cluster": {"do": "isolate", "broker": 2, "from-clients": False}},
            "broker 2 is cut off from the other brokers (from-clients no)",
        ),
        (
            {
                "arm": {
                    "id": "d",
                    "point": "p",
                    "api": "EndTxn",
                    "action": {"do": "drop"},
                    "limit": 1,
                }
            },
            "EndTxn meets drop at p (limit 1)",
        ),
        ({"give-up": "late w1.1"}, "late w1.1 is not waited for any longer"),
        ({"observe": "everything"}, "everything is looked at"),
        ({"care": {"do": "something", "partition": "t-0"}}, "something (partition t-0)"),
        ({"arm": {"id": "d", "action": {"do": "clock", "by_ms": 5}}}, "arm (action clock 5)"),
        ({"advance": 5}, "advance"),
    ],
)
def test_an_act_is_told_in_a_sentence(step: dict[str, Any], sentence: str) -> None:
    assert sentence_of(step) == sentence


@pytest.mark.costly
def test_a_run_becomes_a_scenario_that_has_the_same_verdict() -> None:
    plan = leaderless_plan()
    story = story_of(plan, play(plan))
    assert story is not None
    assert story.steps <= 8
    scenario = read("found.yaml", story.text)
    result = run_in_virtual_time(ScenarioRun(scenario=scenario, run=RUN_NAME), seed=plan.seed)
    assert result.as_declared
    assert result.verdict.observed == story.verdict
    assert "stuck-last-stable-offset" in story.verdict
    assert "Broker 2 is killed." in [step.say for step in scenario.steps]


def test_what_steps_can_t_say_is_no_story() -> None:
    plan = leaderless_plan()
    played_run = msgspec.structs.replace(play(plan), findings=())
    assert story_of(plan, played_run) is None


def test_a_test_holds_the_plan() -> None:
    text = pytest_of(leaderless_plan(as_version="4.2"))
    names: dict[str, object] = {}
    exec(compile(text, "test_found.py", "exec"), names)
    test = names["test_the_run_is_healthy"]
    assert callable(test)
    test()


OPTIONS = SimulationOptions()


def test_of_each_eight_seeds_one_is_played_and_always_the_same() -> None:
    chosen_seeds = [*guided_seeds(range(100), OPTIONS)]
    assert [seed // CANDIDATES_PER_RUN for seed in chosen_seeds] == [*range(13)]
    assert chosen_seeds == [*guided_seeds(range(100), OPTIONS)]


@pytest.mark.costly
def test_what_is_chosen_has_more_pairs_than_what_comes_first() -> None:
    def pairs(seeds: list[int]) -> int:
        return len({pair for seed in seeds for pair in pairs_of(draw(seed))})

    chosen_seeds = [*guided_seeds(range(40 * CANDIDATES_PER_RUN), OPTIONS)]
    assert pairs(chosen_seeds) > 1.1 * pairs([*range(40)])


def test_pairs_are_of_what_is_asked_for_and_what_that_may_meet() -> None:
    steps = (
        {"call": {"who": "a1", "do": "begin"}},
        {"ask": {"api": "ListGroups", "version": 5, "to": {"broker": 1}, "fields": {}}},
        {"cluster": {"do": "kill", "broker": 1}},
        {"arm": {"id": "d1", "point": "client.response", "action": {"do": "drop"}}},
        {"observe": "everything"},
    )
    track = Track(name="a1", acts=tuple(Act(step=step) for step in steps))
    plan = Plan(seed=1, world=World(mode="TV2+"), tracks=(track,), features=("kill",))
    met_acts = {"TV2+", "kill", "cluster kill", "arm client.response drop"}
    acts_of_plan = {"begin", "ask ListGroups", "observe"}
    assert pairs_of(plan) == {
        (act_name, met_act) for act_name in acts_of_plan for met_act in met_acts
    }


# Two hundred runs drawn from seeds: whatever they find has a name. A finding without one is a bug:
# of ours, of a judge, or of Apache Kafka, and then it needs a scenario. ``txnsim simulate --seed
# N`` shrinks it.


DRAWN_RUNS_SEEDS = 200
BLOCKS = 4
"""Each a test of its own, so that they share the processors."""


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_drawn_runs_find_has_a_name(block: int) -> None:
    quieten()
    tally = SeedTally()
    for seed in range(block * DRAWN_RUNS_SEEDS // BLOCKS, (block + 1) * DRAWN_RUNS_SEEDS // BLOCKS):
        tally.add(row_of(seed, SimulationOptions()))
    assert tally.idle is None
    nameless = {row.seed: row.because for row in tally.failed_rows if not row.names}
    assert nameless == {}


def test_a_plan_comes_back_from_its_file() -> None:
    plan = leaderless_plan()
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.size == 11


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(ConfigError, match="no plan"):
        Plan.from_json(b'{"seed": 1}')


def test_its_cluster_and_cast_are_those_of_a_scenario() -> None:
    scenario = scenario_of(leaderless_plan(as_version="4.2"))
    assert scenario.runs[RUN_NAME].as_version == "4.2"
    assert scenario.cast["p"].plays == "wire"
    assert [*scenario.topics] == ["t", "u"]


@pytest.mark.costly
def test_a_question_has_null_only_where_its_field_may_be() -> None:
    """Seed 1308 asked StreamsGroupHeartbeat with a config whose value was null."""
    assert "crash" not in {finding.kind for finding in play(draw(1308)).findings}
