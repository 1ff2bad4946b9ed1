"""Replicas move round the brokers while transactions run: those of the data and those of the
transaction log. Nothing is lost, and each broker has what it should have, and no more.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.support.clusters import VirtualCluster, run_cluster, values
from tests.support.replica_checks import check_equal, check_replicas
from txnsim.client.errors import AbortableError
from txnsim.client.producer import Producer
from txnsim.controller.reassignments import reassign, reassigning
from txnsim.errors import Rejection
from txnsim.types import TRANSACTION_STATE_TOPIC, BrokerId, TopicPartition

PARTITIONS = 3
MOVES = 40
PLACES = ((1,), (2,), (3,), (1, 2), (2, 3), (3, 1), (1, 2, 3), (3, 2, 1))
PATIENCE = {"request_timeout_ms": 5_000, "api_timeout_ms": 60_000}


class Moves:
    """One run: what moves, and what the producers were told."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.random = cluster.env.rng.stream("reassign")
        self.committed: list[bytes] = []
        self.is_over = False

    async def transact(self, name: str) -> None:
        """Transactions over all partitions."""
        async with (
            self.cluster.client(name, **PATIENCE) as client,
            Producer(client, transactional_id=name, delivery_timeout_ms=60_000) as producer,
        ):
            await producer.init_transactions()
            number = 0
            while not self.is_over:
                number += 1
                value = f"{name}/{number}".encode()
                producer.begin()
                try:
                    sent = [producer.send("orders", index, value) for index in range(PARTITIONS)]
                    await asyncio.gather(*sent)
                    await producer.commit()
                except AbortableError:
                    await producer.abort()
                else:
                    self.committed.append(value)
                await asyncio.sleep(self.random.random() / 5)

    async def move(self) -> None:
        """One partition after the other, some before the last one has arrived."""
        for _ in range(MOVES):
            await asyncio.sleep(self.random.random())
            topics = self.cluster.sim.metadata.image.topics
            name = self.random.choice(["orders", TRANSACTION_STATE_TOPIC])
            index = self.random.randrange(len(topics[name].partitions))
            self._begin(TopicPartition(name, index), self.random.choice(PLACES))
            if self.random.random() < 0.7:
                await self.until_settled()
                check_replicas(self.cluster.sim)
        await self.until_settled()

    def _begin(self, where: TopicPartition, replicas: tuple[int, ...]) -> None:
        metadata = self.cluster.sim.metadata
        found = reassign(metadata.image, where, tuple(map(BrokerId, replicas)), metadata.settings)
        assert not isinstance(found, Rejection), found
        metadata.publish(found)

    async def until_settled(self) -> None:
        """Nothing moves any more."""
        for _ in range(600):
            moving = reassigning(self.cluster.sim.metadata.image)
            if not moving:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(moving)


def check_hosts(cluster: VirtualCluster) -> None:
    """Every broker hosts its replicas and nothing else."""
    image = cluster.sim.metadata.image
    for broker_id, broker in cluster.sim.brokers.items():
        expected = {
            TopicPartition(topic.name, index)
            for topic in image.topics.values()
            for index, partition in enumerate(topic.partitions)
            if broker_id in partition.replicas
        }
        assert set(broker.replicas.hosted) == expected, broker_id


async def story(cluster: VirtualCluster) -> Moves:
    run = Moves(cluster)
    writing = [cluster.env.tasks.spawn(run.transact(name), name=name) for name in ("tx-a", "tx-b")]
    await asyncio.sleep(1)
    await run.move()
    run.is_over = True
    await asyncio.gather(*writing)
    await asyncio.sleep(2)
    check_hosts(cluster)
    check_replicas(cluster.sim)
    check_equal(cluster.sim)
    async with cluster.client("reader") as reader:
        read = Counter(await values(reader, "orders", partitions=PARTITIONS))
    assert read == Counter(dict.fromkeys(run.committed, PARTITIONS))
    return run


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.seeds
def test_transactions_go_on_while_replicas_move(seed: int) -> None:
    run = run_cluster(story, seed=seed)
    assert len(run.committed) > MOVES
