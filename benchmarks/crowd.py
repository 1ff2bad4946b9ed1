"""A crowded cluster for ``benchmarks.find_hanging``: many partitions, many open transactions that
their coordinators know, and a few that nobody knows.

Made over the wire, as any client may: with partition verification off, a transactional Produce to
a partition that was never added opens a transaction that no coordinator will end. All records are
dated an hour back, so that every transaction is old enough to be looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.requests import NewTopic
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionRange
from txnsim.errors import ErrorCode
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim.wire.batch import Record, build_batch

HOUR_MS: Final = 3_600_000
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The most that brokers allow by default: the search has to come before its end."""
TOPIC_PARTITIONS: Final = 500
VERIFICATION_CONFIG: Final = "transaction.partition.verification.enable"

_SETTINGS: Final = ClientSettings(
    retry_backoff_ms=5, retry_backoff_max_ms=200, request_timeout_ms=120_000, api_timeout_ms=300_000
)
_CONCURRENT_JOBS: Final = 64
_OLD_FLOW_VERSIONS: Final = VersionRange(11, 11)
"""Versions of Produce that add nothing by themselves."""

T = TypeVar("T")


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that is searched: its partitions and its open transactions."""

    partition_count: int
    open_transaction_count: int
    hanging_partitions: frozenset[TopicPartition]


async def make_crowd(
    bootstrap: str, *, partition_count: int, alive_count: int, hanging_count: int
) -> Crowd:
    """Make topics and transactions.

    Args:
        bootstrap: The cluster, empty so far.
        partition_count: Over topics of ``TOPIC_PARTITIONS``.
        alive_count: Transactions of which their coordinator knows, each on one partition.
        hanging_count: Number of transactions that a partition has open and no coordinator has.

    Raises:
        ClientError: Something was refused.
    """
    async with Cluster(bootstrap, settings=_SETTINGS) as cluster:
        admin = Admin(cluster)
        topic_partitions = await _make_topics(admin, partition_count)
        await admin.set_broker_default(VERIFICATION_CONFIG, "false")
        hanging_partitions = (
            topic_partitions[:: max(1, len(topic_partitions) // hanging_count)][:hanging_count]
            if hanging_count
            else []
        )
        live_partitions = [
            topic_partitions[transaction_number * 7 % len(topic_partitions)]
            for transaction_number in range(alive_count)
        ]
        crowd_transactions = [
            _CrowdTransaction(
                transactional_id=f"ghost-{transaction_number}", partition=partition, is_known=False
            )
            for transaction_number, partition in enumerate(hanging_partitions)
        ] + [
            _CrowdTransaction(
                transactional_id=f"app-{transaction_number}", partition=partition, is_known=True
            )
            for transaction_number, partition in enumerate(live_partitions)
        ]
        await _handle_concurrently(
            crowd_transactions,
            lambda crowd_transaction: _open_transaction(cluster, crowd_transaction),
        )
        await admin.set_broker_default(VERIFICATION_CONFIG, None)
        return Crowd(
            partition_count=len(topic_partitions),
            open_transaction_count=alive_count + hanging_count,
            hanging_partitions=frozenset(hanging_partitions),
        )


async def _make_topics(admin: Admin, partition_count: int) -> list[TopicPartition]:
    topic_partitions: list[TopicPartition] = []
    topic_number = 0
    while len(topic_partitions) < partition_count:
        topic_partition_count = min(TOPIC_PARTITIONS, partition_count - len(topic_partitions))
        topic_name = f"crowd-{topic_number:03}"
        new_topic = NewTopic(
            name=topic_name, partitions=topic_partition_count, replication_factor=1
        )
        for topic_or_error in (
            await admin.create_topics((new_topic,), timeout_ms=120_000)
        ).values():
            if isinstance(topic_or_error, ClientError):
                raise topic_or_error
        await admin.wait_for_topic(topic_name)
        topic_partitions += [
            TopicPartition(topic_name, index) for index in range(topic_partition_count)
        ]
        topic_number += 1
    return topic_partitions


class _CrowdTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that the crowd opens."""

    transactional_id: str
    partition: TopicPartition
    is_known: bool
    """Whether its coordinator is told."""


async def _open_transaction(cluster: Cluster, crowd_transaction: _CrowdTransaction) -> None:
    transactional_id, partition = crowd_transaction.transactional_id, crowd_transaction.partition
    producer_identity = await _init_producer(cluster, transactional_id)
    if crowd_transaction.is_known:
        add_request = TxnRequests(
            transactional_id,
            producer_id=producer_identity.producer_id,
            producer_epoch=producer_identity.producer_epoch,
        ).add_partitions(partitions=[partition])
        await _ask_until_accepted(cluster, transactional_id, add_request, _error_of_addition)
    batch = build_batch(
        [Record(value=b"x")],
        timestamp_ms=cluster.clock.now_ms() - HOUR_MS,
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    produce_request = requests.produce(
        {partition: batch},
        id_by_topic={},
        transactional_id=transactional_id,
        accepted_versions=_OLD_FLOW_VERSIONS,
    )
    while True:
        leader = await cluster.leader(partition)
        produce_response = await cluster.ask(leader.leader_id, produce_request)
        error = ErrorCode(produce_response.responses[0].partition_responses[0].error_code)
        if error == ErrorCode.none:
            return
        # A real broker hears of its new config, and of its new partitions, a moment later.
        if not error.retriable and error != ErrorCode.transaction_abortable:
            raise ClientError(f"Produce to {partition}: {error.name}", error=error)
        await asyncio.sleep(0.05)


async def _init_producer(cluster: Cluster, transactional_id: str) -> ProducerIdAndEpoch:
    init_request = TxnRequests(transactional_id).init(timeout_ms=TRANSACTION_TIMEOUT_MS)
    init_response = await _ask_until_accepted(
        cluster, transactional_id, init_request, lambda answer: ErrorCode(answer.error_code)
    )
    return ProducerIdAndEpoch(
        producer_id=init_response.producer_id, producer_epoch=init_response.producer_epoch
    )


def _error_of_addition(add_response: Any) -> ErrorCode:
    (topic,) = add_response.results_by_topic_v3_and_below
    return ErrorCode(topic.results_by_partition[0].partition_error_code)


async def _ask_until_accepted(
    cluster: Cluster,
    transactional_id: str,
    request: Any,
    error_of: Callable[[Any], ErrorCode],
) -> Any:
    """Send a request to the coordinator until it accepts it."""
    while True:
        response = await cluster.ask(await cluster.coordinator(transactional_id), request)
        error = error_of(response)
        if error == ErrorCode.none:
            return response
        if not error.retriable:
            raise ClientError(f"{transactional_id}: {error.name}", error=error)
        cluster.forget_coordinator(transactional_id)
        await asyncio.sleep(0.01)


async def _handle_concurrently(
    items: Sequence[T], handle_item: Callable[[T], Awaitable[None]]
) -> None:
    """Handle all jobs, some at a time; the first failure ends all."""
    waiting_items = iter(items)

    async def handle_waiting_items() -> None:
        for item in waiting_items:
            await handle_item(item)

    async with asyncio.TaskGroup() as task_group:
        for _ in range(_CONCURRENT_JOBS):
            task_group.create_task(handle_waiting_items())
