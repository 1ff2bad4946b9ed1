"""Looks from outside: what clients see of the story's partition. Every fact comes from an answer on
the wire.
"""

from __future__ import annotations

from typing import Final

from sim.check.facts import PartitionFacts
from sim.client.errors import ClientError
from sim.client.fetching import fetch
from sim.client.txn_views import ProducerState, TransactionDescription
from sim.scenario.stage import Stage
from sim.types import IsolationLevel

READ_BYTES_MAX: Final = 1_000_000
"""A story's partition holds a handful of records."""


async def described(stage: Stage) -> TransactionDescription | None:
    """What the coordinator says of the producer's transaction; None before it knows one."""
    transactional_id = stage.scenario.producer.transactional_id
    answer = (await stage.admin.describe_transactions([transactional_id]))[transactional_id]
    return None if isinstance(answer, ClientError) else answer


async def producer_on_partition(stage: Stage) -> ProducerState | None:
    """What the leader knows of the producer; None where it never heard of it."""
    transaction = await described(stage)
    if transaction is None:
        return None
    answer = (await stage.admin.describe_producers([stage.partition]))[stage.partition]
    if isinstance(answer, ClientError):
        raise answer
    for producer in answer:
        if producer.producer_id == transaction.producer_id:
            return producer
    return None


async def partition_facts(stage: Stage) -> PartitionFacts:
    """The partition as readers and operators see it now."""
    producer = await producer_on_partition(stage)
    uncommitted = await _read(stage, IsolationLevel.READ_UNCOMMITTED)
    committed = await _read(stage, IsolationLevel.READ_COMMITTED)
    topic, partition = stage.partition.topic, stage.partition.partition
    tip = await fetch(
        stage.outside,
        topic,
        partition,
        committed.last_stable_offset,
        isolation=IsolationLevel.READ_COMMITTED,
        max_wait_ms=0,
    )
    return PartitionFacts(
        high_watermark=tip.high_watermark,
        last_stable_offset=tip.last_stable_offset,
        open_transaction_offset=None if producer is None else producer.txn_start_offset,
        producer_epoch=None if producer is None else producer.producer_epoch,
        uncommitted=uncommitted.values,
        committed=committed.values,
        starved=not tip.records and tip.last_stable_offset < tip.high_watermark,
    )


class _Read:
    """What a reader got from the start of the partition on."""

    def __init__(self, values: tuple[str, ...], last_stable_offset: int) -> None:
        self.values = values
        self.last_stable_offset = last_stable_offset


async def _read(stage: Stage, isolation: IsolationLevel) -> _Read:
    result = await fetch(
        stage.outside,
        stage.partition.topic,
        stage.partition.partition,
        0,
        isolation=isolation,
        max_wait_ms=0,
        max_bytes=READ_BYTES_MAX,
    )
    values = tuple((record.value or b"").decode() for record in result.records)
    return _Read(values, result.last_stable_offset)
