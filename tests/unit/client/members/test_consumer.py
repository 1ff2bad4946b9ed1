from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.members import ALL, member
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.client.members.consumer import ConsumerMembership
from txnsim.faults.actions import Fail
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition

HEARTBEAT = "ConsumerGroupHeartbeat"


def refuse(cluster: VirtualCluster, error: str) -> None:
    cluster.arm(Fail(error=error), FaultPoint.CLIENT_REQUEST, api=HEARTBEAT, limit=1)


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "NOT_COORDINATOR"])
@within(run_cluster)
async def test_after_these_errors_it_joins_again_at_its_next_poll(
    cluster: VirtualCluster, error: str
) -> None:
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        first = a.metadata
        refuse(cluster, error)
        await cluster.struck()
        await asyncio.sleep(1)
        assert a.metadata == first, "until then it is who it was"
        await a.poll(until=ALL)
        await a.commit()
        assert a.metadata.member_id == "id-a"


@within(run_cluster)
async def test_who_is_refused_for_good(cluster: VirtualCluster) -> None:
    refuse(cluster, "GROUP_MAX_SIZE_REACHED")
    async with member(cluster, "a", "consumer") as a:
        with pytest.raises(ClientError, match=f"{HEARTBEAT} of group 'g': GROUP_MAX_SIZE"):
            await a.subscribe(["orders"])
        await a.subscribe(["orders"], until=ALL)
        await a.leave()
        with pytest.raises(ClientError, match=f"{HEARTBEAT} of group 'g': UNKNOWN_MEMBER_ID"):
            await a.leave()


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
