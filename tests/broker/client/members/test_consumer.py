from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.members import ALL, P0, member
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.client.members._consumer import ConsumerMembership
from txnsim.faults.actions import Disconnect, Fail, Pass
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition

HEARTBEAT = "ConsumerGroupHeartbeat"


def refuse(cluster: VirtualCluster, error: str) -> None:
    cluster.arm(Fail(error=error), FaultPoint.CLIENT_REQUEST, api=HEARTBEAT, limit=1)


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"])
@within(run_cluster)
async def test_after_these_errors_its_heartbeats_join_again(
    cluster: VirtualCluster, error: str
) -> None:
    """What it is assigned then, it takes over with its next poll."""
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        refuse(cluster, error)
        await cluster.struck()
        await asyncio.sleep(1)
        assert a.assigned == frozenset()
        assert a.metadata.member_id == "id-a"
        await a.poll(until=ALL)
        await a.commit()


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"])
@within(run_cluster)
async def test_these_errors_change_nothing(cluster: VirtualCluster, error: str) -> None:
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        first = a.metadata
        refuse(cluster, error)
        await cluster.struck()
        await a.poll()
        assert (a.metadata, a.assigned) == (first, ALL)


@within(run_cluster)
async def test_an_assignment_is_confirmed_again_where_the_answer_was_lost(
    cluster: VirtualCluster,
) -> None:
    async with member(cluster, "a", "consumer") as a, member(cluster, "b", "consumer") as b:
        await a.subscribe(["orders"], until=ALL)
        joining = cluster.env.tasks.spawn(b.subscribe(["orders"]), name="joining")
        await asyncio.sleep(3)
        await joining
        cluster.arm(Disconnect(), FaultPoint.CLIENT_REQUEST, "lost", api=HEARTBEAT, limit=4)
        await a.poll()
        await b.poll(until=ALL - a.assigned)
        assert b.assigned


@pytest.mark.parametrize(("instance_id", "is_out"), [(None, True), ("one", False)])
@within(run_cluster)
async def test_one_that_does_not_poll_leaves_and_joins_again_with_its_next_poll(
    cluster: VirtualCluster, instance_id: str | None, is_out: bool
) -> None:
    """A static member leaves for a while: its partitions wait for it."""
    async with (
        member(cluster, "a", "consumer", rebalance_timeout_ms=9_000, instance_id=instance_id) as a,
        member(cluster, "b", "consumer") as b,
    ):
        await a.subscribe(["orders"], until=ALL)
        before = a.metadata
        await asyncio.sleep(8.5)
        assert a.assigned == ALL
        await asyncio.sleep(1)
        assert (a.assigned, a.metadata) == (frozenset(), before)
        with pytest.raises(ClientError, match="UNKNOWN_MEMBER_ID" if is_out else "STALE_MEMBER"):
            await a.commit({P0: 0})
        await b.subscribe(["orders"])
        await asyncio.sleep(5)
        await b.poll()
        assert (b.assigned == ALL) is is_out
        await a.poll()


@within(run_cluster)
async def test_other_topics_are_read_by_the_member_that_there_is(cluster: VirtualCluster) -> None:
    async with cluster.client("admin") as client:
        await client.refresh(["more"], create=True)
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        await a.subscribe(["orders", "more"])
        assert a.positions.keys() >= ALL
        while {place.topic for place in a.assigned} != {"orders", "more"}:
            await a.poll()
        assert a.metadata.member_id == "id-a"


@within(run_cluster)
async def test_who_goes_says_so_once(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        await a.leave()
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "said", api=HEARTBEAT)
        await a.leave()
        assert cluster.injector.rules()[0].struck == 0


@within(run_cluster)
async def test_who_is_refused_for_good(cluster: VirtualCluster) -> None:
    refuse(cluster, "GROUP_MAX_SIZE_REACHED")
    async with member(cluster, "a", "consumer") as a:
        with pytest.raises(ClientError, match=f"{HEARTBEAT} of group 'g': GROUP_MAX_SIZE"):
            await a.subscribe(["orders"])
        with pytest.raises(ClientError, match=f"{HEARTBEAT} of group 'g': GROUP_MAX_SIZE"):
            await a.poll()  # nothing is asked any more
        await a.subscribe(["orders"], until=ALL)


@within(run_cluster)
async def test_a_topic_that_is_made_later(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders", "late"], until=ALL)
        async with cluster.client("admin") as client:
            await client.refresh(["late"], create=True)
        for _ in range(50):
            await a.poll()
            if any(place.topic == "late" for place in a.positions):
                return
            await asyncio.sleep(0.3)
        raise AssertionError("it was never assigned")


@within(run_cluster)
async def test_of_a_topic_that_is_gone_nothing_is_owned(cluster: VirtualCluster) -> None:
    """Seed 5798: a topic was deleted between an assignment and the heartbeat that confirms it."""
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        membership = a._membership
        assert isinstance(membership, ConsumerMembership)
        known = TopicPartition("orders", 0)
        (owned,) = membership._by_id({known, TopicPartition("gone", 0)}).values()
        assert owned == [0]
