"""A single Fetch: everything in the answer, with the records that the isolation level allows.

Scenarios and tests use it directly; ``consumer`` is built on it. No fetch sessions: KIP-227 allows
a client to do without. Kafka's counterparts are ``Fetcher`` and ``FetchCollector``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import msgspec

from txnsim.client import requests
from txnsim.client.backoff import Deadline
from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import ClientError, RetriableError
from txnsim.client.isolation import AbortedTransaction, ConsumedRecord, SeenMarker, visible_records
from txnsim.client.reactions import REFRESHING
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, Offset, ProducerId, TopicPartition

FETCH_BYTES_MAX: Final = 52_428_800
"""fetch.max.bytes."""
PARTITION_BYTES_MAX: Final = 1_048_576
"""max.partition.fetch.bytes."""
_FIRST_WITH_TOPIC_IDS: Final = 13
LANE: Final = "fetch"
"""Connection for long polls, so that EndTxn never waits behind one."""


NO_REPLICA: Final = -1
PREFERENCE_MS: Final = 300_000
"""metadata.max.age.ms: for so long a consumer reads at the replica that its leader has named."""

T = TypeVar("T")


class RunBesideLoop(Protocol):
    """Runs work outside the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """The result of the work."""


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a Fetch answer. With an error the offsets are -1 and there are no
    records."""

    partition: TopicPartition
    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    """None if the broker gave no list (read_uncommitted)."""
    records: tuple[ConsumedRecord, ...] = ()
    """The records that the isolation level allows."""
    markers: tuple[SeenMarker, ...] = ()
    """The transaction markers among the fetched batches."""
    is_whole: bool = True
    """False if the log cleaner has removed batches or markers in between."""
    next_offset: int
    size_bytes: int = 0
    """Bytes of record batches in the answer, visible or not."""
    leader_epoch: int = -1
    """Epoch of the leader that answered, if the Fetch was for that leader only."""
    preferred_replica: int = NO_REPLICA
    """The replica that the leader leads this consumer to, instead of an answer with records."""
    follower_id: int = NO_REPLICA
    """The follower that answered; -1 for the leader."""


class FetchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the Fetch requests of one reader."""

    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    max_wait_ms: int = 500
    """How long the broker may wait for ``min_bytes``; 0: not at all."""
    min_bytes: int = 1
    max_bytes: int = FETCH_BYTES_MAX
    rack: str = ""
    """client.rack."""
    run_beside_loop: RunBesideLoop | None = None
    """Runs the reading of many records; None for the event loop."""


class NearReplicas:
    """The replicas that a consumer reads from because its leaders have named them (KIP-392).

    Kafka's counterpart is ``SubscriptionState.preferredReadReplica``.
    """

    def __init__(self, rack: str) -> None:
        """A consumer in a rack; it reads from leaders until one names a replica."""
        self.rack = rack
        self._preferences: dict[TopicPartition, tuple[int, Deadline]] = {}

    def of(self, partition: TopicPartition) -> int:
        """The replica to read a partition from; -1 for its leader."""
        broker_id, deadline = self._preferences.get(partition, (NO_REPLICA, None))
        if deadline is not None and deadline.has_passed:
            self.forget(partition)
            return NO_REPLICA
        return broker_id

    def prefer(self, partition: TopicPartition, broker_id: int, deadline: Deadline) -> None:
        """Read a partition from a replica until a deadline."""
        self._preferences[partition] = broker_id, deadline

    def forget(self, partition: TopicPartition) -> None:
        """Read the partition from its leader again."""
        self._preferences.pop(partition, None)


