"""Fetch (key 1): read batches from partitions, and wait if there are too few.

Versions: 4 isolation levels, 5 log start offset, 7 sessions, 9 leader epochs, 11 any replica
(KIP-392), 12 divergence, 13 topic ids, 15 replica state, 16 names the current leader (KIP-951), 17
and 18 concern followers. ``replica.fetch_sessions`` decides what the answer of a session lists.
Kafka's counterpart: KafkaApis.handleFetchRequest.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from txnsim.api._access import Access
from txnsim.api._leaders import CurrentLeaders
from txnsim.api.request import Reply, Request
from txnsim.broker.fetch import FetchCommand
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.log.txn_index import AbortedTxn
from txnsim.replica.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchPlan, SessionRequest
from txnsim.replica.fetch_values import FetchOutcome, FetchPartition, Naming, PartitionKey
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace
from txnsim.security.acls import AclOperation
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.wire.codec import build
from txnsim.wire.values import Batches

API_KEY: Final = 1

ANY_REPLICA_FROM: Final = 11
TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
CURRENT_LEADER_FROM: Final = 16

_EMPTY_ABORTED: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.topic_authorization_failed,
    }
)
"""Errors whose answer carries an empty list of aborted transactions instead of none, as measured on
a real broker.
"""

ABORTED_MAX: Final = 1_000
"""Aborted transactions of a partition whose rows are made without a break."""
_ISOLATIONS: Final = frozenset(IsolationLevel)


async def handle(request: Request) -> Reply:
    """Read the wanted partitions, or wait for records."""
    broker = request.broker
    read_now_ms = broker.environment.clock.now_ms
    requested_partitions = (
        _requested_partitions(request)
        if request.pace is None
        else await _requested_in_slices(request)
    )
    fetch_plan = broker.fetch_sessions.plan(
        _session_request(request, requested_partitions),
        name_by_topic_id=broker.image.topic_names,
        now_ms=read_now_ms(),
    )
    if fetch_plan is ErrorCode.unknown_server_error:
        return refuse(request, fetch_plan)
    if isinstance(fetch_plan, ErrorCode):
        return request.answer(error_code=fetch_plan, session_id=NO_SESSION, responses=())
    if request.message.isolation_level not in _ISOLATIONS:
        return refuse(request, ErrorCode.unknown_server_error)
    if request.pace is not None and len(fetch_plan.partitions) > len(requested_partitions):
        request.subject = _subject_of([*requested_partitions.values(), *fetch_plan.partitions])
    del requested_partitions  # the plan has what is needed of it, and the request may wait for long
    request.expect(len(fetch_plan.partitions))
    await request.note_done(len(fetch_plan.partitions))
    fetch_outcomes = await _read_partitions(request, fetch_plan)
    session_answer = broker.fetch_sessions.conclude(
        fetch_plan, fetch_outcomes, now_ms=read_now_ms()
    )
    leaders, keys_and_outcomes = CurrentLeaders(request), session_answer.results
    request.expect(len(keys_and_outcomes))
    for _, outcome in keys_and_outcomes:
        if outcome.aborted_txns and len(outcome.aborted_txns) > ABORTED_MAX:
            request.expect(len(outcome.aborted_txns))
    if request.pace is None:
        partitions = [
            _partition_result(request, leaders, key_and_outcome)
            for key_and_outcome in keys_and_outcomes
        ]
    else:
        del fetch_plan, fetch_outcomes  # many answers may be made side by side
        partitions = await _results_in_slices(request, leaders, keys_and_outcomes, request.pace)
    return _answer(
        request,
        partitions,
        leaders,
        error=session_answer.error,
        session_id=session_answer.session_id,
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top from v7 on, and on every partition in versions that name topics."""
    session_id = getattr(request.message, "session_id", NO_SESSION)
    if request.api_version >= TOPIC_IDS_FROM:
        return request.answer(error_code=error, session_id=session_id, responses=())
    outcome = FetchOutcome(error=error, aborted_txns=())
    leaders = CurrentLeaders(request)
    partition_keys: list[PartitionKey]
    if request.subject is not None:
        partition_keys = [
            (topic_partition.topic, topic_partition.partition)
            for topic_partition in request.subject.partitions
        ]
    else:
        partition_keys = [
            (topic.topic, partition.partition)
            for topic in request.message.topics
            for partition in topic.partitions
        ]
    partitions = [
        _partition_result(request, leaders, (partition_key, outcome))
        for partition_key in partition_keys
    ]
    if not request.broker.release.rules.refused_fetches_have_records:
        partitions = [
            (partition_key, replace(partition, records=None))
            for partition_key, partition in partitions
        ]
    return _answer(request, partitions, leaders, error=error, session_id=session_id)


