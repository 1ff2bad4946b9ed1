"""ConsumerGroupHeartbeat (key 68): join, stay in, and leave a group that the coordinator assigns.

Versions: 1 subscribes by regular expression and has clients choose their member id. A field that a
heartbeat leaves out has not changed. Kafka's counterpart: KafkaApis.handleConsumerGroupHeartbeat.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import Any, Final

from txnsim.api._error_texts import reason_of
from txnsim.api.request import NO_THROTTLE, Reply, Request, may_describe
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import ConsumerHeartbeat, HeartbeatReply
from txnsim.group.consumer_records import TopicIdPartition
from txnsim.metadata.image import GROUP_VERSION

API_KEY: Final = 68

MEMBER_ID_REQUIRED_FROM: Final = 1


async def handle(request: Request) -> Reply:
    """Process the heartbeat; answered once the group's records are replicated."""
    if not is_enabled(request):
        return refuse(request, ErrorCode.unsupported_version)
    message = request.message
    owned_partitions = message.topic_partitions
    outcome = await request.broker.groups.consumer_heartbeat(
        ConsumerHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            instance_id=message.instance_id,
            rack_id=message.rack_id,
            rebalance_timeout_ms=round(message.rebalance_timeout.total_seconds() * 1_000),
            topic_names=message.subscribed_topic_names,
            topic_regex=getattr(message, "subscribed_topic_regex", None),
            server_assignor=message.server_assignor,
            owned_partitions=None
            if owned_partitions is None
            else frozenset(
                (topic.topic_id, index) for topic in owned_partitions for index in topic.partitions
            ),
            client_id=request.client_id or "",
            client_host=request.client_host,
            may_describe=may_describe(request),
            member_id_required=request.api_version >= MEMBER_ID_REQUIRED_FROM,
        ),
        request.pace_of(len(message.subscribed_topic_names or ())),
    )
    return build_reply(request, outcome)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for the whole request."""
    return build_error_reply(request, error, None)


def is_enabled(request: Request) -> bool:
    """Whether the finalized level of ``group.version`` enables the protocol; the API is advertised
    either way.
    """
    return request.broker.image.features.get(GROUP_VERSION, 0) > 0


def by_topic(schema: Any, partitions: tuple[TopicIdPartition, ...]) -> tuple[Any, ...]:
    """Group sorted partitions by topic id."""
    return tuple(
        schema.TopicPartitions(
            topic_id=topic_id, partitions=tuple(index for _, index in ids_and_indexes)
        )
        for topic_id, ids_and_indexes in groupby(
            partitions, key=lambda id_and_index: id_and_index[0]
        )
    )


def build_reply(request: Request, outcome: HeartbeatReply | Rejection) -> Reply:
    """Build the answer to a heartbeat; consumer groups and share groups have the same fields."""
    if isinstance(outcome, Rejection):
        return build_error_reply(request, outcome.error, reason_of(outcome))
    schema = request.schema
    assignment = outcome.assignment
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


def build_error_reply(request: Request, error: ErrorCode, reason: str | None) -> Reply:
    """The answer with an error and no assignment."""
    return request.answer(
        error_code=error,
        error_message=reason,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=NO_THROTTLE,
        assignment=None,
    )
