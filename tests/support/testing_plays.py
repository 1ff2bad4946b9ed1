"""Actions of our own client for tests of ``txnsim.testing``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.clusters import begin_transaction, client_of
from txnsim.client.cluster import Cluster
from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence, PastDecision
from txnsim.types import TopicPartition

HANGING = JudgedTransaction(
    transaction=OpenTransaction(
        partition=TopicPartition("orders", 1),
        producer=ProducerState(
            producer_id=7,
            producer_epoch=0,
            last_sequence=0,
            last_timestamp_ms=0,
            coordinator_epoch=None,
            txn_start_offset=3,
        ),
    ),
    verdict=OpenTxnStatus.HANGING,
    reason="no coordinator knows producer id 7",
    decided=DecisionEvidence(decision=PastDecision.COMMITTED, because="so it is"),
)


@asynccontextmanager
async def client(
    kafka: AsyncSimulatedKafka, name: str = "app", **settings: Any
) -> AsyncIterator[Cluster]:
    """Our own client of the cluster, on the cluster's loop."""
    async with client_of(kafka.rebuilt.environment, kafka.cluster, name, **settings) as cluster:
        yield cluster


async def write_committed(kafka: AsyncSimulatedKafka, topic: str, *values: str) -> None:
    """Write values to partition 0 in a transaction, and commit it."""
    await _transact(kafka, topic, values, is_commit=True)


async def write_aborted(kafka: AsyncSimulatedKafka, topic: str, *values: str) -> None:
    await _transact(kafka, topic, values, is_commit=False)


async def _transact(
    kafka: AsyncSimulatedKafka, topic: str, record_values: tuple[str, ...], *, is_commit: bool
) -> None:
    async with client(kafka) as cluster, await begin_transaction(cluster, "app") as producer:
        for record_value in record_values:
            await producer.send(topic, 0, record_value.encode())
        if is_commit:
            await producer.commit()
        else:
            await producer.abort()
