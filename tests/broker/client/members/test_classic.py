from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.members import ALL, P0, member
from tests.support.within import within
from txnsim.client.errors import ClientError, IllegalUseError
from txnsim.client.members._classic import (
    assign_range,
    assigned_partitions,
    subscribed,
    write_subscription,
)
from txnsim.client.producer import Producer
from txnsim.controller.growth import grown_topic
from txnsim.faults.actions import Disconnect, Fail, Pass
from txnsim.faults.points import FaultPoint
from txnsim.group.subscription import read_subscription
from txnsim.metadata.image import TopicImage
from txnsim.types import TopicPartition


def refuse(cluster: VirtualCluster, api: str, error: str, *, limit: int = 1) -> None:
    cluster.arm(Fail(error=error), FaultPoint.CLIENT_REQUEST, api, api=api, limit=limit)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("JoinGroup", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "UNKNOWN_MEMBER_ID"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("Heartbeat", "ILLEGAL_GENERATION"),
        ("Heartbeat", "UNKNOWN_MEMBER_ID"),
    ],
)
@within(run_cluster)
async def test_after_these_errors_it_joins_again(
    cluster: VirtualCluster, api: str, error: str
) -> None:
    refuse(cluster, api, error)
    async with member(cluster, "a", "classic", session_timeout_ms=6_000) as a:
        await a.subscribe(["orders"], until=ALL)
        await a.poll(until=ALL)
        await asyncio.sleep(1)  # a heartbeat or two
        await a.poll(until=ALL)
        await a.commit()
        assert cluster.injector.rules()[0].struck == 1


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
@within(run_cluster)
async def test_these_errors_are_final(cluster: VirtualCluster, api: str) -> None:
    refuse(cluster, api, "GROUP_AUTHORIZATION_FAILED", limit=9)
    async with member(cluster, "a", "classic") as a:
        with pytest.raises(ClientError, match=f"{api} of group 'g': GROUP_AUTHORIZATION_FAILED"):
            await a.subscribe(["orders"])


SIX_SECONDS = {"session_timeout_ms": 6_000}


@within(run_cluster)
async def test_a_rebalance_waits_for_max_poll_interval_as_heartbeats_go_on(
    cluster: VirtualCluster,
) -> None:
    """Java's heartbeat thread goes on after REBALANCE_IN_PROGRESS, until it leaves the group."""
    async with (
        member(cluster, "a", "classic", rebalance_timeout_ms=15_000, **SIX_SECONDS) as a,
        member(cluster, "b", "classic", rebalance_timeout_ms=15_000, **SIX_SECONDS) as b,
    ):
        await a.subscribe(["orders"], until=ALL)
        began_ms = cluster.env.clock.monotonic_ms()
        await b.subscribe(["orders"], until=ALL)
        assert 14_900 <= cluster.env.clock.monotonic_ms() - began_ms <= 15_400
        with pytest.raises(ClientError, match="UNKNOWN_MEMBER_ID"):
            await a.commit({P0: 0})


@within(run_cluster)
async def test_one_that_polls_late_but_in_time_is_in_the_next_generation(
    cluster: VirtualCluster,
) -> None:
    async with (
        member(cluster, "a", "classic", **SIX_SECONDS) as a,
        member(cluster, "b", "classic", **SIX_SECONDS) as b,
    ):
        await a.subscribe(["orders"], until=ALL)
        before = a.metadata
        joining = cluster.env.tasks.spawn(b.subscribe(["orders"]), name="joining")
        await asyncio.sleep(20)
        assert a.metadata == before
        await a.commit({P0: 0})
        await a.poll()
        await joining
        assert a.metadata.member_id == before.member_id
        assert a.metadata.generation == b.metadata.generation == before.generation + 1


@pytest.mark.parametrize("instance_id", [None, "one"])
@within(run_cluster)
async def test_one_that_does_not_poll_leaves_and_joins_again_with_its_next_poll(
    cluster: VirtualCluster, instance_id: str | None
) -> None:
    async with member(
        cluster,
        "a",
        "classic",
        rebalance_timeout_ms=9_000,
        instance_id=instance_id,
        **SIX_SECONDS,
    ) as a:
        await a.subscribe(["orders"], until=ALL)
        before = a.metadata
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "leave", api="LeaveGroup")
        await asyncio.sleep(8.5)
        assert cluster.injector.rules()[0].struck == 0
        await asyncio.sleep(1)
        assert (a.takes_part, a.assigned) == (False, ALL)
        assert cluster.injector.rules()[0].struck == (1 if instance_id is None else 0)
        if instance_id is None:
            with pytest.raises(ClientError, match="UNKNOWN_MEMBER_ID"):
                await a.commit({P0: 0})
        else:
            await a.commit({P0: 0})  # a static member says nothing: its session has not ended yet
        await a.poll(until=ALL)
        assert a.metadata.member_id != before.member_id
        await a.commit({P0: 0})


@within(run_cluster)
async def test_a_fenced_member_is_told_once_and_joins_again(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "classic", instance_id="one") as a:
        await a.subscribe(["orders"])
        refuse(cluster, "Heartbeat", "FENCED_INSTANCE_ID")
        await cluster.struck("Heartbeat")
        await asyncio.sleep(0.1)
        with pytest.raises(ClientError, match="Heartbeat of group 'g': FENCED_INSTANCE_ID"):
            await a.poll()
        await a.poll(until=ALL)


@within(run_cluster)
async def test_other_errors_of_a_heartbeat_are_survived(cluster: VirtualCluster) -> None:
    """Java's heartbeat thread ends with FENCED_INSTANCE_ID alone."""
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"], until=ALL)
        before = a.metadata
        refuse(cluster, "Heartbeat", "GROUP_AUTHORIZATION_FAILED", limit=4)
        for _ in range(3):
            await a.poll()
        await cluster.struck("Heartbeat", 4)
        await asyncio.sleep(1)
        await a.poll()
        assert a.metadata == before


