"""DeleteTopics (key 20): by name, from v6 also by topic id.

Versions: 5 error messages, 6 topic ids. Kafka's counterpart: ControllerApis.deleteTopics.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from sim.api.request import Reply, Request
from sim.errors import ErrorCode, Rejection
from sim.wire.codec import build

KEY: Final = 20
VERSIONS: Final = (1, 6)

BY_STATE_FROM: Final = 6
DISABLED_KNOWN_FROM: Final = 3

Wanted = tuple[str | None, uuid.UUID | None]


async def handle(request: Request) -> Reply:
    """Delete each topic by itself."""
    wanted = _wanted(request)
    return request.answer(
        responses=tuple(_result(request, one, _delete(request, one, wanted)) for one in wanted)
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every topic."""
    rejection = Rejection(error=error, reason=error.name)
    return request.answer(
        responses=tuple(_result(request, one, rejection) for one in _wanted(request))
    )


def _wanted(request: Request) -> list[Wanted]:
    message = request.message
    if request.api_version >= BY_STATE_FROM:
        return [
            (topic.name, None if not topic.topic_id or not topic.topic_id.int else topic.topic_id)
            for topic in message.topics
        ]
    return [(name, None) for name in message.topic_names]


def _delete(request: Request, one: Wanted, wanted: list[Wanted]) -> Wanted | Rejection:
    """What was deleted, by name and id."""
    name, topic_id = one
    metadata = request.broker.metadata
    if not metadata.settings.delete_topic_enable:
        error = (
            ErrorCode.topic_deletion_disabled
            if request.api_version >= DISABLED_KNOWN_FROM
            else ErrorCode.invalid_request
        )
        return Rejection(error=error, reason="Topic deletion is disabled.")
    if name is not None and topic_id is not None:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason="You may not specify both topic name and topic id.",
        )
    if name is None and topic_id is None:
        return Rejection(
            error=ErrorCode.invalid_request, reason="Neither topic name nor id were specified."
        )
    if wanted.count(one) > 1:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason="Duplicate topic name." if topic_id is None else "Duplicate topic id.",
        )
    image = metadata.image
    if topic_id is not None:
        topic = image.topic_by_id(topic_id)
        if topic is None:
            return Rejection(
                error=ErrorCode.unknown_topic_id,
                reason="This server does not host this topic ID.",
            )
    else:
        assert name is not None
        found = image.topics.get(name)
        if found is None:
            return Rejection(
                error=ErrorCode.unknown_topic_or_partition,
                reason="This server does not host this topic-partition.",
            )
        topic = found
    metadata.publish(image.without_topic(topic.name))
    return topic.name, topic.topic_id


def _result(request: Request, one: Wanted, outcome: Wanted | Rejection) -> Any:
    name, topic_id = one if isinstance(outcome, Rejection) else outcome
    return build(
        request.schema.DeletableTopicResult,
        name=name,
        topic_id=topic_id,
        error_code=outcome.error if isinstance(outcome, Rejection) else ErrorCode.none,
        error_message=outcome.reason if isinstance(outcome, Rejection) else None,
    )