async def fetch(
    cluster: Cluster,
    topic: str,
    partition: int,
    offset: int,
    *,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = FETCH_BYTES_MAX,
    timeout_ms: float | None = None,
    near_replicas: NearReplicas | None = None,
    run_beside_loop: RunBesideLoop | None = None,
) -> FetchResult:
    """Fetch once from a partition's leader, or from the replica that it names; repeated if the
    leader has moved, or if that replica can't answer.

    Args:
        cluster: Connections to use.
        topic: Topic of the partition.
        partition: Partition of the topic.
        offset: The first offset to read.
        isolation: Which records are visible.
        max_wait_ms: How long the broker may wait for ``min_bytes``; 0: not at all.
        min_bytes: Bytes worth an answer.
        max_bytes: Approximate limit on the answer in bytes.
        timeout_ms: Timeout of the whole call; ``api_timeout_ms`` unless given.
        near_replicas: The rack of the consumer, and where it reads by now; None without a rack.
        run_beside_loop: Runs the reading of the records, which may be many.

    Raises:
        RetriableError: No leader answered in time.
        ClientError: ``error`` says why, OFFSET_OUT_OF_RANGE for instance; or a broken answer.
    """
    topic_partition = TopicPartition(topic, partition)
    fetch_options = FetchOptions(
        isolation=isolation,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        rack="" if near_replicas is None else near_replicas.rack,
        run_beside_loop=run_beside_loop,
    )
    deadline = cluster.deadline(timeout_ms)
    backoff = cluster.backoff()
    while True:
        leader = await cluster.leader(topic_partition, deadline=deadline)
        epoch = leader.leader_epoch
        near_id = NO_REPLICA if near_replicas is None else near_replicas.of(topic_partition)
        (fetch_result,) = await ask_leader(
            cluster,
            leader.leader_id if near_id == NO_REPLICA else near_id,
            {topic_partition: offset},
            fetch_options,
            leader_epochs={topic_partition: epoch},
        )
        if near_replicas is not None and fetch_result.preferred_replica != NO_REPLICA:
            preference_end = cluster.deadline(PREFERENCE_MS)
            near_replicas.prefer(topic_partition, fetch_result.preferred_replica, preference_end)
            continue
        if fetch_result.error == ErrorCode.none:
            return msgspec.structs.replace(fetch_result, leader_epoch=epoch, follower_id=near_id)
        failure = f"Fetch of {topic_partition} at {offset}: {fetch_result.error.name.upper()}"
        if near_replicas is not None:
            near_replicas.forget(topic_partition)  # the leader knows better (FetchCollector)
        if not (fetch_result.error.retriable or near_id != NO_REPLICA):
            raise ClientError(failure, error=fetch_result.error)
        if deadline.has_passed:
            raise RetriableError(failure, error=fetch_result.error)
        await backoff.wait(deadline)


async def ask_leader(
    cluster: Cluster,
    broker_id: int,
    positions: Mapping[TopicPartition, int],
    options: FetchOptions,
    *,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
) -> list[FetchResult]:
    """One Fetch of several partitions to one broker. Errors are in the results; wrong leaders are
    removed from the cache. A leader whose epoch differs from the given one refuses (KIP-320).

    Raises:
        ClientError: The answer is not about these partitions, each once.
    """
    id_by_topic = {}
    for topic_partition in positions:
        topic = cluster.view.topic(topic_partition.topic)
        id_by_topic[topic_partition.topic] = topic.topic_id if topic is not None else None
    request = requests.fetch(
        positions,
        id_by_topic=id_by_topic,
        isolation_level=options.isolation,
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        partition_max_bytes=min(options.max_bytes, PARTITION_BYTES_MAX),
        leader_epochs=leader_epochs,
        rack=options.rack,
        timeout_ms=cluster.settings.request_timeout_ms + options.max_wait_ms,
    )
    try:
        message = await cluster.ask(broker_id, request, lane=LANE)
    except LOST_ANSWER_ERRORS as lost:
        for topic_partition in positions:
            cluster.forget_leader(topic_partition.topic)
        error = lost.error or ErrorCode.network_exception
        if not error.retriable:
            error = ErrorCode.network_exception
        return _failed_results(positions, error)
    if getattr(message, "error_code", ErrorCode.none) != ErrorCode.none:
        return _failed_results(positions, ErrorCode(message.error_code))
    parse = partial(_parse, message, positions, id_by_topic, options.isolation)
    fetch_results = (
        parse() if options.run_beside_loop is None else await options.run_beside_loop(parse)
    )
    for fetch_result in fetch_results:
        if fetch_result.error in REFRESHING:
            cluster.forget_leader(fetch_result.partition.topic)
    if cluster.trace.on:
        for fetch_result in fetch_results:
            cluster.trace.trace_delivery(fetch_result.partition, fetch_result.records)
    return fetch_results


