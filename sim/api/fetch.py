"""Fetch (key 1): read batches from partitions, waiting for some where there are none.

Versions: 4 isolation levels, 5 log start offset, 7 sessions, 9 leader epochs, 11 any replica
(KIP-392), 12 divergence, 13 topic ids, 15 replica state, 16 tells the current leader (KIP-951), 17
and 18 concern followers. Kafka's counterpart: KafkaApis.handleFetchRequest.
"""

from __future__ import annotations

from typing import Any, Final

from sim.api.leaders import CurrentLeaders
from sim.api.request import Reply, Request
from sim.cluster.fetch import FetchCommand, FetchOutcome, FetchPartition
from sim.errors import ErrorCode
from sim.types import IsolationLevel, Subject, TopicPartition
from sim.wire.codec import build

KEY: Final = 1
VERSIONS: Final = (4, 18)

ANY_REPLICA_FROM: Final = 11
TOPIC_IDS_FROM: Final = 13
CURRENT_LEADER_FROM: Final = 16

_EMPTY_ABORTED: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id}
)
"""Errors whose answer carries an empty list of aborted transactions instead of none, as measured on
a real broker.
"""

_ISOLATIONS: Final = frozenset(IsolationLevel)
_NO_SUCH_TOPIC: Final = FetchOutcome(error=ErrorCode.unknown_topic_id)

DEVIATIONS: Final = (
    "Fetch sessions (KIP-227) are declined: every answer has session id 0, so clients send full "
    "fetches.",
)


async def handle(request: Request) -> Reply:
    """Read what is wanted, or wait for it."""
    message = request.message
    session_epoch = getattr(message, "session_epoch", -1)
    if session_epoch > 0:
        return request.answer(
            error_code=ErrorCode.fetch_session_id_not_found, session_id=0, responses=()
        )
    if message.isolation_level not in _ISOLATIONS:
        return refuse(request, ErrorCode.unknown_server_error)
    asked: dict[tuple[Any, int], TopicPartition | None] = {}
    wanted: dict[TopicPartition, FetchPartition] = {}
    for topic in message.topics:
        key, name = _topic(request, topic)
        for partition in topic.partitions:
            if name is None:
                asked[key, partition.partition] = None
                continue
            # A partition that is named twice counts once, as it was named last.
            part = _wanted(TopicPartition(name, partition.partition), partition)
            asked[key, partition.partition] = part.topic_partition
            wanted[part.topic_partition] = part
    outcomes = await request.broker.fetching.fetch(
        _command(request, tuple(wanted.values()), any_failed=None in asked.values())
    )
    return _answer(
        request,
        [
            (key, index, _NO_SUCH_TOPIC if partition is None else outcomes[partition])
            for (key, index), partition in asked.items()
        ],
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """At the top from v7, and on every partition as long as topics have names."""
    if request.api_version >= TOPIC_IDS_FROM:
        return request.answer(error_code=error, session_id=0, responses=())
    outcome = FetchOutcome(error=error, aborted=())
    return _answer(
        request,
        [
            (topic.topic, partition.partition, outcome)
            for topic in request.message.topics
            for partition in topic.partitions
        ],
        error=error,
    )


def subject(request: Request) -> Subject:
    """The partitions wanted."""
    return Subject(
        partitions=tuple(
            TopicPartition(_topic(request, topic)[1] or "", partition.partition)
            for topic in request.message.topics
            for partition in topic.partitions
        )
    )


# Reading


def _topic(request: Request, topic: Any) -> tuple[Any, str | None]:
    if request.api_version < TOPIC_IDS_FROM:
        return topic.topic, topic.topic
    return topic.topic_id, request.broker.image.topic_names.get(topic.topic_id)


def _wanted(topic_partition: TopicPartition, partition: Any) -> FetchPartition:
    return FetchPartition(
        topic_partition=topic_partition,
        offset=partition.fetch_offset,
        max_bytes=partition.partition_max_bytes,
        current_leader_epoch=getattr(partition, "current_leader_epoch", -1),
        last_fetched_epoch=getattr(partition, "last_fetched_epoch", -1),
    )


def _command(
    request: Request, wanted: tuple[FetchPartition, ...], *, any_failed: bool
) -> FetchCommand:
    message = request.message
    max_wait_ms = message.max_wait.days * 86_400_000 + message.max_wait.seconds * 1000
    max_wait_ms += message.max_wait.microseconds // 1000
    return FetchCommand(
        # A partition that failed already is answered at once, as DelayedFetch does.
        max_wait_ms=0 if any_failed else max_wait_ms,
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        isolation=IsolationLevel(message.isolation_level),
        partitions=wanted,
        leader_only=request.api_version < ANY_REPLICA_FROM,
    )


# Answering


def _answer(
    request: Request,
    results: list[tuple[Any, int, FetchOutcome]],
    *,
    error: ErrorCode = ErrorCode.none,
) -> Reply:
    schema = request.schema
    by_key: dict[Any, list[Any]] = {}
    leaders = CurrentLeaders(request)
    for key, index, outcome in results:
        by_key.setdefault(key, []).append(_partition(request, key, index, outcome, leaders))
    key_field = "topic_id" if request.api_version >= TOPIC_IDS_FROM else "topic"
    return request.answer(
        error_code=error,
        session_id=0,
        responses=tuple(
            schema.FetchableTopicResponse(**{key_field: key}, partitions=tuple(partitions))
            for key, partitions in by_key.items()
        ),
        node_endpoints=leaders.endpoints(),
    )


def _partition(
    request: Request, key: Any, index: int, outcome: FetchOutcome, leaders: CurrentLeaders
) -> Any:
    schema = request.schema
    values: dict[str, object] = {}
    if outcome.diverging is not None:
        epoch, end_offset = outcome.diverging
        values["diverging_epoch"] = schema.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if request.api_version >= CURRENT_LEADER_FROM and outcome.error in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
    ):
        values["current_leader"] = leaders.of(_partition_of(request, key, index))
    records = outcome.records
    return build(
        schema.PartitionData,
        partition_index=index,
        error_code=outcome.error,
        high_watermark=outcome.high_watermark,
        last_stable_offset=outcome.last_stable_offset,
        log_start_offset=outcome.log_start_offset,
        aborted_transactions=_aborted(request, outcome),
        records=records[0] if len(records) == 1 else b"".join(records),
        **values,
    )


def _aborted(request: Request, outcome: FetchOutcome) -> tuple[Any, ...] | None:
    if outcome.aborted is None:
        return () if outcome.error in _EMPTY_ABORTED else None
    schema = request.schema
    return tuple(
        schema.AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in outcome.aborted
    )


def _partition_of(request: Request, key: Any, index: int) -> TopicPartition:
    names = request.broker.image.topic_names
    name = names.get(key, "") if request.api_version >= TOPIC_IDS_FROM else key
    return TopicPartition(name, index)
