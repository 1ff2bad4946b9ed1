"""Cycles: what a server lets go must be gone without Python's collector, which it seldom runs."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tests.support.clusters import VirtualCluster, real_cluster, run_cluster
from txnsim.client.producer import Producer
from txnsim.runtime.trace import TraceLevel
from txnsim.server._connection import Connection

TRANSACTIONS = 100


def unreachable_after(trace_level: TraceLevel, version: int) -> int:
    """Objects that only the collector can free, after so many transactions."""

    async def main(cluster: VirtualCluster) -> int:
        async with (
            cluster.client() as client,
            Producer(client, transactional_id="app") as producer,
        ):
            await producer.init_transactions()

            async def work(transactions: int) -> None:
                for number in range(transactions):
                    producer.begin()
                    producer.send("orders", number % 3, b"x" * 100)
                    await (producer.abort() if number % 5 == 0 else producer.commit())

            await work(10)  # what is met for the first time is compiled, and leaves cycles
            gc.collect()
            gc.disable()
            try:
                await work(TRANSACTIONS)
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
            ours = str(writer.get_extra_info("sockname")[1])
            writer.write((50_000_000).to_bytes(4, "big") + bytes(5_000_000))
            await writer.drain()
            while not connections(ours):  # noqa: ASYNC110 - an object tells nobody that it is there
                await asyncio.sleep(0)
            writer.transport.abort()
            async with asyncio.timeout(60):
                while connections(ours):  # noqa: ASYNC110 - or that it is gone
                    await asyncio.sleep(0)
        finally:
            gc.enable()


def connections(client_port: str) -> list[Connection]:
    """The servers' side of a client's connection, as long as it is an object."""
    found = [one for one in gc.get_objects() if isinstance(one, Connection)]
    return [one for one in found if one.link.port == client_port]


@pytest.mark.slow
def test_transactions_leave_next_to_no_cycles() -> None:
    for version in (1, 2):
        for trace_level in (TraceLevel.OFF, TraceLevel.BRIEF):
            # Threads of other tests in this process leave garbage as well: one of three is enough.
            runs = (unreachable_after(trace_level, version) for _ in range(3))
            assert any(found < TRANSACTIONS / 10 for found in runs), (version, trace_level)
