"""Before a search says that a transaction hangs, it needs the right to see every transactional id,
and the answer of every coordinator.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.real.hang import make_hanging
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within import within
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, ErrorCode, RetriableError
from txnsim.client.inspection.coordinators_asked import UNUSED_ID, Known, check_sight
from txnsim.client.inspection.survey import survey
from txnsim.client.producer import Producer
from txnsim.faults.actions import Delay, Fail
from txnsim.faults.points import FaultPoint
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition

GHOSTLY = TopicPartition("orders", 0)
REFUSED = Fail(error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
"""As an authorizer would, of every id that is asked for."""


def blind(world: VirtualCluster) -> None:
    """From now on no transactional id may be described."""
    world.arm(REFUSED, FaultPoint.CLIENT_REQUEST, api="DescribeTransactions")


@within(run_cluster)
async def test_the_right_to_describe_an_unused_name_is_the_right_to_describe_all(
    world: VirtualCluster,
) -> None:
    async with world.client() as cluster:
        await check_sight(cluster)
        described = await Admin(cluster).describe_transactions([UNUSED_ID])
        assert isinstance(described[UNUSED_ID], ClientError), "and it stays nobody's"


@within(run_cluster)
async def test_a_missing_right_is_reported(world: VirtualCluster) -> None:
    async with world.client() as cluster:
        blind(world)
        with pytest.raises(ClientError, match="may not describe every") as refused:
            await check_sight(cluster)
        assert refused.value.error is ErrorCode.transactional_id_authorization_failed


@within(run_cluster)
async def test_a_search_that_seems_to_find_something_is_refused_then(world: VirtualCluster) -> None:
    async with world.client() as cluster:
        admin = Admin(cluster)
        await make_hanging(admin, GHOSTLY, "ghost")
        now_ms = cluster.clock.now_ms()
        assert (await survey(admin, now_ms=now_ms, partitions=[GHOSTLY])).hanging
        assert await admin.find_hanging(now_ms=now_ms, topic="orders")
        world.arm(REFUSED, FaultPoint.CLIENT_REQUEST, api="DescribeTransactions", limit=3)
        for search in (
            survey(admin, now_ms=now_ms, partitions=[GHOSTLY]),
            admin.find_hanging(now_ms=now_ms, topic="orders"),
        ):
            with pytest.raises(ClientError) as refused:
                await search
            assert refused.value.error is ErrorCode.transactional_id_authorization_failed


@within(run_cluster)
async def test_a_search_that_finds_nothing_needs_no_sight(world: VirtualCluster) -> None:
    async with world.client() as cluster, Producer(cluster, transactional_id="tx") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 1, b"v")
        await producer.commit()
        blind(world)
        admin = Admin(cluster)
        found = await survey(admin, now_ms=cluster.clock.now_ms(), older_than_ms=0)
        assert found.findings == ()
        assert await admin.find_hanging(now_ms=cluster.clock.now_ms(), topic="orders") == ()


HOUR_MS = 3_600_000


@pytest.mark.parametrize("late_ms", [300, 2_500])
def test_a_coordinator_that_has_just_moved_is_waited_for(late_ms: int) -> None:
    """Its broker has not heard of that yet, and lists nothing of it without an error."""

    async def story(world: VirtualCluster) -> None:
        async with (
            world.client() as cluster,
            Producer(cluster, transactional_id="tx") as producer,
        ):
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"v")
            home = world.home("tx")
            image = world.sim.metadata.image.partition(home)
            assert image is not None
            heir = next(one for one in image.isr if one != image.leader)
            world.arm(Delay(delay_ms=late_ms), FaultPoint.METADATA_APPLY, broker=heir)
            world.sim.move_leader(home, heir)
            await asyncio.sleep(late_ms / 2_000)
            now_ms = cluster.clock.now_ms() + HOUR_MS
            admin = Admin(cluster)
            assert await admin.known_to_coordinators({producer.identity.producer_id}) == ({}, {})
            assert await admin.find_hanging(now_ms=now_ms, topic="orders") == ()
            world.sim.move_leader(home, image.leader)
            found = await survey(admin, now_ms=now_ms, partitions=[GHOSTLY])
            assert [one.verdict for one in found.findings] == [OpenTxnStatus.ALIVE]
            await producer.commit()

    run_cluster(story)


@within(run_cluster)
async def test_coordinators_that_move_all_the_time_are_no_ground_for_a_verdict(
    world: VirtualCluster,
) -> None:
    class Restless(Admin):
        """A coordinator moves whenever they are asked."""

        async def known_to_coordinators(self, producer_ids: set[int]) -> Known:
            world.move(world.home("ghost"))
            return await super().known_to_coordinators(producer_ids)

    async with world.client() as cluster, world.client(api_timeout_ms=500) as impatient:
        await make_hanging(Admin(cluster), GHOSTLY, "ghost")
        now_ms = cluster.clock.now_ms()
        with pytest.raises(RetriableError, match="coordinators move all the time"):
            await Restless(impatient).find_hanging(now_ms=now_ms, topic="orders")


@within(run_cluster)
async def test_a_coordinator_that_does_not_serve_in_time_is_no_ground_for_a_verdict(
    world: VirtualCluster,
) -> None:
    async with world.client() as cluster, world.client(api_timeout_ms=500) as impatient:
        await make_hanging(Admin(cluster), GHOSTLY, "ghost")
        unserved = Fail(error="COORDINATOR_LOAD_IN_PROGRESS")
        world.arm(unserved, FaultPoint.CLIENT_REQUEST, api="DescribeTransactions")
        with pytest.raises(ClientError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await Admin(impatient).find_hanging(now_ms=cluster.clock.now_ms(), topic="orders")
