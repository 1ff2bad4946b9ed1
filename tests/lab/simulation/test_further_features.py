"""What runs have besides, since rolling upgrades and short expirations are drawn as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from txnsim.releases import RELEASES
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._causes import _switches_off
from txnsim_lab.simulation._curious_requests import CURIOUS_FEATURE
from txnsim_lab.simulation._disturbances import POWER_FAILURE
from txnsim_lab.simulation._further_features import (
    AMID_FAULTS_FEATURE,
    AMID_TRANSACTIONS_FEATURE,
    EXPIRATION_SETTINGS,
    HELD_FEATURE,
    JOINT_PRODUCE_FEATURE,
    KEYED_FEATURE,
    LATE_FOLLOWERS_FEATURE,
    LEAVING_FEATURE,
    MEMBER_COMMITS_FEATURE,
    MONITOR_ACTOR,
    MONITORED_FEATURE,
    REPLACED_FEATURE,
    SHORT_EXPIRATIONS_FEATURE,
    STREAMS_FEATURE,
    TROUBLED_FEATURE,
    with_further_features,
)
from txnsim_lab.simulation._share_groups import SHARE_GROUPS_FEATURE
from txnsim_lab.simulation._shrinking import without_habit
from txnsim_lab.simulation.drawing import SimulationOptions, draw
from txnsim_lab.simulation.plan import Act, Plan, Track, World
from txnsim_lab.simulation.play import PlayedRun, play

SEEDS = range(400)


def having(feature: str, wanted_options: SimulationOptions = SimulationOptions()) -> Iterator[Plan]:  # noqa: B008 - frozen
    return (
        plan for plan in (draw(seed, wanted_options) for seed in SEEDS) if feature in plan.features
    )


def acts_of_habit(plan: Plan, habit: str) -> list[Act]:
    return [act for act in plan.acts if act.habit == habit]


def answers(played_run: PlayedRun, habit: str, plan: Plan) -> list[str]:
    steps = [act.step for act in acts_of_habit(plan, habit)]
    return [act.error for act in played_run.acts if act.step in steps]


def test_a_seed_without_any_of_it_is_what_it_was() -> None:
    later_features = {
        *defaults.FURTHER_FEATURES,
        HELD_FEATURE,
        KEYED_FEATURE,
        JOINT_PRODUCE_FEATURE,
        MONITORED_FEATURE,
        REPLACED_FEATURE,
        TROUBLED_FEATURE,
        MEMBER_COMMITS_FEATURE,
        LATE_FOLLOWERS_FEATURE,
        CURIOUS_FEATURE,
        SHARE_GROUPS_FEATURE,
        STREAMS_FEATURE,
    }
    plain_plans = [plan for plan in map(draw, SEEDS) if later_features.isdisjoint(plan.features)]
    assert len(plain_plans) > len(SEEDS) / 8
    assert [
        with_further_features(plan, older_releases=["4.3"]) for plan in plain_plans
    ] == plain_plans


@pytest.mark.costly
def test_each_feature_is_in_some_seeds() -> None:
    for feature, often in defaults.FURTHER_FEATURES.items():
        count = len(list(having(feature)))
        assert 0 < count < len(SEEDS) * often * 2, feature


@pytest.mark.costly
def test_an_upgrade_takes_each_broker_to_the_release_that_is_asked_for() -> None:
    for plan in having("rolling-upgrade", SimulationOptions(as_version="4.2")):
        assert list(RELEASES).index(plan.world.as_version or "") < list(RELEASES).index("4.2")
        acts = [act.step["cluster"] for act in acts_of_habit(plan, "rolling-upgrade")]
        assert [act["broker"] for act in acts[::2]] == [*range(1, plan.world.brokers + 1)]
        assert {act["as-version"] for act in acts[1::2]} == {"4.2"}
    assert list(having("rolling-upgrade", SimulationOptions(as_version="2.8"))) == []


@pytest.mark.costly
def test_brokers_are_upgraded_and_their_bugs_are_those_of_both_releases() -> None:
    for plan in having("rolling-upgrade"):
        if plan.world.as_version == "4.2":
            assert "NONE" in answers(play(plan), "rolling-upgrade", plan)
            assert ("leaderless_partitions_keep_markers", False) in [*_switches_off(plan)]
            break
    else:
        raise AssertionError("no seed is upgraded from 4.2")


@pytest.mark.costly
def test_an_id_of_one_user_is_old_before_its_first_transaction() -> None:
    aged_track_count = 0
    for plan in having("long-lived-ids"):
        for track in plan.tracks:
            aged_acts = [act for act in track.acts if act.habit == "long-lived-ids"]
            if aged_acts:
                assert track.acts[0] is aged_acts[0]
                aged_track_count += 1
    assert aged_track_count > 5
    plan = next(plan for plan in having("long-lived-ids") if acts_of_habit(plan, "long-lived-ids"))
    assert "NONE" in answers(play(plan), "long-lived-ids", plan)


def test_coordinators_of_groups_move() -> None:
    plan = next(having("move-groups"))
    assert "__consumer_offsets@g1" in {
        act.step["cluster"]["partition"] for act in acts_of_habit(plan, "move-groups")
    }


@pytest.mark.costly
def test_short_expirations_are_settings_and_can_be_left_out() -> None:
    plans = [
        plan
        for plan in having(SHORT_EXPIRATIONS_FEATURE)
        if plan.world.settings.keys() & {*EXPIRATION_SETTINGS}
    ]
    assert len(plans) > 5
    for plan in plans:
        careful_plan = without_habit(plan, SHORT_EXPIRATIONS_FEATURE)
        assert not careful_plan.world.settings.keys() & {*EXPIRATION_SETTINGS}
        assert careful_plan.tracks == plan.tracks


@pytest.mark.costly
def test_leaders_move_while_something_is_held_and_can_move() -> None:
    held_apis: set[str] = set()
    for plan in having(HELD_FEATURE):
        acts = acts_of_habit(plan, HELD_FEATURE)
        held_apis |= {act.step["arm"].get("api", "load") for act in acts if "arm" in act.step}
        assert plan.world.settings["transaction.state.log.replication.factor"] == 3
        assert {"arm", "cluster", "disarm"} == {key for act in acts for key in act.step}
    assert held_apis == {name for name, _ in defaults.HELD_STEPS}
    for plan in list(having(HELD_FEATURE))[:3]:
        assert "NONE" in answers(play(plan), HELD_FEATURE, plan)


@pytest.mark.costly
def test_records_of_compacted_topics_have_keys_and_are_cleaned() -> None:
    errors: set[str] = set()
    for plan in list(having(KEYED_FEATURE))[:6]:
        compacted = {
            topic_name for topic_name, topic in plan.world.topics.items() if "configs" in topic
        }
        errors |= {*answers(play(plan), KEYED_FEATURE, plan)}
        for act in plan.acts:
            call = act.step.get("call", {})
            if "key" in call and call["do"] == "produce":
                assert call["partition"].rpartition("-")[0] in compacted
    assert "NONE" in errors


@pytest.mark.costly
def test_one_request_brings_records_to_partitions_that_one_broker_leads() -> None:
    errors: set[str] = set()
    joined_plans = [
        plan for plan in having(JOINT_PRODUCE_FEATURE) if acts_of_habit(plan, JOINT_PRODUCE_FEATURE)
    ]
    assert len(joined_plans) > len(SEEDS) / 25
    for plan in joined_plans:
        values: list[str] = []
        for act in acts_of_habit(plan, JOINT_PRODUCE_FEATURE):
            call = act.step["call"]
            partitions = [call["partition"], *call["beside"]]
            assert len({*partitions}) == len(partitions)
            leaders = {
                plan.world.topics[topic_name]["leaders"][leader_index]
                for topic_name, leader_index in map(split_partition_name, partitions)
            }
            assert len(leaders) == 1
            values += [call["value"], *call["beside"].values()]
        assert len({*values}) == len(values)
    for plan in joined_plans[:6]:
        errors |= {*answers(play(plan), JOINT_PRODUCE_FEATURE, plan)}
    assert "NONE" in errors


def split_partition_name(partition_name: str) -> tuple[str, int]:
    name, _, index = partition_name.rpartition("-")
    return name, int(index)


@pytest.mark.costly
def test_somebody_watches_where_groups_stand() -> None:
    errors: set[str] = set()
    for plan in list(having(MONITORED_FEATURE))[:4]:
        assert [track.name for track in plan.tracks].count(MONITOR_ACTOR) == 1
        assert plan.groups
        errors |= {*answers(play(plan), MONITORED_FEATURE, plan)}
    assert "NONE" in errors


@pytest.mark.costly
def test_producers_commit_for_what_their_member_was_first() -> None:
    errors: set[str] = set()
    for plan in [
        plan for plan in having(REPLACED_FEATURE) if acts_of_habit(plan, REPLACED_FEATURE)
    ][:12]:
        for act in acts_of_habit(plan, REPLACED_FEATURE):
            call = act.step["call"]
            assert call["member-id"] == call["generation"] == f"{call['member']} first"
        errors |= {*answers(play(plan), REPLACED_FEATURE, plan)}
    assert "NONE" in errors
    assert not errors.isdisjoint({"UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"})


@pytest.mark.costly
def test_positions_are_committed_in_transactions_and_outside_of_them() -> None:
    plans = list(having(MEMBER_COMMITS_FEATURE))
    assert len(plans) > 20
    for plan in plans[:20]:
        calls = [act.step["call"] for act in acts_of_habit(plan, MEMBER_COMMITS_FEATURE)]
        members = {track.name for track in plan.tracks if "group" in (track.actor or {})}
        assert {call["who"] for call in calls if "member" not in call} <= members
    group_calls = [
        call
        for plan in plans
        for call in (act.step["call"] for act in acts_of_habit(plan, MEMBER_COMMITS_FEATURE))
    ]
    assert {call["do"] for call in group_calls} == {"commit-offsets", "poll", "seek"}
    assert any("member" in call and call["offsets"] for call in group_calls)
    assert any("NONE" in answers(play(plan), MEMBER_COMMITS_FEATURE, plan) for plan in plans[:3])


@pytest.mark.costly
def test_a_follower_is_out_of_sync_while_the_leader_moves() -> None:
    plans = list(having(LATE_FOLLOWERS_FEATURE))
    assert len(plans) > 10
    for plan in plans:
        assert plan.world.brokers == 3
        assert plan.world.settings["replica.lag.time.max.ms"] < 6_000
        acts = acts_of_habit(plan, LATE_FOLLOWERS_FEATURE)
        armed = [act.step["arm"]["id"] for act in acts if "arm" in act.step]
        assert sorted(armed) == sorted(act.step["disarm"] for act in acts if "disarm" in act.step)
    assert any("NONE" in answers(play(plan), LATE_FOLLOWERS_FEATURE, plan) for plan in plans[:3])


@pytest.mark.costly
def test_brokers_in_trouble_are_late_or_refuse_and_a_sound_cluster_bears_it() -> None:
    points: set[str] = set()
    for plan in having(TROUBLED_FEATURE):
        armed = [
            act.step["arm"] for act in acts_of_habit(plan, TROUBLED_FEATURE) if "arm" in act.step
        ]
        points |= {rule["point"] for rule in armed}
        assert {rule["action"]["do"] for rule in armed} <= {"hold", "delay", "error"}
    assert points == {*defaults.DELAYED_STEPS, "log.append"}
    for plan in list(having(TROUBLED_FEATURE))[:2]:
        assert "NONE" in answers(play(plan), TROUBLED_FEATURE, plan)


# In the middle of something else


def of_amid(plan: Plan) -> list[list[Act]]:
    """The acts of each disturbance that has other acts in its middle."""
    units: dict[tuple[int, int], list[Act]] = {}
    for track_number, track in enumerate(plan.tracks):
        for act in track.acts:
            units.setdefault((track_number, act.unit), []).append(act)
    return [
        acts
        for acts in units.values()
        if any(str(act.step.get("arm", {}).get("id", "")).startswith("amid.") for act in acts)
    ]


@pytest.mark.costly
def test_what_begins_in_the_middle_of_a_fault_is_a_disturbance_of_its_own() -> None:
    plans = list(having(AMID_FAULTS_FEATURE))
    assert 0.08 < len(plans) / len(SEEDS) < 0.25
    habits: set[str] = set()
    for plan in plans:
        for acts in of_amid(plan):
            habits |= {act.habit for act in acts}
            assert len(acts) > 1
    assert {"kill", "isolate", "reassign", "remake-topic", "internal-topics"} <= habits


@pytest.mark.costly
def test_nothing_is_added_where_a_machine_loses_its_power() -> None:
    for plan in map(draw, range(1_500)):
        if POWER_FAILURE in plan.features:
            assert {AMID_FAULTS_FEATURE, AMID_TRANSACTIONS_FEATURE, LEAVING_FEATURE}.isdisjoint(
                plan.features
            )


@pytest.mark.costly
def test_partitions_of_an_open_transaction_are_looked_after_those_of_kafka_as_well() -> None:
    actions_and_topics: set[tuple[str, str]] = set()
    for plan in having(AMID_TRANSACTIONS_FEATURE):
        for track in plan.tracks:
            for earlier_act, act in zip(track.acts, track.acts[1:], strict=False):
                if act.habit == AMID_TRANSACTIONS_FEATURE:
                    assert act.unit == earlier_act.unit
                    request = act.step.get("cluster") or act.step["call"]
                    actions_and_topics.add(
                        (request["do"], request["partition"].partition("@")[0].partition("-")[0])
                    )
    cares = {*defaults.MAINTENANCE_ACTS, "roll"}
    for topic in ("__transaction_state", "__consumer_offsets"):
        assert {do for do, action_topic in actions_and_topics if action_topic == topic} == cares
    assert {do for do, action_topic in actions_and_topics if action_topic == "t1"} == cares


@pytest.mark.costly
def test_care_in_the_middle_of_a_transaction_comes_to_something() -> None:
    answered_calls: set[tuple[str, str]] = set()
    for plan in list(having(AMID_TRANSACTIONS_FEATURE))[:12]:
        steps = [act.step for act in plan.acts if act.habit == AMID_TRANSACTIONS_FEATURE]
        for act in play(plan).acts:
            if act.step in steps:
                request = act.step.get("cluster") or act.step["call"]
                answered_calls.add((request["do"], act.error))
    assert {(do, "NONE") for do in (*defaults.MAINTENANCE_ACTS, "roll")} <= answered_calls


@pytest.mark.costly
def test_members_go_before_their_positions_are_decided_and_come_back() -> None:
    plans = [
        plan
        for plan in having(LEAVING_FEATURE)
        if any(act.habit == LEAVING_FEATURE for act in plan.acts)
    ]
    assert len(plans) > 10
    calls_and_errors: set[tuple[str, str]] = set()
    for plan in plans[:8]:
        acts = [act for act in plan.acts if act.habit == LEAVING_FEATURE]
        assert {act.step["call"]["do"] for act in acts[::2]} <= {*defaults.LEAVING_ACTS}
        assert {act.step["call"]["do"] for act in acts[1::2]} == {"subscribe"}
        steps = [act.step for act in acts]
        calls_and_errors |= {
            (act.step["call"]["do"], act.error) for act in play(plan).acts if act.step in steps
        }
    assert {("leave", "NONE"), ("subscribe", "NONE")} <= calls_and_errors


def test_a_workload_without_clients_has_faults_too() -> None:
    wanted_options = SimulationOptions(workload="some.module:shop")
    plans = [
        plan
        for plan in (draw(seed, wanted_options) for seed in SEEDS)
        if AMID_FAULTS_FEATURE in plan.features
    ]
    assert len(plans) > 10
    assert all(AMID_TRANSACTIONS_FEATURE not in plan.features for plan in plans)


def test_a_program_goes_on_where_somebody_else_s_act_fails_in_its_track() -> None:
    def call_act(do: str, **fields: object) -> Act:
        return Act({"call": {"who": "w", "do": do, **fields}}, unit=1)

    world = World(
        mode="TV2+",
        brokers=1,
        topics={"t1": {"partitions": 1, "replication-factor": 1, "leaders": [1]}},
    )
    acts = (
        Act({"call": {"who": "w", "do": "init-producer-id"}}),
        call_act("begin"),
        call_act("produce", partition="t1-0", value="one"),
        Act({"cluster": {"do": "move-leader", "partition": "t1-0", "to": 9}}, unit=1),
        Act({"call": {"who": "operator", "do": "producers", "partition": "t9-0"}}, unit=1),
        call_act("commit"),
    )
    track = Track("w", acts, {"plays": "wire", "transactional-id": "x"}, "abort")
    played_run = play(Plan(seed=1, world=world, tracks=(track,)))
    names_and_successes = [
        (Act(act.step).request_name, act.error == "NONE") for act in played_run.acts
    ]
    assert names_and_successes[-3:] == [
        ("cluster move-leader", False),
        ("producers", False),
        ("commit", True),
    ]