def _failed_results(positions: Mapping[TopicPartition, int], error: ErrorCode) -> list[FetchResult]:
    return [
        FetchResult(partition=topic_partition, error=error, next_offset=offset)
        for topic_partition, offset in positions.items()
    ]


def _parse(
    message: Any,
    positions: Mapping[TopicPartition, int],
    id_by_topic: Mapping[str, UUID | None],
    isolation: IsolationLevel,
) -> list[FetchResult]:
    return [
        _parse_partition(topic_partition, partition_row, positions[topic_partition], isolation)
        for topic_partition, partition_row in partition_rows(
            message, positions, id_by_topic
        ).items()
    ]


def partition_rows(
    message: Any, partitions: Collection[TopicPartition], id_by_topic: Mapping[str, UUID | None]
) -> dict[TopicPartition, Any]:
    """The row of each partition in a Fetch answer without an error of its own.

    Args:
        message: The answer.
        partitions: The partitions that the request named.
        id_by_topic: Topic -> its id in the request; None if the request had its name.

    Raises:
        ClientError: The answer lacks a partition, has one twice or another one: without a fetch
            session it is about exactly those of the request
            (FetchSessionHandler.verifyFullFetchResponsePartitions).
    """
    name_by_topic_id = {topic_id: topic_name for topic_name, topic_id in id_by_topic.items()}
    row_by_partition: dict[TopicPartition, Any] = {}
    for topic_row in message.responses:
        topic_name = (
            topic_row.topic
            if message.__version__ < _FIRST_WITH_TOPIC_IDS
            else name_by_topic_id.get(topic_row.topic_id, f"with id {topic_row.topic_id}")
        )
        for partition_row in topic_row.partitions:
            topic_partition = TopicPartition(topic_name, partition_row.partition_index)
            if topic_partition not in partitions:
                raise ClientError(f"Fetch: the broker answered about {topic_partition}, unasked")
            if topic_partition in row_by_partition:
                raise ClientError(f"Fetch: the broker answered twice about {topic_partition}")
            row_by_partition[topic_partition] = partition_row
    unanswered = [partition for partition in partitions if partition not in row_by_partition]
    if unanswered:
        raise ClientError(f"Fetch: the broker answered without {unanswered[0]}")
    return row_by_partition


def _parse_partition(
    topic_partition: TopicPartition, partition_row: Any, position: int, isolation: IsolationLevel
) -> FetchResult:
    aborted = None
    if partition_row.aborted_transactions is not None:
        aborted = tuple(
            AbortedTransaction(
                producer_id=ProducerId(aborted_row.producer_id),
                first_offset=Offset(aborted_row.first_offset),
            )
            for aborted_row in partition_row.aborted_transactions
        )
    record_bytes = partition_row.records or b""
    visible_part = visible_records(
        topic_partition,
        record_bytes,
        fetch_offset=position,
        isolation=isolation,
        aborted=aborted or (),
    )
    return FetchResult(
        partition=topic_partition,
        error=ErrorCode(partition_row.error_code),
        high_watermark=partition_row.high_watermark,
        last_stable_offset=partition_row.last_stable_offset,
        log_start_offset=getattr(partition_row, "log_start_offset", -1),
        preferred_replica=getattr(partition_row, "preferred_read_replica", NO_REPLICA),
        aborted=aborted,
        records=visible_part.records,
        markers=visible_part.markers,
        is_whole=visible_part.is_whole,
        next_offset=visible_part.next_offset,
        size_bytes=len(record_bytes),
    )
