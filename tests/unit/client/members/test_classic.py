from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.members import ALL, member
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.client.members.classic import (
    assign_range,
    assigned_partitions,
    subscribed,
    write_subscription,
)
from txnsim.faults.actions import Fail
from txnsim.faults.points import FaultPoint
from txnsim.group.subscription import read_subscription


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
    said = {name: (name, write_subscription([topic])) for name, topic in members.items()}
    found = {
        name: sorted(place.partition for place in assigned_partitions(data))
        for name, data in assign_range(said, {"t": count}).items()
    }
    assert found == shares


def test_static_members_are_ordered_by_their_instance_ids() -> None:
    said = {
        "m1": ("second", write_subscription(["t"])),
        "m2": ("first", write_subscription(["t"])),
    }
    shares = assign_range(said, {"t": 2})
    assert [place.partition for place in assigned_partitions(shares["m2"])] == [0]


def test_bytes_that_are_no_assignment() -> None:
    with pytest.raises(ValueError, match="which is no assignment"):
        assigned_partitions(b"\x00")
