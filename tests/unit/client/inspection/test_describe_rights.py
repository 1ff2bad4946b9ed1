"""A search needs the right to see every transactional id before it says that one hangs."""

from __future__ import annotations

import pytest

from tests.real.hang import make_hanging
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within import within
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, ErrorCode
from txnsim.client.inspection.describe_rights import UNUSED_ID, check_sight
from txnsim.client.inspection.survey import survey
from txnsim.client.producer import Producer
from txnsim.faults.actions import Fail
from txnsim.faults.points import FaultPoint
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
