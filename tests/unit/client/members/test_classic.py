from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.members import ALL, member
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.faults.actions import Fail
from txnsim.faults.points import FaultPoint


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


@within(run_cluster)
async def test_a_heartbeat_that_is_refused_for_good_is_told_by_the_next_poll(
    cluster: VirtualCluster,
) -> None:
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"])
        refuse(cluster, "Heartbeat", "GROUP_AUTHORIZATION_FAILED")
        await cluster.struck("Heartbeat")
        await asyncio.sleep(0.1)
        with pytest.raises(ClientError, match="Heartbeat of group 'g': GROUP_AUTHORIZATION"):
            await a.poll()
        cluster.injector.disarm("Heartbeat")
        await a.leave()
        with pytest.raises(ClientError, match="LeaveGroup of group 'g': UNKNOWN_MEMBER_ID"):
            await a.leave()