@within(run_cluster)
async def test_who_is_refused_for_a_session_looks_its_coordinator_up(
    cluster: VirtualCluster,
) -> None:
    async with member(cluster, "a", "classic", **SIX_SECONDS) as a:
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        for api in ("Heartbeat", "FindCoordinator"):
            refuse(cluster, api, "GROUP_AUTHORIZATION_FAILED", limit=99)
        await asyncio.sleep(5.5)
        await a.poll()
        await asyncio.sleep(1)
        with pytest.raises(ClientError, match="no coordinator of group 'g': GROUP_AUTHORIZATION"):
            await a.poll()


@within(run_cluster)
async def test_after_a_sync_that_was_lost_it_joins_again(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "classic") as a:
        cluster.arm(Disconnect(), FaultPoint.CLIENT_RESPONSE, "lost", api="SyncGroup", limit=1)
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "joins", api="JoinGroup")
        await a.subscribe(["orders"], until=ALL)
        assert {one.rule.id: one.struck for one in cluster.injector.rules()}["joins"] == 3


@within(run_cluster)
async def test_an_eager_member_reads_again_what_it_did_not_commit(cluster: VirtualCluster) -> None:
    """It gives up all partitions before it joins again, also those that come back."""
    async with cluster.client("writer") as client, Producer(client) as producer:
        await producer.send("orders", 0, b"r1")
    async with member(cluster, "a", "classic") as a, member(cluster, "b", "classic") as b:
        await a.subscribe(["orders"], until=ALL)
        first = await a.poll()
        joining = cluster.env.tasks.spawn(b.subscribe(["orders"]), name="joining")
        while len(a.assigned) == len(ALL):
            again = await a.poll()
        await joining
        assert P0 in a.assigned
        values = [
            [record.value for _, result in polled.fetched for record in result.records]
            for polled in (first, again)
        ]
        assert values == [[b"r1"], [b"r1"]]


@within(run_cluster)
async def test_a_leader_has_its_group_join_again_when_a_topic_has_grown(
    cluster: VirtualCluster,
) -> None:
    """After metadata.max.age.ms, five minutes, at the latest."""
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        metadata = cluster.sim.metadata
        grown = grown_topic(metadata.image, "orders", count=4, assignments=None)
        assert isinstance(grown, TopicImage)
        metadata.publish(metadata.image.with_topics([grown]))
        for _ in range(4):
            await a.poll(until=ALL)
            await asyncio.sleep(60)
        await asyncio.sleep(61)
        await a.poll(until=ALL | {TopicPartition("orders", 3)})


@within(run_cluster)
async def test_other_topics_are_read_by_the_member_that_there_is(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"], until=ALL)
        before = a.metadata
        await a.subscribe(["orders"], until=ALL)
        assert a.metadata == before
        await a.subscribe(["other", "orders"], until=ALL)
        assert a.metadata.member_id == before.member_id
        assert a.metadata.generation == before.generation + 1


@pytest.mark.parametrize(("instance_id", "said"), [(None, 1), ("one", 0)])
@within(run_cluster)
async def test_who_goes_says_so_once_and_a_static_member_never(
    cluster: VirtualCluster, instance_id: str | None, said: int
) -> None:
    async with member(cluster, "a", "classic", instance_id=instance_id) as a:
        await a.subscribe(["orders"], until=ALL)
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "leave", api="LeaveGroup")
        await a.leave()
        await a.leave()
        assert cluster.injector.rules()[0].struck == said
        with pytest.raises(IllegalUseError, match="already been closed"):
            await a.poll()


def test_a_subscription_is_read_as_it_was_written() -> None:
    data = write_subscription(["orders", "a"])
    found = read_subscription(data)
    assert found is not None
    assert found.topics == ("a", "orders")
    assert data == bytes.fromhex("0000 00000002 0001 61 0006") + b"orders" + b"\xff" * 4
    assert subscribed([data, write_subscription(["b"]), b"?"]) == {"a", "b", "orders"}


@pytest.mark.parametrize(
    ("members", "count", "shares"),
    [
        ({"m1": "t", "m2": "t"}, 3, {"m1": [0, 1], "m2": [2]}),
        ({"m1": "t", "m2": "t", "m3": "t"}, 2, {"m1": [0], "m2": [1], "m3": []}),
        ({"m1": "t", "m2": "other"}, 2, {"m1": [0, 1], "m2": []}),
        ({"m1": "t"}, 0, {"m1": []}),
    ],
)
def test_partitions_are_shared_in_ranges(
    members: dict[str, str], count: int, shares: dict[str, list[int]]
) -> None:
    said = {name: (None, write_subscription([topic])) for name, topic in members.items()}
    found = {
        name: sorted(place.partition for place in assigned_partitions(data))
        for name, data in assign_range(said, {"t": count}).items()
    }
    assert found == shares


def test_static_members_come_first_and_are_ordered_by_their_instance_ids() -> None:
    said = {
        "a-dynamic": (None, write_subscription(["t"])),
        "m1": ("second", write_subscription(["t"])),
        "m2": ("first", write_subscription(["t"])),
    }
    shares = assign_range(said, {"t": 3})
    found = {name: assigned_partitions(data) for name, data in shares.items()}
    assert [[place.partition for place in found[name]] for name in ("m2", "m1", "a-dynamic")] == [
        [0],
        [1],
        [2],
    ]


def test_bytes_that_are_no_assignment() -> None:
    with pytest.raises(ValueError, match="which is no assignment"):
        assigned_partitions(b"\x00")
