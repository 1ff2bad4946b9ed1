"""The seam: a whole cluster and an unmodified aiokafka in virtual time, links in memory.

Nothing of the cluster or of the client library knows that time is not real and that there are no
sockets; so time, chance and sockets are behind their door.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from aiokafka import AIOKafkaProducer

from tests.support.clusters import run_cluster
from tests.support.virtual_story import COMMITTED, Outcome, two_transactions_and_an_idle_hour
from txnsim.runtime.trace import TraceLevel
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka


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
        found = []
        for hours in (23, 2):
            await kafka.clock.advance(timedelta(hours=hours))
            found.append(len(await kafka.transactions.producers("orders")))
        return found, [record.offset for record in await kafka.topics.read("orders")]

    assert run_virtual(main, topics=["orders"], brokers=1) == ([1, 0], [0])
