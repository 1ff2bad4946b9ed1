from __future__ import annotations

import msgspec
import pytest

from tests.support.hand_made_plans import leaderless_plan
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.check.history import History
from txnsim_lab.simulation.drawing import draw
from txnsim_lab.simulation.plan import Act, Plan, Track, World
from txnsim_lab.simulation.play import CoverageCell, play


def test_a_plan_goes_the_same_way_each_time_traced_or_not() -> None:
    first_run, second_run = play(draw(3)), play(draw(3), trace_level=TraceLevel.BRIEF)
    assert first_run.digest == second_run.digest
    assert first_run.acts == second_run.acts
    assert first_run.trace == b""
    assert second_run.trace


def test_a_commit_without_a_leader_is_found_as_4_3_and_not_as_4_2() -> None:
    assert set(play(leaderless_plan()).kinds) == KINDS
    assert play(leaderless_plan(as_version="4.2")).kinds == ()


def test_what_was_done_and_answered_is_told() -> None:
    played_run = play(leaderless_plan())
    commit_acts = [act for act in played_run.acts if act.step.get("call", {}).get("do") == "commit"]
    assert [commit_act.error for commit_act in commit_acts] == ["NONE", "NONE"]
    assert commit_acts[0].leaders["t-0"] == 0  # nobody leads it
    assert commit_acts[0].states == {"p": "Ongoing"}
    assert played_run.cells[CoverageCell("Ongoing", "commit", "NONE")] == 2
    assert played_run.cells[CoverageCell("", "cluster kill", "NONE")] == 1
    assert played_run.virtual_ms > 30_000
    assert len(History.from_lines(played_run.history)) > 10


def with_habit(on_error: str, *acts: Act) -> Plan:
    plan = leaderless_plan(as_version="4.2")
    track = Track("p", acts, plan.tracks[0].actor, on_error)  # type: ignore[arg-type] # a habit
    return msgspec.structs.replace(plan, tracks=(track,))


KINDS = {"lost-write", "stuck-last-stable-offset", "torn-transaction"}
INIT = Act({"call": {"who": "p", "do": "init-producer-id"}})
REFUSED = Act({"call": {"who": "p", "do": "commit"}}, unit=1)
AFTER = Act({"call": {"who": "p", "do": "begin"}}, unit=1)
NEXT = Act({"call": {"who": "p", "do": "begin"}}, unit=2)


@pytest.mark.parametrize(
    ("on_error", "expected_calls"),
    [
        ("go-on", ["init-producer-id", "commit", "begin", "begin"]),
        ("leave", ["init-producer-id", "commit"]),
        ("abort", ["init-producer-id", "commit", "abort", "begin"]),
        ("anew", ["init-producer-id", "commit", "init-producer-id", "begin"]),
    ],
)
def test_somebody_who_is_refused_follows_his_habit(
    on_error: str, expected_calls: list[str]
) -> None:
    played_run = play(with_habit(on_error, INIT, REFUSED, AFTER, NEXT))
    assert [act.step["call"]["do"] for act in played_run.acts] == expected_calls


def test_a_cluster_that_is_healed_has_time_before_much_time_passes() -> None:
    """Seed 2678: the abort of a transaction that has timed out met too few replicas in sync right
    after the healing, and twenty-one minutes passed at once before it was tried again.
    """
    calls = ({"do": "init-producer-id"}, {"do": "begin"}, {"do": "produce", "partition": "t-0"})
    acts = [Act({"call": {"who": "w", **call}}) for call in calls]
    acts[-1].step["call"]["value"] = "v"
    actor = {"plays": "wire", "transactional-id": "x2", "transaction-timeout": "20s"}
    outage = (
        Act({"cluster": {"do": "isolate", "broker": 1}}, 20_851),
        Act({"cluster": {"do": "heal", "broker": 1}}, 5_544),
    )
    world = World(
        mode="TV2+",
        brokers=2,
        settings={"broker.session.timeout.ms": 6_000},
        topics={"t": {"partitions": 1, "replication-factor": 1, "leaders": [2]}},
    )
    tracks = (Track("w", tuple(acts), actor), Track("", outage))
    assert play(Plan(seed=2678, world=world, tracks=tracks)).kinds == ()


def test_an_id_is_not_aged_where_its_coordinator_dies_behind_its_answer() -> None:
    """Seeds 3064 and 6355: the answer was under way when the broker was killed."""
    step = {"cluster": {"do": "age", "transactional-id": "x", "epoch": 9}}
    world = World(mode="TV2+", brokers=1, settings={}, topics={}, latency_us=(50_000, 50_000))
    plan = Plan(seed=1, world=world, tracks=(Track("", (Act(step, unit=1),)),))
    (aged_act,) = play(plan).acts
    kill_act = Act({"cluster": {"do": "kill", "broker": 1}}, aged_act.took_us // 1_000 - 25)
    tracks = (*plan.tracks, Track("", (kill_act,)))
    played_run = play(msgspec.structs.replace(plan, tracks=tracks))
    assert played_run.kinds == ()
    assert [act.error for act in played_run.acts if act.step == step] == ["IN_VAIN"]


def test_an_abort_that_is_replicated_slowly_is_waited_for() -> None:
    """Seed 16286: twenty-one minutes passed at once, and readers were looked at while the record of
    the timeout's abort was on its way to the followers.
    """
    calls = ({"do": "init-producer-id"}, {"do": "begin"}, {"do": "produce", "partition": "t-0"})
    acts = tuple(Act({"call": {"who": "w", **call}}) for call in calls)
    acts[-1].step["call"]["value"] = "v"
    actor = {"plays": "wire", "transactional-id": "x2", "transaction-timeout": "60s"}
    world = World(
        mode="TV2+",
        topics={"t": {"partitions": 1, "replication-factor": 3, "leaders": [1]}},
        peer_latency_us=(60_000, 60_000),
    )
    played_run = play(Plan(seed=16286, world=world, tracks=(Track("w", acts, actor),)))
    assert played_run.kinds == ()
    assert b'"value":"v"' in played_run.history
