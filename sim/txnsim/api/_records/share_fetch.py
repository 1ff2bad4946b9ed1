"""ShareFetch (key 78): acquire records for a member of a share group (KIP-932).

Versions: 1 the first stable one, 2 can limit the number of records strictly (KIP-1206) and renew
locks (KIP-1222). A request may also acknowledge earlier records. The request with epoch 0 opens the
member's share session on this broker, -1 ends it; in between, a request names only what has
changed. Kafka's counterpart: KafkaApis.handleShareFetchRequest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from txnsim.api._leaders import CurrentLeaders
from txnsim.api._records.share_requests import (
    Answers,
    access_error,
    begin_acknowledging,
    by_topic,
    current_leader,
    is_renewal,
    member_of,
    partition_names,
    refusal,
    requested_partitions,
)
from txnsim.api.request import Reply, Request
from txnsim.broker.share_fetch import Outcomes, ShareFetchAnswer, ShareFetchCommand
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.share.commands import AcquireMode
from txnsim.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionNews,
    SharedPartition,
    ShareSession,
)
from txnsim.types import TopicPartition, uuid_from
from txnsim.wire.values import Batches, duration_ms

API_KEY: Final = 78

DEVIATIONS: Final = (
    "All share sessions of a broker have at most fetch_session_partitions_max partitions; a "
    "request that would bring more is refused with SHARE_SESSION_LIMIT_REACHED.",
)

_MODES: Final = frozenset(AcquireMode)
_NO_RECORDS: Final = ShareFetchAnswer()


async def handle(request: Request) -> Reply:
    """Apply acknowledgements, then acquire records for the member, or wait for some."""
    error = refusal(request) or _renewal_complaint(request)
    if error is not None:
        return refuse(request, error)
    share_fetch_path = request.broker.share_fetching
    message = request.message
    session_epoch = message.share_session_epoch
    session = _session(request)
    if isinstance(session, Rejection):
        if session.error is ErrorCode.share_session_limit_reached:
            await share_fetch_path.refuse_after_wait(session.error, duration_ms(message.max_wait))
        return refuse(request, session.error)
    request_acknowledgements = (
        await begin_acknowledging(request) if _has_acknowledgements(request) else None
    )
    if request_acknowledgements is not None and request_acknowledgements.has_tripped:
        return refuse(request, ErrorCode.unknown_server_error)
    answer_by_partition: Outcomes | None = {}
    if session_epoch != FINAL_EPOCH and not is_renewal(request):
        answer_by_partition = await _fetch_partitions(request, dict(session.topics))
    acknowledged_partitions = (
        {} if request_acknowledgements is None else await request_acknowledgements.answers()
    )
    if answer_by_partition is None:
        return refuse(request, ErrorCode.unknown_server_error)
    listed_partitions = session.conclude(
        session_epoch,
        {
            shared_partition: PartitionNews(has_records=outcome.size > 0, error=outcome.error)
            for shared_partition, outcome in answer_by_partition.items()
        },
    )
    if isinstance(listed_partitions, Rejection):
        reply = await _answer(request, listed_partitions.error, {}, acknowledged_partitions)
    else:
        listed_outcomes = {
            shared_partition: answer_by_partition[shared_partition]
            for shared_partition in listed_partitions
        }
        reply = await _answer(request, ErrorCode.none, listed_outcomes, acknowledged_partitions)
    if session_epoch == FINAL_EPOCH:
        share_fetch_path.end(member_of(request))
    return reply


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error as its top-level error code."""
    return request.answer(
        error_code=error, acquisition_lock_timeout=0, responses=(), node_endpoints=()
    )


def subject(request: Request) -> Subject:
    """For fault rules: the partitions that the request names, and those of its session."""
    topic_partitions = dict.fromkeys(
        partition_names(requested_partitions(request, request.message.topics))
    )
    if refusal(request) is None:
        session = request.broker.share_fetching.sessions.find(member_of(request))
        if isinstance(session, ShareSession):
            topic_partitions.update(
                dict.fromkeys(
                    TopicPartition(topic_name or "", shared_partition.partition)
                    for shared_partition, topic_name in session.topics.items()
                )
            )
    return Subject(partitions=tuple(topic_partitions))


# Sessions


def _renewal_complaint(request: Request) -> ErrorCode | None:
    """The error of a request that renews locks and fetches as well."""
    message = request.message
    limit_values = (
        *(message.max_bytes, message.min_bytes, message.max_records),
        duration_ms(message.max_wait),
    )
    return ErrorCode.invalid_request if is_renewal(request) and any(limit_values) else None


def _has_acknowledgements(request: Request) -> bool:
    return any(
        partition_row.acknowledgement_batches
        for topic in request.message.topics
        for partition_row in topic.partitions
    )


