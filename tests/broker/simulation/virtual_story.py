"""What an unmodified aiokafka and our own client do in a virtual cluster: stories whose traces must
repeat.

Run as a program it prints what they come to, for a process with another hash seed: the hashes of
our own client's, or aiokafka's with the stamps of its records.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Final

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition

from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    run_cluster,
    until_state,
    values,
)
from txnsim.cli.event_log import set_up_logs
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.reproducible_process import arrange_process
from txnsim.types import TopicPartition

HOUR_S: Final = 3_600
IDLE_S: Final = 600
"""What repeats over ten minutes of heartbeats and timers does so over an hour."""
TRANSACTIONS: Final = ("tx-a", "tx-b")
PARTITIONS: Final = 3
COMMITTED: Final = {
    partition_index: [
        f"{transactional_id}:{partition_index}:{record}"
        for transactional_id in TRANSACTIONS
        for record in range(2)
    ]
    for partition_index in range(PARTITIONS)
}
"""What a read_committed consumer must see, by partition and sorted."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of the story that two runs have to share."""

    read: dict[int, list[str]]
    idle_ms: int
    coordinators_apart: bool
    """Some record of each transaction went to a leader that is not its coordinator."""
    overlapped: bool
    states: dict[str, str]
    open_transactions: int
    stamps: dict[int, list[int]]
    """By partition, in the order of offsets: by the producer's clock."""
    trace: str
    events: int


async def two_transactions_and_an_idle_hour(
    cluster: VirtualCluster, idle_s: int = HOUR_S
) -> Outcome:
    """Two transactions at once over all brokers, read back, then an hour in which only a producer
    is there.
    """
    bootstrap = cluster.sim.bootstrap
    producers = [
        AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            client_id=transactional_id,
            transactional_id=transactional_id,
            retry_backoff_ms=1,
        )
        for transactional_id in TRANSACTIONS
    ]
    for producer in producers:
        await producer.start()
    try:
        opened_events = [asyncio.Event() for _ in producers]
        overlapped = await asyncio.gather(
            *(
                _transact(cluster, name, producer, opened_events, index)
                for index, (name, producer) in enumerate(zip(TRANSACTIONS, producers, strict=True))
            )
        )
        read, stamps = await _read(bootstrap)
        before_ms = cluster.env.clock.now_ms()
        await producers[1].stop()
        await asyncio.sleep(idle_s)
        idle_ms = cluster.env.clock.now_ms() - before_ms
    finally:
        await producers[0].stop()
        await producers[1].stop()
    leaders = {
        cluster.leader(TopicPartition("orders", partition_index))
        for partition_index in range(PARTITIONS)
    }
    coordinators = {
        transactional_id: cluster.leader(cluster.home(transactional_id))
        for transactional_id in TRANSACTIONS
    }
    return Outcome(
        read=read,
        stamps=stamps,
        idle_ms=idle_ms,
        coordinators_apart=all(
            leaders - {home_broker_id} for home_broker_id in coordinators.values()
        ),
        overlapped=all(overlapped),
        states=_states(cluster),
        open_transactions=_open_transactions(cluster),
        trace=cluster.env.tracer.hash,
        events=sum(1 for _ in cluster.env.tracer.events()),
    )


async def _transact(
    cluster: VirtualCluster,
    name: str,
    producer: AIOKafkaProducer,
    opened_events: list[asyncio.Event],
    index: int,
) -> bool:
    """Run a transaction over all partitions; end it once the other transactions are open, too."""
    async with producer.transaction():
        for record in range(2):
            for partition in range(PARTITIONS):
                await producer.send_and_wait(
                    "orders",
                    f"{name}:{partition}:{record}".encode(),
                    partition=partition,
                )
        opened_events[index].set()
        for other_transaction_event in opened_events:
            await other_transaction_event.wait()
        return _open_transactions(cluster) == PARTITIONS * len(TRANSACTIONS)


