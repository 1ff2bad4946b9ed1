"""Runs repeat, make no garbage, and cost what they cost."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from benchmarks.call_counts import count_calls_by_function, make_call_profile
from tests.broker.simulation.virtual_story import (
    COMMITTED,
    Outcome,
    own_trace_hashes,
    told,
    two_transactions_and_an_idle_hour,
)
from tests.support.clusters import VirtualCluster, real_cluster, run_cluster
from txnsim.client.producer import Producer
from txnsim.controller.controller import TopicToCreate
from txnsim.metadata.image import TopicImage
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import START_MS
from txnsim.server._connection import RequestConnection
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka

# What a transaction costs in the trace, on three brokers: counts, in virtual time.


EVENTS_MAX = 30
BYTES_MAX = 4_096
TRANSACTIONS = 50


LONG_ID = "orders-service-7f9c5d6b8-x2lkq-0"
"""As long as ids are in the field: a name, a pod, a number."""


def cost_of_a_transaction(
    trace_level: TraceLevel, version: int, transactional_id: str = "app"
) -> tuple[float, float]:
    """Events and bytes per transaction of one producer that commits one record after the other."""

    async def main(cluster: VirtualCluster) -> tuple[float, float]:
        tracer = cluster.env.tracer
        async with (
            cluster.client(retry_backoff_ms=100) as client,
            Producer(client, transactional_id=transactional_id) as producer,
        ):
            await producer.init_transactions()

            async def commit(count: int) -> None:
                for record_number in range(count):
                    producer.begin()
                    producer.send("orders", record_number % 3, b"x" * 100)
                    await producer.commit()
                await asyncio.sleep(0.05)  # the last markers are acknowledged

            await commit(5)
            events, bytes_before = len(tracer), tracer.bytes_written
            await commit(TRANSACTIONS)
            return (
                (len(tracer) - events) / TRANSACTIONS,
                (tracer.bytes_written - bytes_before) / TRANSACTIONS,
            )

    return run_cluster(main, trace_level=trace_level, level=version)


@pytest.mark.parametrize("transactional_id", ["app", LONG_ID])
@pytest.mark.parametrize("version", [1, 2])
def test_brief_is_brief(version: int, transactional_id: str) -> None:
    events, written_bytes = cost_of_a_transaction(TraceLevel.BRIEF, version, transactional_id)
    assert 12 < events <= EVENTS_MAX
    assert 2_000 < written_bytes <= BYTES_MAX


def test_full_tells_more() -> None:
    events, written_bytes = cost_of_a_transaction(TraceLevel.FULL, 2)
    assert events > 2 * EVENTS_MAX
    assert written_bytes > 2 * BYTES_MAX


@pytest.mark.parametrize("trace_level", [TraceLevel.BRIEF, TraceLevel.FULL])
def test_payloads_made_when_events_are_encoded_are_those_made_at_once(
    trace_level: TraceLevel,
) -> None:
    """A server makes payloads when it encodes the events; a strict trace of tests makes them at
    once.
    """

    def trace(*, is_strict: bool) -> str:
        async def main(cluster: VirtualCluster) -> str:
            tracer = cluster.env.tracer
            tracer.is_strict = is_strict
            async with (
                cluster.client(retry_backoff_ms=100) as client,
                Producer(client, transactional_id="app") as producer,
            ):
                await producer.init_transactions()
                for end in (producer.commit, producer.abort) * 3:
                    producer.begin()
                    producer.send("orders", 0, b"x")
                    await end()
                await asyncio.sleep(0.05)
            return tracer.hash

        return run_cluster(main, trace_level=trace_level)

    assert trace(is_strict=True) == trace(is_strict=False)


# Cycles: what a server lets go must be gone without Python's collector, which it seldom runs.


GARBAGE_TRANSACTIONS = 100


def unreachable_after(trace_level: TraceLevel, version: int) -> int:
    """The number of objects that only the garbage collector can free, after transactions."""

    async def main(cluster: VirtualCluster) -> int:
        async with (
            cluster.client() as client,
            Producer(client, transactional_id="app") as producer,
        ):
            await producer.init_transactions()

            async def work(transaction_count: int) -> None:
                for transaction_number in range(transaction_count):
                    producer.begin()
                    producer.send("orders", transaction_number % 3, b"x" * 100)
                    await (producer.abort() if transaction_number % 5 == 0 else producer.commit())

            await work(10)  # what is met for the first time is compiled, and leaves cycles
            gc.collect()
            gc.disable()
            try:
                await work(GARBAGE_TRANSACTIONS)
                return gc.collect()
            finally:
                gc.enable()

    return run_cluster(main, trace_level=trace_level, level=version)


async def test_a_connection_that_is_gone_needs_no_collector() -> None:
    async with real_cluster(brokers=1) as sim:
        host, _, port = sim.bootstrap.rpartition(":")
        gc.collect()
        gc.disable()
        try:
            _, writer = await asyncio.open_connection(host, int(port))
            client_port = str(writer.get_extra_info("sockname")[1])
            writer.write((50_000_000).to_bytes(4, "big") + bytes(5_000_000))
            await writer.drain()
            while not connections(client_port):  # noqa: ASYNC110 - an object tells nobody that it is there
                await asyncio.sleep(0)
            writer.transport.abort()
            async with asyncio.timeout(60):
                while connections(client_port):  # noqa: ASYNC110 - or that it is gone
                    await asyncio.sleep(0)
        finally:
            gc.enable()


def connections(client_port: str) -> list[RequestConnection]:
    """The server's objects of a client's connection."""
    connections_alive = [
        tracked for tracked in gc.get_objects() if isinstance(tracked, RequestConnection)
    ]
    return [connection for connection in connections_alive if connection.link.port == client_port]


@pytest.mark.costly
@pytest.mark.slow
def test_transactions_leave_next_to_no_cycles() -> None:
    for version in (1, 2):
        for trace_level in (TraceLevel.OFF, TraceLevel.BRIEF):
            # Threads of other tests in this process leave garbage as well: one of three is enough.
            runs = (unreachable_after(trace_level, version) for _ in range(3))
            assert any(garbage < GARBAGE_TRANSACTIONS / 10 for garbage in runs), (
                version,
                trace_level,
            )


# A run is a function of its seed: the trace repeats, also under another hash seed.


ROOT = Path(__file__).resolve().parents[3]


def printed(*arguments: str, hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "tests.broker.simulation.virtual_story", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first_outcome, second_outcome = told(seed), told(seed)
    assert first_outcome.events == second_outcome.events
    assert first_outcome == second_outcome


@pytest.mark.slow
def test_another_seed_gives_another_trace() -> None:
    assert told(1).trace != told(2).trace


@pytest.mark.slow
def test_records_are_stamped_by_virtual_time() -> None:
    outcome = told(1)
    for stamps in outcome.stamps.values():
        assert stamps
        assert all(START_MS <= timestamp_ms <= START_MS + 60_000 for timestamp_ms in stamps)


@pytest.mark.costly
@pytest.mark.slow
def test_our_own_client_repeats_in_the_old_flow_and_in_v2_under_any_hash_seed() -> None:
    hashes_here = own_trace_hashes(7)
    assert len(set(hashes_here)) == 2
    # This process has some hash seed, usually drawn by chance.
    assert printed("own", "7", hash_seed="1") == " ".join(hashes_here)


@pytest.mark.costly
@pytest.mark.slow
def test_aiokafka_repeats_in_another_process_with_its_stamps() -> None:
    """The two processes begin with different hash seeds; each sets its own environment."""
    first_outcome, second_outcome = (
        msgspec.json.decode(printed("aiokafka", "7", hash_seed=hash_seed), type=Outcome)
        for hash_seed in ("1", "2")
    )
    assert first_outcome == second_outcome
    assert all(first_outcome.stamps.values())


# The seam: a whole cluster and an unmodified aiokafka in virtual time, links in memory. Nothing of
# the cluster or of the client library knows that time is not real and that there are no sockets; so
# time, chance and sockets are behind their interfaces.


def story(seed: int) -> Outcome:
    return run_cluster(two_transactions_and_an_idle_hour, seed=seed, trace_level=TraceLevel.FULL)


@pytest.mark.costly
@pytest.mark.slow
def test_two_transactions_run_at_once_and_an_idle_hour_passes() -> None:
    outcome = story(7)
    assert outcome.read == COMMITTED
    assert outcome.idle_ms >= 3_600_000
    assert outcome.coordinators_apart, "a coordinator leads none of what its transaction wrote"
    assert outcome.overlapped, "both transactions were open at once"


@pytest.mark.costly
@pytest.mark.slow
def test_the_cluster_is_at_rest_after_the_hour() -> None:
    outcome = story(7)
    assert outcome.states == {"tx-a": "CompleteCommit", "tx-b": "CompleteCommit"}
    assert outcome.open_transactions == 0


def test_a_partition_forgets_an_idle_producer_by_the_stamps_of_its_records() -> None:
    """Stamps and cluster are of one time: stamped by real time, years ahead, none would expire."""

    async def main(kafka: AsyncSimulatedKafka) -> tuple[list[int], list[int]]:
        async with AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap, enable_idempotence=True
        ) as producer:
            await producer.send_and_wait("orders", b"one")
        producer_counts = []
        for hours in (23, 2):
            await kafka.clock.advance(timedelta(hours=hours))
            producer_counts.append(len(await kafka.transactions.producers("orders")))
        return producer_counts, [record.offset for record in await kafka.topics.read("orders")]

    assert run_virtual(main, topics=["orders"], brokers=1) == ([1, 0], [0])


# What one more topic costs does not depend on how many there are.


@pytest.mark.parametrize("name", ["one-more", "one.more", "one_more.with_marks"])
def test_a_topic_costs_the_same_beside_few_and_beside_many(name: str) -> None:
    async def main(cluster: VirtualCluster) -> tuple[int, int]:
        def create(names: list[str]) -> None:
            new_topics = [
                TopicToCreate(name=name, partition_count=1, replication_factor=3) for name in names
            ]
            created_topics = cluster.sim.metadata.create_topics(new_topics)
            assert all(isinstance(created_topic, TopicImage) for created_topic in created_topics)

        costs = []
        for count in (10, 300):
            create([f"t{count}.{number}" for number in range(count)])
            profile = make_call_profile()
            profile.enable()
            for number in range(16):  # faster than followers get their first answer
                create([f"{name}-{count}-{number}"])
                await asyncio.sleep(0.001)
            profile.disable()
            costs.append(sum(count_calls_by_function(profile).values()))
        return costs[0], costs[1]

    few, many = run_cluster(main, topics=())
    assert many < few * 1.5
