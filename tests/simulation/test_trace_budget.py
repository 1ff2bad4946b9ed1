"""What a transaction costs in the trace, on three brokers: counts, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.client.producer import Producer
from txnsim.runtime.trace import TraceLevel

EVENTS_MAX = 30
BYTES_MAX = 4_096
TRANSACTIONS = 50


def cost_of_a_transaction(trace_level: TraceLevel, version: int) -> tuple[float, float]:
    """Events and bytes per transaction of one producer that commits one record after the other."""

    async def main(cluster: VirtualCluster) -> tuple[float, float]:
        tracer = cluster.env.tracer
        async with (
            cluster.client(retry_backoff_ms=100) as client,
            Producer(client, transactional_id="app") as producer,
        ):
            await producer.init_transactions()

            async def commit(count: int) -> None:
                for number in range(count):
                    producer.begin()
                    producer.send("orders", number % 3, b"x" * 100)
                    await producer.commit()
                await asyncio.sleep(0.05)  # the last markers are acknowledged

            await commit(5)
            events, written = len(tracer), tracer.written
            await commit(TRANSACTIONS)
            return (
                (len(tracer) - events) / TRANSACTIONS,
                (tracer.written - written) / TRANSACTIONS,
            )

    return run_cluster(main, trace_level=trace_level, level=version)


@pytest.mark.parametrize("version", [1, 2])
def test_brief_is_brief(version: int) -> None:
    events, written = cost_of_a_transaction(TraceLevel.BRIEF, version)
    assert 15 < events <= EVENTS_MAX
    assert 2_000 < written <= BYTES_MAX


def test_full_tells_more() -> None:
    events, written = cost_of_a_transaction(TraceLevel.FULL, 2)
    assert events > 2 * EVENTS_MAX
    assert written > 2 * BYTES_MAX