def subject(request: Request) -> Subject:
    """For fault rules: the partitions that the request lists, and those of its session."""
    if request.subject is not None:
        return request.subject
    fetch_partitions = [
        fetch_partition.topic_partition
        for fetch_partition in _requested_partitions(request).values()
    ]
    session = request.broker.fetch_sessions.find(getattr(request.message, "session_id", NO_SESSION))
    if session is not None and request.message.session_epoch == session.epoch:
        fetch_partitions += [
            cached_partition.request.topic_partition
            for cached_partition in session.partitions.values()
        ]
    return Subject(partitions=tuple(dict.fromkeys(fetch_partitions)))


def _subject_of(fetch_partitions: Iterable[FetchPartition]) -> Subject:
    return Subject(
        partitions=tuple(
            dict.fromkeys([fetch_partition.topic_partition for fetch_partition in fetch_partitions])
        )
    )


# Reading


async def _read_partitions(request: Request, fetch_plan: FetchPlan) -> list[FetchOutcome]:
    """Read the partitions that the client may read; the others get an error without a read."""
    command = _command(request, fetch_plan)
    fetch_path = request.broker.fetching
    if request.access is None:
        return await fetch_path.fetch(command, request.pace)
    allowed_indexes = _allowed_indexes(request, request.access, command)
    if len(allowed_indexes) == len(command.partitions):
        return await fetch_path.fetch(command, request.pace)
    fetch_outcomes = [FetchOutcome(error=ErrorCode.topic_authorization_failed)] * len(
        command.partitions
    )
    partitions = tuple([command.partitions[index] for index in allowed_indexes])
    read_outcomes = await fetch_path.fetch(
        msgspec.structs.replace(command, partitions=partitions), request.pace
    )
    for index, outcome in zip(allowed_indexes, read_outcomes, strict=True):
        fetch_outcomes[index] = outcome
    return fetch_outcomes


def _allowed_indexes(request: Request, access: Access, command: FetchCommand) -> list[int]:
    """Indexes of the partitions that the client may read: a consumer needs a right on each topic; a
    follower may read all or none.
    """
    if _replica_id(request) >= 0:
        is_follower = access.may_cluster(AclOperation.CLUSTER_ACTION)
        return list(range(len(command.partitions))) if is_follower else []
    return [
        index
        for index, fetch_partition in enumerate(command.partitions)
        # The handler answers for an unknown id itself: ids are no secret.
        if fetch_partition.naming is Naming.NO_NAME
        or access.may_topic(AclOperation.READ, fetch_partition.topic_partition.topic)
    ]


def _session_request(
    request: Request, requested_partitions: dict[PartitionKey, FetchPartition]
) -> SessionRequest:
    message = request.message
    names_topics_by_id = request.api_version >= TOPIC_IDS_FROM
    forgotten_partitions: list[PartitionKey] = []
    for topic in getattr(message, "forgotten_topics_data", ()):
        topic_key = topic.topic_id if names_topics_by_id else topic.topic
        forgotten_partitions += [(topic_key, partition) for partition in topic.partitions]
    return SessionRequest(
        session_id=getattr(message, "session_id", NO_SESSION),
        session_epoch=getattr(message, "session_epoch", FINAL_EPOCH),
        partitions=requested_partitions,
        forgotten_keys=tuple(forgotten_partitions),
        names_topics_by_id=names_topics_by_id,
        is_privileged=_replica_id(request) >= 0,
    )


