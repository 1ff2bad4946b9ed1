"""Brokers die, are cut off and come back while clients write with acks=all: what was acknowledged
is there in the end, once and in order, transactions are whole, and all replicas agree.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random  # noqa: TID251 - the type of a stream, which txnsim.runtime draws from the seed

import pytest

from tests.support.clusters import VirtualCluster, run_cluster, values
from tests.support.replica_checks import check_equal, check_replicas
from txnsim.client.errors import AbortableError, ClientError
from txnsim.client.producer import Producer
from txnsim.types import BrokerId, TopicPartition

PARTITIONS = 3
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
PATIENCE = {"request_timeout_ms": 5_000, "api_timeout_ms": 60_000}


class Failover:
    """One run: who is down, and what the producers were told."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.random: Random = cluster.env.rng.stream("failover")
        self.acknowledged: list[bytes] = []
        self.committed: list[bytes] = []
        self.aborted: list[bytes] = []
        self.outages: Counter[str] = Counter()
        self.is_over = False

    async def disturb(self) -> None:
        """One broker at a time is stopped, killed, cut off or loses its leaderships."""
        sim = self.cluster.sim
        while not self.is_over:
            await asyncio.sleep(self.random.random() * 3)
            broker = self.random.choice(BROKERS)
            kind = self.random.choice(("kill", "stop", "isolate", "isolate", "kill", "move"))
            self.outages[kind] += 1
            if kind == "move":
                self.cluster.move(TopicPartition("orders", self.random.randrange(PARTITIONS)))
                continue
            if kind == "kill":
                await sim.kill_broker(broker)
            elif kind == "stop":
                await sim.stop_broker(broker)
            else:
                sim.isolate(broker)
            await asyncio.sleep(self.random.random() * 20)
            if kind == "isolate":
                sim.heal(broker)
            else:
                await sim.start_broker(broker)
            check_replicas(sim)
            await self.until_in_sync()

    async def until_in_sync(self) -> None:
        """All brokers are in all ISRs again."""
        for _ in range(600):
            image = self.cluster.sim.metadata.image
            if all(
                len(partition.isr) == len(partition.replicas)
                for topic in image.topics.values()
                for partition in topic.partitions
            ):
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"not in sync: {self.cluster.sim.metadata.image.topics}")

    async def write(self) -> None:
        """Records outside of transactions."""
        async with (
            self.cluster.client("plain", **PATIENCE) as client,
            Producer(client, delivery_timeout_ms=60_000) as producer,
        ):
            for number in range(150):
                await asyncio.sleep(self.random.random() * 0.6)
                value = f"plain/{number}".encode()
                try:
                    await producer.send("orders", number % PARTITIONS, value)
                except ClientError:
                    continue
                self.acknowledged.append(value)

    async def transact(self, name: str) -> None:
        """Transactions over all partitions."""
        number = 0
        for _ in range(6):
            async with (
                self.cluster.client(name, **PATIENCE) as client,
                Producer(client, transactional_id=name, delivery_timeout_ms=60_000) as producer,
            ):
                try:
                    await producer.init_transactions()
                    while number < 40:
                        number += 1
                        await asyncio.sleep(self.random.random())
                        await self._one(producer, f"{name}/{number}".encode())
                except ClientError:
                    continue
                return

    async def _one(self, producer: Producer, value: bytes) -> None:
        producer.begin()
        try:
            sent = [producer.send("orders", index, value) for index in range(PARTITIONS)]
            for failure in await asyncio.gather(*sent, return_exceptions=True):
                if isinstance(failure, BaseException):
                    raise failure
            if self.random.random() < 0.25:
                await producer.abort()
                self.aborted.append(value)
                return
            await producer.commit()
            self.committed.append(value)
        except AbortableError:
            await producer.abort()
            self.aborted.append(value)


async def failover(cluster: VirtualCluster) -> Failover:
    run = Failover(cluster)
    disturbing = cluster.env.tasks.spawn(run.disturb(), name="failover")
    await asyncio.gather(run.write(), run.transact("tx-a"), run.transact("tx-b"))
    run.is_over = True
    await disturbing
    await run.until_in_sync()
    cluster.advance(200_000)
    await asyncio.sleep(200)
    check_replicas(cluster.sim)
    check_equal(cluster.sim)
    async with cluster.client("reader") as reader:
        read = Counter(value for value in await values(reader, "orders") if value)
    assert [value for value in run.acknowledged if read[value] != 1] == []
    assert [value for value in run.committed if read[value] != PARTITIONS] == []
    assert [value for value in run.aborted if read[value]] == []
    return run


@pytest.mark.slow
@pytest.mark.seeds
def test_what_was_acknowledged_survives_its_leaders(seed: int) -> None:
    run = run_cluster(failover, seed=seed, min_insync_replicas=2)
    assert len(run.acknowledged) > 100
    assert len(run.committed) > 20
    assert run.outages["kill"] + run.outages["isolate"] + run.outages["stop"] > 2