async def _read(bootstrap: str) -> tuple[dict[int, list[str]], dict[int, list[int]]]:
    """The committed values by partition, sorted, and their timestamps."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id="reader",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    values_by_partition: dict[int, list[str]] = {
        partition_index: [] for partition_index in range(PARTITIONS)
    }
    stamps: dict[int, list[int]] = {partition_index: [] for partition_index in range(PARTITIONS)}
    try:
        consumer.assign(
            [KafkaPartition("orders", partition_index) for partition_index in range(PARTITIONS)]
        )
        records_expected = sum(map(len, COMMITTED.values()))
        while sum(map(len, values_by_partition.values())) < records_expected:
            record = await consumer.getone()
            values_by_partition[record.partition].append(record.value.decode())
            stamps[record.partition].append(record.timestamp)
    finally:
        await consumer.stop()
    return {
        partition_index: sorted(records) for partition_index, records in values_by_partition.items()
    }, stamps


def _states(cluster: VirtualCluster) -> dict[str, str]:
    return {
        txn_metadata.transactional_id: txn_metadata.state.wire_name
        for broker in cluster.sim.brokers.values()
        for txn_metadata in broker.coordinator.entries()
    }


def _open_transactions(cluster: VirtualCluster) -> int:
    return sum(
        log.producers.open_transaction_of(producer.producer_id) >= 0
        for broker in cluster.sim.brokers.values()
        for topic_partition, log in broker.replicas.led.items()
        if topic_partition.topic == "orders"
        for producer in log.producers.all_producers()
    )


async def our_own_client(cluster: VirtualCluster) -> str:
    """Two producers of ours, markers that get lost, leaders that move, a transaction that times out
    and time for expiry; answers the hash of the trace.
    """
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, "lost", api="WriteTxnMarkers", limit=2)
    async with cluster.client() as client:
        await asyncio.gather(
            *(_commit_and_abort(client, transactional_id) for transactional_id in TRANSACTIONS)
        )
        for transactional_id in TRANSACTIONS:
            await until_state(client, transactional_id, "CompleteAbort")
        for partition_index in range(PARTITIONS):
            cluster.move(TopicPartition("orders", partition_index))
        cluster.move(cluster.home(TRANSACTIONS[0]))
        async with await begin_transaction(client, "tx-late") as late_producer:
            await asyncio.gather(
                *(late_producer.send("orders", i, b"late") for i in range(PARTITIONS))
            )
            cluster.advance(100_000)
            await until_state(client, "tx-late", "CompleteAbort")
        await values(client, "orders")
    cluster.advance(HOUR_S * 1_000)
    await asyncio.sleep(IDLE_S)
    return cluster.env.tracer.hash


async def _commit_and_abort(client: Cluster, transactional_id: str) -> None:
    async with Producer(client, transactional_id=transactional_id) as producer:
        await producer.init_transactions()
        for end in ("commit", "abort"):
            producer.begin()
            for topic in ("orders", "invoices", "payments"):
                for partition_index in range(PARTITIONS):
                    producer.send(topic, partition_index, f"{transactional_id} {end}".encode())
            await producer.flush()
            await (producer.commit() if end == "commit" else producer.abort())


def told(seed: int) -> Outcome:
    """Run the story of aiokafka with a shorter idle time."""
    return run_cluster(
        partial(two_transactions_and_an_idle_hour, idle_s=IDLE_S),
        seed=seed,
        trace_level=TraceLevel.FULL,
    )


def own_trace_hashes(seed: int) -> list[str]:
    """The hash of our own client's story with the old flow and with v2."""
    topics = tuple((name, PARTITIONS) for name in ("orders", "invoices", "payments"))
    return [
        run_cluster(
            our_own_client,
            seed=seed,
            level=transaction_version,
            topics=topics,
            trace_level=TraceLevel.FULL,
        )
        for transaction_version in (1, 2)
    ]


def main(clock_owner: str, seed: int) -> None:
    """Run a story as a program; aiokafka's story runs in a process that restarts itself
    reproducibly.
    """
    if clock_owner == "own":
        set_up_logs(level="error")
        sys.stdout.write(" ".join(own_trace_hashes(seed)))
        return
    if limits := arrange_process():
        raise SystemExit("; ".join(limits))
    set_up_logs(level="error")
    sys.stdout.write(msgspec.json.encode(told(seed)).decode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