def _requested_partitions(request: Request) -> dict[PartitionKey, FetchPartition]:
    """The partitions that the request lists. For a partition that is named twice the last entry
    counts.
    """
    requested_partitions: dict[PartitionKey, FetchPartition] = {}
    for topic in request.message.topics:
        requested_partitions.update(map(_fetch_parser(request, topic), topic.partitions))
    return requested_partitions


async def _requested_in_slices(request: Request) -> dict[PartitionKey, FetchPartition]:
    """Like ``_requested_partitions``, for a large message. It drops each element once it is read,
    because the message would take most of the memory while the request waits, and many may be read
    at the same time.
    """
    requested_partitions: dict[PartitionKey, FetchPartition] = {}
    topics = list(reversed(request.message.topics))
    request.message = replace(request.message, topics=())
    while topics:
        topic = topics.pop()
        parse_partition, remaining_partitions = (
            _fetch_parser(request, topic),
            list(reversed(topic.partitions)),
        )
        del topic
        while remaining_partitions:
            slice_of_partitions = remaining_partitions[-LOOK_ELEMENTS:]
            del remaining_partitions[-LOOK_ELEMENTS:]
            requested_partitions.update(map(parse_partition, reversed(slice_of_partitions)))
            await request.note_done(len(slice_of_partitions))
    request.subject = _subject_of(requested_partitions.values())
    await request.note_done(len(requested_partitions))
    return requested_partitions


def _fetch_parser(
    request: Request, topic: Any
) -> Callable[[Any], tuple[PartitionKey, FetchPartition]]:
    """A function that maps each requested partition of a topic to its key and its fetch."""
    topic_key: str | uuid.UUID | None
    topic_name: str | None
    if request.api_version < TOPIC_IDS_FROM:
        topic_key = topic_name = topic.topic
    else:
        topic_key, topic_name = topic.topic_id, request.broker.image.topic_names.get(topic.topic_id)
    naming = Naming.NO_NAME if topic_name is None else Naming.NAMED

    def key_and_fetch(partition: Any) -> tuple[PartitionKey, FetchPartition]:
        index = partition.partition
        return (topic_key, index), FetchPartition(
            topic_partition=TopicPartition(topic_name or "", index),
            fetch_offset=partition.fetch_offset,
            max_bytes=partition.partition_max_bytes,
            current_leader_epoch=getattr(partition, "current_leader_epoch", -1),
            last_fetched_epoch=getattr(partition, "last_fetched_epoch", -1),
            naming=naming,
        )

    return key_and_fetch


def _replica_id(request: Request) -> int:
    message = request.message
    if request.api_version >= REPLICA_STATE_FROM:
        return int(message.replica_state.replica_id)
    return int(message.replica_id)


def _command(request: Request, fetch_plan: FetchPlan) -> FetchCommand:
    message = request.message
    max_wait_ms = message.max_wait.days * 86_400_000 + message.max_wait.seconds * 1000
    max_wait_ms += message.max_wait.microseconds // 1000
    replica_id = _replica_id(request)
    return FetchCommand(
        max_wait_ms=max_wait_ms,
        min_bytes=min(message.min_bytes, message.max_bytes),
        max_bytes=message.max_bytes,
        isolation=IsolationLevel(message.isolation_level),
        partitions=fetch_plan.partitions,
        reads_leader_only=request.api_version < ANY_REPLICA_FROM or replica_id >= 0,
        replica_id=replica_id,
        client_id=request.client_id,
        client_rack=message.rack_id if request.api_version >= ANY_REPLICA_FROM else "",
    )


# Answering


def _partition_result(
    request: Request,
    leaders: CurrentLeaders,
    key_and_outcome: tuple[PartitionKey, FetchOutcome],
    aborted_rows: tuple[Any, ...] = (),
) -> tuple[Any, Any]:
    """A partition's topic, and its row in the answer; ``aborted_rows`` is made of it if it is
    long.
    """
    (topic_key, partition_index), outcome = key_and_outcome
    return topic_key, _partition_row(
        request, topic_key, partition_index, outcome, leaders, aborted_rows
    )


