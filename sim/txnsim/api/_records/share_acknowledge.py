"""ShareAcknowledge (key 79): a member of a share group acknowledges records (KIP-932).

Versions: 1 the first stable one, 2 renews locks (KIP-1222) and tells how long they last. It
continues a share session, or ends it with epoch -1; only a ShareFetch opens one. Kafka's
counterpart: KafkaApis.handleShareAcknowledgeRequest.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api._leaders import CurrentLeaders
from txnsim.api._records.share_requests import (
    begin_acknowledging,
    by_topic,
    current_leader,
    member_of,
    partition_names,
    refusal,
    requested_partitions,
)
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.share.sessions import FINAL_EPOCH
from txnsim.types import uuid_from

API_KEY: Final = 79


async def handle(request: Request) -> Reply:
    """Apply the acknowledgements of each partition; answer once they are persisted."""
    error = refusal(request)
    if error is not None:
        return refuse(request, error)
    share_fetch_path = request.broker.share_fetching
    member, session_epoch = member_of(request), request.message.share_session_epoch
    rejection = share_fetch_path.sessions.acknowledge(member, session_epoch)
    if rejection is not None:
        return refuse(request, rejection.error)
    request_acknowledgements = await begin_acknowledging(request)
    if request_acknowledgements.has_tripped:
        return refuse(request, ErrorCode.unknown_server_error)
    rejection_by_partition = await request_acknowledgements.answers()
    if session_epoch == FINAL_EPOCH:
        share_fetch_path.end(member)
    leaders = CurrentLeaders(request)
    schema = request.schema
    rows_by_topic: dict[str, list[Any]] = {}
    for shared_partition, partition_rejection in rejection_by_partition.items():
        error_code = (
            ErrorCode.none if partition_rejection is None else ErrorCode(partition_rejection.error)
        )
        rows_by_topic.setdefault(shared_partition.topic_id, []).append(
            schema.PartitionData(
                partition_index=shared_partition.partition,
                error_code=error_code,
                error_message=None
                if partition_rejection is None
                else partition_rejection.reason or None,
                current_leader=current_leader(
                    request,
                    leaders,
                    uuid_from(shared_partition.topic_id),
                    shared_partition.partition,
                    error_code,
                ),
            )
        )
        await request.note_done(1)
    settings = share_fetch_path.shares.settings_of(member.group_id)
    return request.answer(
        error_code=ErrorCode.none,
        acquisition_lock_timeout=settings.record_lock_duration_ms,
        responses=await by_topic(request, schema.ShareAcknowledgeTopicResponse, rows_by_topic),
        node_endpoints=leaders.endpoints(),
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error as its top-level error code."""
    return request.answer(
        error_code=error, acquisition_lock_timeout=0, responses=(), node_endpoints=()
    )


def subject(request: Request) -> Subject:
    """For fault rules: partitions with acknowledgements."""
    return Subject(
        partitions=partition_names(requested_partitions(request, request.message.topics))
    )
