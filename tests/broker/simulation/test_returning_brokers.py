"""What a broker has that comes back: its disk as it was left, and what its leader still has."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster, values
from tests.support.images import B1, B2
from tests.support.waiting import in_sync
from tests.support.within import within
from txnsim.client.admin import Admin
from txnsim.client.partition_requests import delete_records
from txnsim.client.producer import Producer
from txnsim.client.requests import ConfigChange
from txnsim.controller.controller import NewTopic
from txnsim.errors import Rejection
from txnsim.types import BrokerId, TopicPartition

P0 = TopicPartition("orders", 0)
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


def offsets(cluster: VirtualCluster, broker_id: BrokerId) -> list[int]:
    """Base offsets of the batches that a replica has."""
    log = cluster.sim.brokers[broker_id].replicas.hosted[P0]
    return [int.from_bytes(batch[:8], "big") for batch in log.batches()]


# The cleaner


@within(run_cluster, brokers=2, topics=())
async def test_a_returning_follower_is_not_sent_what_the_cleaner_has_removed(
    cluster: VirtualCluster,
) -> None:
    """However new the removed batches are."""
    sim = cluster.sim
    made = sim.metadata.create_topic(
        NewTopic(
            name="orders",
            assignments=((0, (B1, B2)),),
            configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"},
        )
    )
    assert not isinstance(made, Rejection)
    await in_sync(cluster, P0, 2)
    async with cluster.client() as client, Producer(client) as producer:
        await producer.send("orders", 0, b"1", key=b"a")
        await sim.stop_broker(B2)
        await in_sync(cluster, P0, 1)
        await producer.send("orders", 0, b"2", key=b"a")
        await producer.send("orders", 0, b"3", key=b"a")
        care = sim.brokers[B1].log_maintenance
        care.roll_now(P0)
        await producer.send("orders", 0, b"4", key=b"b")
        care.clean_now(P0)
        await sim.start_broker(B2)
        await in_sync(cluster, P0, 2)
        assert offsets(cluster, B1) == [2, 3]
        assert offsets(cluster, B2) == [0, 2, 3], "what it had before is its own affair"


# Where a log starts


async def six_records(cluster: VirtualCluster, *replicas: BrokerId) -> None:
    made = cluster.sim.metadata.create_topic(NewTopic(name="orders", assignments=((0, replicas),)))
    assert not isinstance(made, Rejection)
    async with cluster.client() as client, Producer(client) as producer:
        for number in range(6):
            await producer.send("orders", 0, str(number).encode())


async def delete_before(cluster: VirtualCluster, offset: int) -> None:
    async with cluster.client() as client:
        leader = cluster.leader(P0)
        answer = await client.ask(leader, delete_records({P0: offset}, timeout_ms=10_000))
        (topic,) = answer.topics
        assert [one.low_watermark for one in topic.partitions] == [offset]


def bounds(cluster: VirtualCluster, broker_id: BrokerId) -> tuple[int, int, int]:
    log = cluster.sim.brokers[broker_id].replicas.hosted[P0]
    return log.log_start_offset, log.high_watermark, log.log_end_offset


async def back_in_the_lead(cluster: VirtualCluster, *broker_ids: BrokerId) -> None:
    for broker_id in broker_ids:
        await cluster.sim.start_broker(broker_id)
    await in_sync(cluster, P0, len(broker_ids))
    await asyncio.sleep(10)


@within(run_cluster, brokers=2, topics=())
async def test_if_all_replicas_are_killed_deleted_records_are_back(cluster: VirtualCluster) -> None:
    """Apache Kafka 4.3.1: deleteRecords to 4, all brokers killed and started: ``0..6..6``."""
    await six_records(cluster, B1, B2)
    await delete_before(cluster, 4)
    for broker_id in (B1, B2):
        await cluster.sim.kill_broker(broker_id)
    await back_in_the_lead(cluster, B1, B2)
    assert [bounds(cluster, broker_id) for broker_id in (B1, B2)] == [(0, 6, 6)] * 2
    async with cluster.client("reader") as reader:
        assert len(await values(reader, "orders", partitions=1)) == 6


@within(run_cluster, brokers=2, topics=())
async def test_a_replica_that_lives_keeps_the_start(cluster: VirtualCluster) -> None:
    await six_records(cluster, B1, B2)
    await delete_before(cluster, 4)
    await cluster.sim.kill_broker(B1)
    await in_sync(cluster, P0, 1)
    await back_in_the_lead(cluster, B1)
    await in_sync(cluster, P0, 2)
    assert [bounds(cluster, broker_id) for broker_id in (B1, B2)] == [(4, 6, 6)] * 2


@within(run_cluster, brokers=2, topics=())
async def test_what_was_noted_at_a_stop_in_order_is_known_after_a_kill(
    cluster: VirtualCluster,
) -> None:
    """Apache Kafka 4.3.1: deleteRecords to 3, restarted, to 5, then killed: ``3..6..6``."""
    await six_records(cluster, B2)
    await delete_before(cluster, 3)
    await cluster.sim.stop_broker(B2)
    await back_in_the_lead(cluster, B2)
    assert bounds(cluster, B2) == (3, 6, 6)
    await delete_before(cluster, 5)
    await cluster.sim.kill_broker(B2)
    await back_in_the_lead(cluster, B2)
    assert bounds(cluster, B2) == (3, 6, 6)


@within(run_cluster, brokers=2, topics=())
async def test_a_deletion_right_after_an_election_reaches_the_follower(
    cluster: VirtualCluster,
) -> None:
    """Apache Kafka 4.3.1: broker 1, which was there all the time, begins at 5."""
    await six_records(cluster, B2, B1)
    await delete_before(cluster, 3)
    await cluster.sim.stop_broker(B2)
    await cluster.sim.start_broker(B2)
    await in_sync(cluster, P0, 2)
    deletion = delete_records({P0: 5}, timeout_ms=10_000)
    async with cluster.client() as client:
        await client.ask(B2, deletion)  # refused, but the connection is there
        cluster.sim.move_leader(P0, B2)
        for _ in range(1_000):  # turns: the follower shall not have asked yet
            if P0 in cluster.sim.brokers[B2].replicas.led:
                break
            await asyncio.sleep(0)
        (topic,) = (await client.ask(B2, deletion)).topics
        assert [one.low_watermark for one in topic.partitions] == [5]
    await cluster.sim.kill_broker(B2)
    await in_sync(cluster, P0, 1)
    assert bounds(cluster, B1) == (5, 6, 6)


@pytest.mark.parametrize(
    ("advance_ms", "start"), [(0, 0), (29_000, 0), (31_000, 4), (91_000, 5)], ids=str
)
@within(run_cluster, brokers=2, topics=())
async def test_it_is_noted_half_a_minute_after_the_start_and_then_every_minute(
    cluster: VirtualCluster, advance_ms: int, start: int
) -> None:
    await six_records(cluster, B2)
    begun_ms = cluster.env.clock.now_ms()
    await delete_before(cluster, 4)
    cluster.advance(min(advance_ms, 31_000))
    await delete_before(cluster, 5)
    cluster.advance(max(0, advance_ms - 31_000))
    assert cluster.env.clock.now_ms() - begun_ms < advance_ms + 900
    await cluster.sim.kill_broker(B2)
    await back_in_the_lead(cluster, B2)
    assert bounds(cluster, B2) == (start, 6, 6)


# Eligible leader replicas


@pytest.mark.parametrize(
    ("minimum", "resource", "elr"), [("2", "orders", (B2,)), ("1", "orders", ()), ("1", "", ())]
)
@within(run_cluster, brokers=2, topics=())
async def test_who_changes_the_minimum_makes_nobody_eligible(
    cluster: VirtualCluster, minimum: str, resource: str, elr: tuple[BrokerId, ...]
) -> None:
    sim = cluster.sim
    made = sim.metadata.create_topic(
        NewTopic(
            name="orders",
            assignments=((0, (B1, B2)),),
            configs={"min.insync.replicas": "2"},
        )
    )
    assert not isinstance(made, Rejection)
    await sim.kill_broker(B2)
    await in_sync(cluster, P0, 1)
    partition = sim.metadata.image.partition(P0)
    assert partition is not None
    assert partition.elr == (B2,)
    change = ConfigChange(
        resource_type=TOPIC_RESOURCE if resource else BROKER_RESOURCE,
        resource_name=resource,
        name="min.insync.replicas",
        value=minimum,
    )
    async with cluster.client() as client:
        assert set((await Admin(client).incremental_alter_configs((change,))).values()) == {None}
    partition = sim.metadata.image.partition(P0)
    assert partition is not None
    assert partition.elr == elr