async def _results_in_slices(
    request: Request,
    leaders: CurrentLeaders,
    keys_and_outcomes: list[tuple[PartitionKey, FetchOutcome]],
    pace: Pace,
) -> list[tuple[Any, Any]]:
    """``_partition_result`` for each result. Empties the list, so that the memory of results is
    free for rows.
    """
    partitions = []
    keys_and_outcomes.reverse()
    while keys_and_outcomes:
        key_and_outcome = keys_and_outcomes.pop()
        aborted_rows = await _aborted_in_slices(request, key_and_outcome[1], pace)
        partitions.append(_partition_result(request, leaders, key_and_outcome, aborted_rows))
        if pace.has_done(1):
            await pace.yield_turn()
    return partitions


def _answer(
    request: Request,
    partitions: list[tuple[Any, Any]],
    leaders: CurrentLeaders,
    *,
    error: ErrorCode,
    session_id: int,
) -> Reply:
    schema = request.schema
    # Neighbours of one topic share an entry, as FetchResponse.toMessage groups them.
    topic_rows: list[tuple[Any, list[Any]]] = []
    for topic_key, partition in partitions:
        if not topic_rows or topic_rows[-1][0] != topic_key:
            topic_rows.append((topic_key, []))
        topic_rows[-1][1].append(partition)
    key_field = "topic_id" if request.api_version >= TOPIC_IDS_FROM else "topic"
    return request.answer(
        error_code=error,
        session_id=session_id,
        responses=tuple(
            [
                schema.FetchableTopicResponse(
                    **{key_field: topic_key}, partitions=tuple(partitions)
                )
                for topic_key, partitions in topic_rows
            ]
        ),
        node_endpoints=leaders.endpoints(),
    )


def _partition_row(
    request: Request,
    topic_key: Any,
    partition_index: int,
    outcome: FetchOutcome,
    leaders: CurrentLeaders,
    aborted_rows: tuple[Any, ...] = (),
) -> Any:
    schema = request.schema
    optional_fields: dict[str, object] = {}
    if outcome.diverging_epoch is not None:
        epoch, end_offset = outcome.diverging_epoch
        optional_fields["diverging_epoch"] = schema.EpochEndOffset(
            epoch=epoch, end_offset=end_offset
        )
    if request.api_version >= CURRENT_LEADER_FROM and outcome.error in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
    ):
        optional_fields["current_leader"] = leaders.leader_of(topic_key, partition_index)
    if outcome.preferred_replica >= 0:
        optional_fields["preferred_read_replica"] = outcome.preferred_replica
    records = outcome.records
    return build(
        schema.PartitionData,
        partition_index=partition_index,
        error_code=outcome.error,
        high_watermark=outcome.high_watermark,
        last_stable_offset=outcome.last_stable_offset,
        log_start_offset=outcome.log_start_offset,
        aborted_transactions=aborted_rows or _aborted_transactions(request, outcome),
        records=records[0] if len(records) == 1 else Batches(records, outcome.size_bytes),
        **optional_fields,
    )


def _aborted_transactions(request: Request, outcome: FetchOutcome) -> tuple[Any, ...] | None:
    if outcome.aborted_txns is None:
        return () if outcome.error in _EMPTY_ABORTED else None
    return tuple(_aborted_rows(request, outcome.aborted_txns))


async def _aborted_in_slices(
    request: Request, outcome: FetchOutcome, pace: Pace
) -> tuple[Any, ...]:
    """The rows of a long list; empty for a short one, which takes no slice."""
    aborted_txns = outcome.aborted_txns
    if aborted_txns is None or len(aborted_txns) <= ABORTED_MAX:
        return ()
    rows = []
    for row in _aborted_rows(request, aborted_txns):
        rows.append(row)
        if pace.has_done(1):
            await pace.yield_turn()
    return tuple(rows)


def _aborted_rows(request: Request, aborted_txns: Iterable[AbortedTxn]) -> Iterator[Any]:
    schema = request.schema
    return (
        schema.AbortedTransaction(
            producer_id=aborted_txn.producer_id, first_offset=aborted_txn.first_offset
        )
        for aborted_txn in aborted_txns
    )
