"""Looks from outside: what clients see of the story's partition. Every fact comes from an answer on
the wire.
"""

from __future__ import annotations

from typing import Final

from sim.check.facts import PartitionFacts, ReaderFetch
from sim.client.errors import ClientError
from sim.client.fetching import FetchResult, fetch
from sim.client.txn_views import ProducerState, TransactionDescription
from sim.scenario.stage import Stage
from sim.types import IsolationLevel

READ_BYTES_MAX: Final = 1_000_000
"""A story's partition holds a handful of records."""
NO_WAIT_MS: Final = 0
"""Whoever looks wants the answer as it stands: a Fetch that waits could be told of later things."""


async def described(stage: Stage) -> TransactionDescription | None:
    """What the coordinator says of the producer's transaction; None before it knows one."""
    transactional_id = stage.scenario.producer.transactional_id
    answer = (await stage.admin.describe_transactions([transactional_id]))[transactional_id]
    return None if isinstance(answer, ClientError) else answer


async def producer_on_partition(stage: Stage) -> ProducerState | None:
    """What the leader knows of the producer; None where it never heard of it.

    Raises:
        ClientError: The leader did not say.
    """
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


async def position_after_all(stage: Stage) -> int:
    """Where a read_committed reader stands that has read everything there is now."""
    offset = 0
    while True:
        result = await _fetch(stage, offset, IsolationLevel.READ_COMMITTED)
        if result.next_offset == offset:
            return offset
        offset = result.next_offset


async def partition_facts(stage: Stage) -> PartitionFacts:
    """The partition as readers and operators see it now."""
    position = stage.facts.reader_offset
    assert position is not None, "the reader has a position before anybody asks what it gets"
    producer = await producer_on_partition(stage)
    uncommitted = await _fetch(stage, 0, IsolationLevel.READ_UNCOMMITTED)
    committed = await _fetch(stage, 0, IsolationLevel.READ_COMMITTED)
    at_position = await _fetch(stage, position, IsolationLevel.READ_COMMITTED)
    return PartitionFacts(
        open_transaction_offset=None if producer is None else producer.txn_start_offset,
        producer_epoch=None if producer is None else producer.producer_epoch,
        uncommitted=_values(uncommitted),
        committed=_values(committed),
        reader=ReaderFetch(
            offset=position,
            isolation=IsolationLevel.READ_COMMITTED.name.lower(),
            max_wait_ms=NO_WAIT_MS,
            max_bytes=READ_BYTES_MAX,
            values=_values(at_position),
            last_stable_offset=at_position.last_stable_offset,
            high_watermark=at_position.high_watermark,
        ),
    )


async def _fetch(stage: Stage, offset: int, isolation: IsolationLevel) -> FetchResult:
    return await fetch(
        stage.outside,
        stage.partition.topic,
        stage.partition.partition,
        offset,
        isolation=isolation,
        max_wait_ms=NO_WAIT_MS,
        max_bytes=READ_BYTES_MAX,
    )


def _values(result: FetchResult) -> tuple[str, ...]:
    return tuple((record.value or b"").decode(errors="replace") for record in result.records)
