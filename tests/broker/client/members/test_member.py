from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.members import ALL, P0, both, member
from tests.support.within import within
from txnsim.client.errors import ClientError, ErrorCode, IllegalUseError, RetriableError
from txnsim.client.members.member import Polled
from txnsim.client.members.membership import GroupProtocol
from txnsim.client.positions import committed_positions
from txnsim.client.producer import Producer
from txnsim.faults.actions import Fail
from txnsim.faults.points import FaultPoint


async def append(cluster: VirtualCluster, *values: bytes, partition: int = 0) -> None:
    async with cluster.client("writer") as client, Producer(client) as producer:
        for value in values:
            await producer.send("orders", partition, value)


def values(polled: Polled) -> list[bytes | None]:
    return [record.value for _, result in polled.fetched for record in result.records]


@both
@within(run_cluster)
async def test_a_member_reads_from_the_positions_of_its_group(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    await append(cluster, b"r1", b"r2")
    async with member(cluster, "a", protocol) as a:
        await a.subscribe(["orders"], until=ALL)
        first = await a.poll()
        assert first.positions == dict.fromkeys(ALL, -1)
        assert values(first) == [b"r1", b"r2"]
        assert a.positions == {**dict.fromkeys(ALL, 0), P0: 2}
        assert values(await a.poll()) == []
        a.seek(P0, 1)
        assert values(await a.poll()) == [b"r2"]
        await a.commit({P0: 1})
        await a.leave()
    async with member(cluster, "b", protocol) as b:
        await b.subscribe(["orders"], until=ALL)
        again = await b.poll()
        assert again.positions[P0] == 1
        assert values(again) == [b"r2"]


@both
@within(run_cluster)
async def test_a_second_member_gets_its_share_when_the_first_one_polls(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    async with member(cluster, "a", protocol) as a, member(cluster, "b", protocol) as b:
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        before = a.metadata
        joining = cluster.env.tasks.spawn(b.subscribe(["orders"]), name="joining")
        await asyncio.sleep(3)
        assert a.assigned == ALL, "it follows a rebalance in its polls"
        await a.commit({P0: 0})
        while len(a.assigned) == 3:
            await a.poll()
        await joining
        await b.poll(until=ALL - a.assigned)
        assert b.assigned
        assert a.positions.keys() == a.assigned
        assert a.metadata.generation > before.generation
        lost = min(ALL - a.assigned)  # what it has kept, KIP-1251 lets it commit
        with pytest.raises(ClientError) as caught:
            await a.commit({lost: 0}, metadata=before)
        wanted = {
            "classic": ErrorCode.illegal_generation,
            "consumer": ErrorCode.stale_member_epoch,
        }
        assert caught.value.error == wanted[protocol]
        with pytest.raises(IllegalUseError, match="No current assignment"):
            a.seek(next(iter(b.assigned)), 0)


@both
@within(
    run_cluster,
    group_consumer_min_session_timeout_ms=6_000,
    group_consumer_session_timeout_ms=6_000,
)
async def test_one_that_stands_still_is_expelled_and_joins_again_when_it_polls(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    async with (
        member(cluster, "a", protocol, session_timeout_ms=6_000) as a,
        member(cluster, "b", protocol) as b,
    ):
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        a.stand_still()
        await b.subscribe(["orders"], until=ALL)
        with pytest.raises(ClientError) as caught:
            await a.commit()
        assert caught.value.error == ErrorCode.unknown_member_id
        again = cluster.env.tasks.spawn(a.poll(), name="back")
        await asyncio.sleep(1)
        await b.poll()
        await again
        await a.poll(until=ALL - b.assigned)


@both
@within(run_cluster)
async def test_a_static_member_s_place(cluster: VirtualCluster, protocol: GroupProtocol) -> None:
    static = {"instance_id": "one"}
    async with member(cluster, "a", protocol, **static) as a:
        await a.subscribe(["orders"], until=ALL)
        async with member(cluster, "b", protocol, **static) as b:
            if protocol == "consumer":
                with pytest.raises(ClientError, match="UNRELEASED_INSTANCE_ID"):
                    await b.subscribe(["orders"])
                await a.leave()
                await b.subscribe(["orders"], until=ALL)
                with pytest.raises(ClientError, match="UNKNOWN_MEMBER_ID"):
                    await a.commit({P0: 0})
                return
            await b.subscribe(["orders"], until=ALL)
            with pytest.raises(ClientError, match="FENCED_INSTANCE_ID"):
                await a.commit({P0: 0})
            await asyncio.sleep(1)
            with pytest.raises(ClientError, match="FENCED_INSTANCE_ID"):
                await a.poll()
            await b.leave()


@both
@within(run_cluster)
async def test_assignments_and_positions_that_do_not_come_in_time(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    async with member(cluster, "a", protocol) as a:
        with pytest.raises(RetriableError, match="orders-0, orders-1, orders-2 after 100 ms"):
            await a.subscribe(["orders"], until=frozenset({P0}), timeout_ms=100)
        cluster.arm(
            Fail(error="UNSTABLE_OFFSET_COMMIT"),
            FaultPoint.CLIENT_RESPONSE,
            api="OffsetFetch",
            limit=3,
        )
        with pytest.raises(ClientError, match="UNSTABLE_OFFSET_COMMIT"):
            await a.poll(waits=False)
        assert (await a.poll()).positions == dict.fromkeys(ALL, -1)


@within(run_cluster)
async def test_a_position_that_is_out_of_range_is_set_to_the_earliest(
    cluster: VirtualCluster,
) -> None:
    await append(cluster, b"r1")
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"], until=ALL)
        a.seek(P0, 77)
        assert values(await a.poll()) == [b"r1"]
        async with cluster.client("other") as client:
            assert await committed_positions(client, "g", (P0,)) == {P0: -1}


@within(run_cluster)
async def test_one_that_has_not_subscribed_is_no_member(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "classic") as a:
        with pytest.raises(IllegalUseError, match="has to subscribe"):
            await a.poll()
