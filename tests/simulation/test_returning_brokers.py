"""What a broker has that comes back: its disk as it was left, and what its leader still has."""

from __future__ import annotations

import asyncio

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.images import B1, B2
from txnsim.client.producer import Producer
from txnsim.controller.controller import NewTopic
from txnsim.errors import Rejection
from txnsim.types import BrokerId, TopicPartition

P0 = TopicPartition("orders", 0)


async def in_sync(cluster: VirtualCluster, where: TopicPartition, count: int) -> None:
    """Wait until so many replicas are in sync; two minutes of virtual time are plenty."""
    for _ in range(1_200):
        partition = cluster.sim.metadata.image.partition(where)
        if partition is not None and len(partition.isr) == count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{where} has no {count} replicas in sync")


def offsets(cluster: VirtualCluster, broker_id: BrokerId) -> list[int]:
    """Base offsets of the batches that a replica has."""
    log = cluster.sim.brokers[broker_id].replicas.hosted[P0]
    return [int.from_bytes(batch[:8], "big") for batch in log.batches()]


# The cleaner


def test_a_returning_follower_is_not_sent_what_the_cleaner_has_removed() -> None:
    """However new the removed batches are."""

    async def main(cluster: VirtualCluster) -> None:
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

    run_cluster(main, brokers=2, topics=())
