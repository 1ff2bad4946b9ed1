"""What members of groups hold against what their coordinator knows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from txnsim.client.group_requests import GroupMetadata
from txnsim.errors import Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.scenario.steps_model import Call
from txnsim.simulation.members import of_two_members, old_generation, told_otherwise
from txnsim.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(name: str, *places: TopicPartition, generation: int = 2) -> Any:
    return SimpleNamespace(
        is_joined=True,
        options=SimpleNamespace(group_id="g", protocol="classic"),
        metadata=GroupMetadata(generation=generation, member_id=name),
        assigned=frozenset(places),
        positions=dict.fromkeys(places, 5),
    )


def around(**members: Any) -> Any:
    return SimpleNamespace(members=members, generations={"m first": 1})


def cluster(*known: str, generation: int = 2) -> Any:
    group = ClassicGroup("g", now_ms=0)
    group.generation = generation
    group.members = dict.fromkeys(known)  # type: ignore[assignment] # who they are does not matter
    missing = Rejection(error=16, reason="")  # type: ignore[arg-type] # any error
    shard = SimpleNamespace(find=lambda name: group if name == "g" else missing)
    broker = SimpleNamespace(groups=SimpleNamespace(shards=lambda: (shard,)))
    return SimpleNamespace(brokers={1: broker})


def test_a_partition_of_two_members_that_the_coordinator_knows() -> None:
    members = around(m=member("m", T0), n=member("n", T0, T1))
    ((_, because),) = of_two_members(members, cluster("m", "n"))
    assert "m and n of group g both have t-0" in because
    assert list(of_two_members(members, cluster("m"))) == []  # n was given up, and does not know it
    assert (
        list(of_two_members(around(m=member("m", T0), n=member("n", T1)), cluster("m", "n"))) == []
    )


def test_one_generation_has_one_assignment() -> None:
    told: Any = {}
    for places, generation, broken in (((T0,), 2, 0), ((), 2, 0), ((T1,), 3, 0), ((T0,), 3, 1)):
        members = around(m=member("m", *places, generation=generation))
        assert len(list(told_otherwise(members, told))) == broken


@pytest.mark.parametrize(
    ("call", "generation", "is_old"),
    [
        ({"do": "commit-offsets"}, 2, False),
        ({"do": "commit-offsets"}, 3, True),
        ({"do": "commit-offsets", "generation": "m first"}, 2, True),
        ({"do": "commit-offsets", "generation": "never told"}, 2, False),
        ({"do": "commit-offsets", "generation": -1}, 2, False),
        ({"do": "poll"}, 3, False),
    ],
)
def test_who_asks_with_a_generation_that_is_over(
    call: dict[str, Any], generation: int, is_old: bool
) -> None:
    asked = Call.model_validate({"who": "m", **call})
    why = old_generation(around(m=member("m", T0)), cluster("m", generation=generation), asked)
    assert bool(why) is is_old


def test_who_has_no_positions_asks_for_nothing() -> None:
    asked = Call.model_validate({"who": "m", "do": "commit-offsets"})
    assert old_generation(around(m=member("m", T0)), cluster("m", generation=3), asked)
    assert not old_generation(around(m=member("m")), cluster("m", generation=3), asked)


def test_nobody_asks() -> None:
    assert old_generation(around(), cluster("m"), None) == ""
