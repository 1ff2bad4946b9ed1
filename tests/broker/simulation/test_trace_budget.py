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


@pytest.mark.parametrize("transactional_id", ["app", LONG_ID])
@pytest.mark.parametrize("version", [1, 2])
def test_brief_is_brief(version: int, transactional_id: str) -> None:
    events, written = cost_of_a_transaction(TraceLevel.BRIEF, version, transactional_id)
    assert 12 < events <= EVENTS_MAX
    assert 2_000 < written <= BYTES_MAX


def test_full_tells_more() -> None:
    events, written = cost_of_a_transaction(TraceLevel.FULL, 2)
    assert events > 2 * EVENTS_MAX
    assert written > 2 * BYTES_MAX


@pytest.mark.parametrize("trace_level", [TraceLevel.BRIEF, TraceLevel.FULL])
def test_payloads_made_when_events_are_encoded_are_those_made_at_once(
    trace_level: TraceLevel,
) -> None:
    """A server makes them later; a strict trace, as tests have it, at once."""

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