def _session(request: Request) -> ShareSession | Rejection:
    """Open, continue or look up the share session of the request."""
    share_fetch_path = request.broker.share_fetching
    sessions, message, member_key = share_fetch_path.sessions, request.message, member_of(request)
    epoch = message.share_session_epoch
    if epoch == FINAL_EPOCH:
        return sessions.find(member_key)
    topic_name_by_partition = {
        shared_partition: topic_name
        for shared_partition, (topic_name, _) in requested_partitions(
            request, message.topics
        ).items()
    }
    settings = request.broker.metadata.settings
    session = sessions.find(member_key)
    session_topics = session.topics if isinstance(session, ShareSession) else {}
    new_count = sum(
        shared_partition not in session_topics for shared_partition in topic_name_by_partition
    )
    if new_count and sessions.partition_count + new_count > settings.fetch_session_partitions_max:
        return Rejection(
            error=ErrorCode.share_session_limit_reached,
            reason=f"share sessions have {sessions.partition_count} partitions, "
            f"{new_count} are new",
        )
    if epoch == INITIAL_EPOCH:
        request.link.call_at_close(share_fetch_path.forget_connection)
        share_fetch_path.begin_session(member_key)
        return sessions.open(
            member_key,
            request.link,
            topic_name_by_partition,
            session_limit=settings.group_share_max_share_sessions,
            has_acknowledgements=_has_acknowledgements(request),
        )
    forgotten_partitions = requested_partitions(request, message.forgotten_topics_data)
    return sessions.resume(member_key, epoch, topic_name_by_partition, forgotten_partitions)


# Reading


async def _fetch_partitions(
    request: Request, topics_by_partition: Mapping[SharedPartition, str | None]
) -> Outcomes | None:
    """Acquire records from the partitions of the session. None if the whole request fails: unknown
    acquire mode or, up to 4.3, unknown topic.
    """
    message = request.message
    refused_outcomes: Outcomes = {}
    topic_partitions: dict[SharedPartition, TopicPartition] = {}

    def look(partition_and_name: tuple[SharedPartition, str | None]) -> None:
        shared_partition, topic_name = partition_and_name
        error = access_error(request, topic_name, shared_partition.partition)
        if error is None:
            topic_partitions[shared_partition] = TopicPartition(
                topic_name or "", shared_partition.partition
            )
        else:
            refused_outcomes[shared_partition] = ShareFetchAnswer(error=error)

    await request.map_each(look, tuple(topics_by_partition.items()), weight=2)
    is_strict = not request.broker.release.rules.share_fetches_tell_unknown_topics
    if is_strict and None in topics_by_partition.values():
        return None
    if not topic_partitions:
        return refused_outcomes
    acquire_mode = getattr(message, "share_acquire_mode", AcquireMode.BATCH_OPTIMIZED)
    if acquire_mode not in _MODES:
        return None
    command = ShareFetchCommand(
        member=member_of(request),
        session_epoch=message.share_session_epoch,
        max_wait_ms=duration_ms(message.max_wait),
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        max_records=message.max_records,
        batch_size=message.batch_size,
        mode=AcquireMode(acquire_mode),
        partitions=topic_partitions,
    )
    pace = request.pace_of(len(topic_partitions))
    return {**await request.broker.share_fetching.fetch(command, pace), **refused_outcomes}


# Answering


async def _answer(
    request: Request,
    error: ErrorCode,
    answer_by_partition: Mapping[SharedPartition, ShareFetchAnswer],
    ack_rejections: Answers,
) -> Reply:
    """Build the answer: topics with acquired records, and errors of acknowledgements."""
    schema = request.schema
    leaders = CurrentLeaders(request)
    rows_by_topic: dict[str, list[Any]] = {}
    for shared_partition in dict.fromkeys((*answer_by_partition, *ack_rejections)):
        outcome = answer_by_partition.get(shared_partition, _NO_RECORDS)
        rejection = ack_rejections.get(shared_partition)
        rows_by_topic.setdefault(shared_partition.topic_id, []).append(
            schema.PartitionData(
                partition_index=shared_partition.partition,
                error_code=outcome.error,
                error_message=None,
                acknowledge_error_code=0 if rejection is None else int(rejection.error),
                acknowledge_error_message=None if rejection is None else rejection.reason or None,
                current_leader=current_leader(
                    request,
                    leaders,
                    uuid_from(shared_partition.topic_id),
                    shared_partition.partition,
                    outcome.error,
                ),
                records=_records(outcome),
                acquired_records=tuple(
                    schema.AcquiredRecords(
                        first_offset=batch.first_offset,
                        last_offset=batch.last_offset,
                        delivery_count=batch.delivery_count,
                    )
                    for batch in outcome.ranges
                ),
            )
        )
        await request.note_done(1)
    shares = request.broker.share_fetching.shares
    settings = shares.settings_of(request.message.group_id)
    return request.answer(
        error_code=error,
        acquisition_lock_timeout=settings.record_lock_duration_ms,
        responses=await by_topic(request, schema.ShareFetchableTopicResponse, rows_by_topic),
        node_endpoints=leaders.endpoints(),
    )


def _records(fetch_answer: ShareFetchAnswer) -> bytes | Batches:
    records = fetch_answer.records
    if not records:
        return b""
    return records[0] if len(records) == 1 else Batches(records, fetch_answer.size)
