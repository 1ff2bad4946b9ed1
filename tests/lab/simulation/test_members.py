"""What members of groups hold against what their coordinator knows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from txnsim.client.group_requests import GroupMetadata
from txnsim.errors import Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import ConsumerGroup, ConsumerMember
from txnsim.releases.rules import LATEST_RULES
from txnsim.types import TopicPartition
from txnsim_lab.scenario.steps_model import Call
from txnsim_lab.simulation.play import (
    asked_of_group,
    changed_assignments,
    of_two_members,
    reason_to_fence,
    reason_to_refuse,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(member_id: str, *partitions: TopicPartition, generation: int = 2) -> Any:
    return SimpleNamespace(
        is_joined=True,
        takes_part=True,
        polls_in_time=True,
        options=SimpleNamespace(group_id="g", protocol="classic"),
        metadata=GroupMetadata(generation=generation, member_id=member_id),
        assigned=frozenset(partitions),
        positions=dict.fromkeys(partitions, 5),
    )


def around(**members: Any) -> Any:
    return SimpleNamespace(
        members=members, generations={"m first": 1}, member_ids={"m first": "m of before"}
    )


def cluster(*member_ids: str, generation: int = 2) -> Any:
    group = ClassicGroup("g", now_ms=0)
    group.generation = generation
    group.members = dict.fromkeys(member_ids)  # type: ignore[assignment] # who they are does not matter
    return cluster_of(group)


def cluster_of(*groups: Any, may_commit_behind: bool = True) -> Any:
    """A cluster with a broker for each release; the last broker has the newest release."""
    missing_rejection = Rejection(error=16, reason="")  # type: ignore[arg-type] # any error
    release_stub = SimpleNamespace(
        rules=replace(LATEST_RULES, members_behind_may_commit=may_commit_behind)
    )

    def broker(epoch: int, group: Any) -> Any:
        shard_stub = SimpleNamespace(
            find=lambda name: group if name == "g" else missing_rejection, coordinator_epoch=epoch
        )
        return SimpleNamespace(
            groups=SimpleNamespace(shards=lambda: (shard_stub,)), release=release_stub
        )

    brokers = {epoch: broker(epoch, group) for epoch, group in enumerate(groups)}
    image_stub = SimpleNamespace(topics={"t": SimpleNamespace(topic_id="id of t")})
    return SimpleNamespace(brokers=brokers, metadata=SimpleNamespace(image=image_stub))


def why_old(members: Any, cluster: Any, call: Call | None) -> str:
    return reason_to_refuse(asked_of_group(members, cluster, call), cluster)


def test_a_partition_of_two_members_that_the_coordinator_knows() -> None:
    members = around(m=member("m", T0), n=member("n", T0, T1))
    ((_, because),) = of_two_members(members, cluster("m", "n"))
    assert "m and n of group g both have t-0" in because
    assert list(of_two_members(members, cluster("m"))) == []  # n was given up, and does not know it
    assert (
        list(of_two_members(around(m=member("m", T0), n=member("n", T1)), cluster("m", "n"))) == []
    )
    members.members["n"].polls_in_time = False  # a static one stays in the group
    assert list(of_two_members(members, cluster("m", "n"))) == []


def test_one_generation_has_one_assignment() -> None:
    assignments_told: Any = {}
    for partitions, generation, broken_count in (
        ((T0,), 2, 0),
        ((), 2, 0),
        ((T1,), 3, 0),
        ((T0,), 3, 1),
    ):
        members = around(m=member("m", *partitions, generation=generation))
        assert len(list(changed_assignments(members, assignments_told))) == broken_count


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
    asked_call = Call.model_validate({"who": "m", **call})
    reason = why_old(around(m=member("m", T0)), cluster("m", generation=generation), asked_call)
    assert bool(reason) is is_old


def test_who_has_no_positions_asks_for_nothing() -> None:
    asked_call = Call.model_validate({"who": "m", "do": "commit-offsets"})
    assert why_old(around(m=member("m", T0)), cluster("m", generation=3), asked_call)
    assert not why_old(around(m=member("m")), cluster("m", generation=3), asked_call)


def test_nobody_asks() -> None:
    assert why_old(around(), cluster("m"), None) == ""


def consumer_group(*, epoch: int = 2, since: int = 2) -> ConsumerGroup:
    group = ConsumerGroup("g")
    assigned: Any = {("id of t", 0): since}
    group.members["m"] = ConsumerMember(member_id="m", member_epoch=epoch, assigned=assigned)
    return group


@pytest.mark.parametrize(
    ("call", "group", "is_old"),
    [
        pytest.param({}, {}, False, id="as it is"),
        pytest.param({"generation": 3}, {}, True, id="an epoch that it never had"),
        pytest.param({"generation": "m first"}, {}, True, id="before it had the partition"),
        pytest.param({"generation": "m first"}, {"since": 1}, False, id="it has had it since"),
        pytest.param({"generation": -1}, {}, False, id="as no member"),
        pytest.param({"member-id": "m first"}, {}, True, id="as somebody who is no member"),
        pytest.param({"offsets": {"t-1": 5}, "generation": 1}, {}, True, id="never its own"),
        pytest.param({"offsets": {"gone-0": 5}, "generation": 1}, {}, False, id="gone"),
    ],
)
def test_who_asks_of_a_consumer_group_and_may_not(
    call: dict[str, Any], group: dict[str, int], is_old: bool
) -> None:
    asked_call = Call.model_validate({"who": "m", "do": "commit-offsets", **call})
    members = around(m=member("m", T0))
    assert bool(why_old(members, cluster_of(consumer_group(**group)), asked_call)) is is_old


def test_before_members_behind_may_commit_none_may() -> None:
    asked_call = Call.model_validate({"who": "m", "do": "commit-offsets", "generation": "m first"})
    sound_cluster = cluster_of(consumer_group(since=1), may_commit_behind=False)
    assert why_old(around(m=member("m", T0)), sound_cluster, asked_call)


def test_the_newest_coordinator_counts() -> None:
    asked_call = Call.model_validate({"who": "m", "do": "commit-offsets"})
    members = around(m=member("m", T0))
    empty_group = ConsumerGroup("g")
    assert not why_old(members, cluster_of(empty_group, consumer_group()), asked_call)
    assert why_old(members, cluster_of(consumer_group(), empty_group), asked_call)


@pytest.mark.parametrize(
    ("instance_id", "holder", "is_replaced"),
    [("i", "n", True), ("i", "m", False), ("other", "n", False), (None, "n", False)],
)
def test_who_was_replaced(instance_id: str | None, holder: str, is_replaced: bool) -> None:
    group_member = member("m", T0)
    group_member.metadata = GroupMetadata(generation=2, member_id="m", instance_id=instance_id)
    group = ClassicGroup("g", now_ms=0)
    group.static_members["i"] = holder
    asked_call = Call.model_validate({"who": "m", "do": "commit-offsets"})
    assert (
        bool(reason_to_fence(asked_of_group(around(m=group_member), cluster_of(group), asked_call)))
        is is_replaced
    )
    assert reason_to_fence(None) == ""
