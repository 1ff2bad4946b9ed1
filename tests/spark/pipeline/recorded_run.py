"""A mixed load that is worth an analysis, recorded by seed in virtual time: a trace per level.

Eight applications write to two topics; one of them dies in the middle of a transaction, and one has
a record that arrives late. Meanwhile markers are lost, the coordinators' log is slow at times, and
a leader moves. The same seed gives the same traces, byte by byte.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random  # noqa: TID251 - the type of a stream, which txnsim.runtime draws from the seed
from typing import Final

import msgspec

from tests.support.clusters import VirtualCluster, run_cluster, until_state
from txnsim.client.errors import AbortableError, RetriableError
from txnsim.client.producer import Producer
from txnsim.faults.actions import Delay, Drop, Hold
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import RunInfo, TraceLevel
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition

SEED: Final = 7
TOPICS: Final = (("orders", 3), ("payments", 2))
APPLICATIONS: Final = tuple(f"shop-{number}" for number in range(1, 7))
TRANSACTIONS: Final = 20
"""Number of transactions of each application."""
LEVELS: Final = (0, 1, 2)
PATIENT: Final = {"retry_backoff_ms": 100, "retry_backoff_max_ms": 1_000}
"""Client settings: Apache Kafka's defaults."""
PATIENCE_MS: Final = 3_000
"""request.timeout.ms of brokers: with the default of 30 s nothing else would be seen."""
VERIFICATION: Final = {0: False, 1: True, 2: True}
"""Level → whether brokers verify partitions; level 0 is as before Apache Kafka 3.6, without."""


def record(directory: Path, *, seed: int = SEED) -> list[Path]:
    """Record the run at each level; returns the traces."""
    directory.mkdir(parents=True, exist_ok=True)
    traces = []
    for transaction_version in LEVELS:
        trace_file = directory / f"level-{transaction_version}.jsonl"
        trace_file.write_bytes(record_run(transaction_version, seed=seed))
        traces.append(trace_file)
    return traces


def record_run(transaction_version: int, *, seed: int = SEED) -> bytes:
    """The trace of the run at one level of ``transaction.version``."""
    return run_cluster(
        lambda cluster: _run(cluster, transaction_version),
        seed=seed,
        trace_level=TraceLevel.FULL,
        level=transaction_version,
        topics=TOPICS,
        request_timeout_ms=PATIENCE_MS,
        transaction_partition_verification_enable=VERIFICATION[transaction_version],
    )


async def _run(cluster: VirtualCluster, transaction_version: int) -> bytes:
    tracer = cluster.env.tracer
    tracer.run = msgspec.structs.replace(
        RunInfo(seed=tracer.run.seed, clock="virtual", scenario="recorded-run"),
        settings=(("transaction.version", transaction_version),),
    )
    cluster.arm(
        Drop(), FaultPoint.PEER_REQUEST, "lost-marker", api="WriteTxnMarkers", occurrences=(9, 60)
    )
    cluster.arm(
        Delay(delay_ms=40),
        FaultPoint.LOG_APPEND,
        "slow-coordinator",
        topic=TRANSACTION_STATE_TOPIC,
        role="leader",
        probability=0.03,
    )
    await asyncio.gather(
        *(_shop(cluster, application_name) for application_name in APPLICATIONS),
        _dying(cluster),
        _late(cluster),
        _moving(cluster),
    )
    await asyncio.sleep(1)  # what is decided is marked
    lines: list[bytes] = []
    tracer.export(lines.append)
    return b"".join(lines)


async def _shop(cluster: VirtualCluster, transactional_id: str) -> None:
    """Run an application with some transactions and random pauses between its records."""
    random_source: Random = cluster.env.rng.stream(f"load.{transactional_id}")
    topic_partitions = [
        TopicPartition(topic, part) for topic, parts in TOPICS for part in range(parts)
    ]
    async with (
        cluster.client(transactional_id, **PATIENT) as client,
        Producer(client, transactional_id=transactional_id) as producer,
    ):
        await producer.init_transactions()
        for transaction_number in range(TRANSACTIONS):
            await asyncio.sleep(random_source.uniform(0.05, 1))
            producer.begin()
            for partition in random_source.sample(topic_partitions, random_source.randint(1, 3)):
                await producer.send(
                    partition.topic,
                    partition.partition,
                    f"{transactional_id}/{transaction_number}".encode(),
                )
                await asyncio.sleep(random_source.uniform(0, 0.01))
            if random_source.random() < 0.15:
                await producer.abort()
            else:
                await _until_committed(producer)


async def _until_committed(producer: Producer) -> None:
    while True:
        try:
            return await producer.commit()
        except RetriableError:
            continue


async def _dying(cluster: VirtualCluster) -> None:
    """Run an application that dies; its coordinator aborts its transaction, and its next instance
    commits.
    """
    async with cluster.client("dying", **PATIENT) as client:
        async with Producer(
            client, transactional_id="dying", transaction_timeout_ms=3_000
        ) as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send("payments", 0, b"never confirmed")
        await until_state(client, "dying", "CompleteAbort")
        async with Producer(client, transactional_id="dying") as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send("payments", 0, b"a new life")
            await producer.commit()


async def _late(cluster: VirtualCluster) -> None:
    """Run an application whose record is held until its transaction is aborted."""
    async with (
        cluster.client("late", **PATIENT) as client,
        Producer(
            client, transactional_id="late", delivery_timeout_ms=400, request_timeout_ms=200
        ) as producer,
    ):
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 2, b"in time")
        await asyncio.sleep(4)
        cluster.arm(
            Hold(), FaultPoint.CLIENT_REQUEST, "late-produce", api="Produce", client_id="late"
        )
        try:
            await producer.send("orders", 1, b"too late")
        except (AbortableError, RetriableError):
            await producer.abort()
        await asyncio.sleep(1)  # of virtual time: the abort is marked
        cluster.sim.injector.release("late-produce")
        await asyncio.sleep(1)


async def _moving(cluster: VirtualCluster) -> None:
    """Move a coordinator to another broker."""
    await asyncio.sleep(3)
    cluster.move(cluster.home(APPLICATIONS[0]))
