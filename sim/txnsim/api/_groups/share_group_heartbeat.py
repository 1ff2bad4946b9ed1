"""ShareGroupHeartbeat (key 76): join, stay in, and leave a share group (KIP-932).

Version 1 alone. What a heartbeat leaves out is as before. Kafka's counterpart:
KafkaApis.handleShareGroupHeartbeat.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from txnsim.api._error_texts import reason_of
from txnsim.api._groups.consumer_group_heartbeat import by_topic
from txnsim.api.request import NO_THROTTLE, Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.sharing.share import ShareHeartbeat
from txnsim.metadata.image import SHARE_VERSION

KEY: Final = 76


async def handle(request: Request) -> Reply:
    """Decide it; answered when the group's records are replicated."""
    if not has_share_groups(request):
        return refuse(request, ErrorCode.unsupported_version)
    message = request.message
    if not message.member_id:  # blanks get as far as the coordinator, which says why
        return refuse(request, ErrorCode.invalid_request)
    outcome = await request.broker.groups.share_heartbeat(
        ShareHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            rack_id=message.rack_id,
            topic_names=message.subscribed_topic_names,
            client_id=request.client_id or "",
            client_host=request.client_host,
        ),
        request.pace_of(len(message.subscribed_topic_names or ())),
    )
    if isinstance(outcome, Rejection):
        return _failed(request, outcome.error, reason_of(outcome))
    schema, assignment = request.schema, outcome.assignment
    return request.answer(
        error_code=ErrorCode.none,
        error_message=None,
        member_id=outcome.member_id,
        member_epoch=outcome.member_epoch,
        heartbeat_interval=timedelta(milliseconds=outcome.heartbeat_interval_ms),
        assignment=None
        if assignment is None
        else schema.Assignment(topic_partitions=by_topic(schema, assignment)),
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for the whole request."""
    return _failed(request, error, None)


def has_share_groups(request: Request) -> bool:
    """Whether the cluster's level of ``share.version`` has share groups; their APIs are advertised
    whatever that is.
    """
    return request.broker.image.features.get(SHARE_VERSION, 0) > 0


def _failed(request: Request, error: ErrorCode, reason: str | None) -> Reply:
    return request.answer(
        error_code=error,
        error_message=reason,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=NO_THROTTLE,
        assignment=None,
    )
