"""Nothing is left behind: by transactions that ended, by clients that left."""

from __future__ import annotations

import asyncio
import gc
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.clusters import real_cluster
from tests.support.slow_machine import SLOW_S
from txnsim.log.partition_log import PartitionLog
from txnsim.runtime.tasks import LoopTasks
from txnsim.server.cluster import SimCluster
from txnsim.txn.state import TransactionState

pytestmark = [pytest.mark.clients, pytest.mark.slow]

ROOT: Final = Path(__file__).resolve().parents[2]
TOPIC: Final = "soak"
PARTITIONS: Final = 12
PRODUCERS: Final = 50
TRANSACTIONS: Final = 20
CONNECTIONS: Final = 500
UNFINISHED: Final = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
)
SLACK_OBJECTS: Final = 150
"""Imports on first use, a cache or two. One object kept per transaction would be a thousand."""

API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
HALF_FRAME: Final = b"\0\0"


@pytest.mark.costly
async def test_ended_transactions_leave_nothing_but_their_records() -> None:
    async with real_cluster(topics=((TOPIC, PARTITIONS),)) as sim:

        async def load() -> None:
            program_process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.clients.load", sim.bootstrap, TOPIC),
                *(str(PARTITIONS), str(PRODUCERS), str(TRANSACTIONS)),
                cwd=ROOT,
            )
            assert await program_process.wait() == 0

        await _expect_nothing_kept(sim, load)
        record_count = sum(log.high_watermark for log in _logs(sim))
        # Two rounds, two partitions each, a record and a marker.
        assert record_count == 2 * PRODUCERS * TRANSACTIONS * 2 * 2


async def test_closed_connections_leave_nothing() -> None:
    async with real_cluster() as sim:
        addresses = [address.rpartition(":")[::2] for address in sim.bootstrap.split(",")]

        async def come_and_go() -> None:
            writers = []
            for connection_number in range(CONNECTIONS):
                host, port = addresses[connection_number % len(addresses)]
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(API_VERSIONS)
                await reader.readexactly(4)
                if connection_number % 2:
                    writer.write(HALF_FRAME)
                writers.append(writer)
            assert sum(len(listener.connections) for listener in sim.listeners) == CONNECTIONS
            for connection_number, writer in enumerate(writers):
                if connection_number % 3:
                    writer.close()
                else:
                    writer.transport.abort()

        await _expect_nothing_kept(sim, come_and_go)


async def _expect_nothing_kept(sim: SimCluster, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work twice; the first time creates the objects that are made only once."""
    task_count_before = len(asyncio.all_tasks())
    await work()
    objects_before = await _objects_when_idle(sim)
    await work()
    objects_after = await _objects_when_idle(sim)
    assert objects_after - objects_before <= SLACK_OBJECTS, (
        f"{objects_before} objects, then {objects_after}"
    )
    assert len(asyncio.all_tasks()) == task_count_before


async def _objects_when_idle(sim: SimCluster) -> int:
    """The number of objects once every connection, task and marker has ended."""
    async with asyncio.timeout(SLOW_S):
        while _unfinished(sim):  # noqa: ASYNC110 - nobody sets an event when all is quiet
            await asyncio.sleep(0.01)
    gc.collect()
    return len(gc.get_objects())


def _unfinished(sim: SimCluster) -> int:
    connection_count = sum(len(listener.connections) for listener in sim.listeners)
    tasks = sim.environment.tasks
    assert isinstance(tasks, LoopTasks)
    unfinished_count = connection_count + len(tasks)
    for broker in sim.brokers.values():
        snapshot = broker.coordinator.snapshot()
        unfinished_count += snapshot.pending_marker_count + snapshot.completions_waiting
        unfinished_count += sum(
            txn_metadata.state in UNFINISHED for txn_metadata in broker.coordinator.entries()
        )
    return unfinished_count


def _logs(sim: SimCluster) -> list[PartitionLog]:
    return [
        log
        for broker in sim.brokers.values()
        for topic_partition, log in broker.replicas.led.items()
        if topic_partition.topic == TOPIC
    ]
