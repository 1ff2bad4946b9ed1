"""DeleteTopics (key 20): by name, from v6 also by topic id.

Versions: 5 error messages, 6 topic ids. Kafka's counterpart: ControllerApis.deleteTopics.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any, Final

from txnsim.api.request import CHANGE_WEIGHT, Reply, Request, error_fields, invalid
from txnsim.errors import ErrorCode, Rejection
from txnsim.wire.codec import build

KEY: Final = 20

BY_STATE_FROM: Final = 6
DISABLED_KNOWN_FROM: Final = 3

Wanted = tuple[str | None, uuid.UUID | None]

_NAMED_TWICE: Final = invalid("The provided topic name maps to an ID that was already supplied.")


async def handle(request: Request) -> Reply:
    """Delete each topic by itself."""
    if not request.broker.metadata.settings.delete_topic_enable:
        # ControllerApis.deleteTopics throws before it looks at any topic: no word to any of them.
        is_known = request.api_version >= DISABLED_KNOWN_FROM
        return refuse(
            request,
            ErrorCode.topic_deletion_disabled if is_known else ErrorCode.invalid_request,
        )
    if request.has_no_time:
        return refuse(request, ErrorCode.request_timed_out)
    requested_topics = _requested_topics(request)
    aliases = _aliases(request, requested_topics)
    aliased = set(aliases.values())
    times = Counter(requested_topics)

    def delete(requested_topic: Wanted) -> Any:
        name, topic_id = requested_topic
        if topic_id is None and name in aliases:
            return _result(request, (name, aliases[name]), _NAMED_TWICE)
        return _result(
            request,
            requested_topic,
            _delete(request, requested_topic, is_twice=times[requested_topic] > 1),
        )

    named = [
        requested_topic
        for requested_topic in times
        if requested_topic[0] is not None or requested_topic[1] not in aliased
    ]
    results = await request.map_each(delete, named, weight=CHANGE_WEIGHT)
    return request.answer(responses=tuple(results))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every topic."""
    rejection = Rejection(error=error, reason="")
    return request.answer(
        responses=tuple(
            _result(request, requested_topic, rejection)
            for requested_topic in _requested_topics(request)
        )
    )


def _requested_topics(request: Request) -> list[Wanted]:
    message = request.message
    if request.api_version >= BY_STATE_FROM:
        return [
            (topic.name, None if not topic.topic_id or not topic.topic_id.int else topic.topic_id)
            for topic in message.topics
        ]
    return [(name, None) for name in message.topic_names]


def _aliases(request: Request, requested_topics: list[Wanted]) -> dict[str, uuid.UUID]:
    """Topics that the request names both by name and by id: id by name."""
    ids = {topic_id for name, topic_id in requested_topics if name is None}
    named = [name for name, topic_id in requested_topics if name is not None and topic_id is None]
    topics = request.broker.metadata.image.topics
    return {
        name: topics[name].topic_id
        for name in named
        if name in topics and topics[name].topic_id in ids
    }


def _delete(request: Request, requested_topic: Wanted, *, is_twice: bool) -> Wanted | Rejection:
    """The topic to delete, by name and id."""
    name, topic_id = requested_topic
    metadata = request.broker.metadata
    if name is not None and topic_id is not None:
        return invalid("You may not specify both topic name and topic id.")
    if name is None and topic_id is None:
        return invalid("Neither topic name nor id were specified.")
    if is_twice:
        return invalid("Duplicate topic name." if topic_id is None else "Duplicate topic id.")
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
        topic_image = image.topics.get(name)
        if topic_image is None:
            return Rejection(
                error=ErrorCode.unknown_topic_or_partition,
                reason="This server does not host this topic-partition.",
            )
        topic = topic_image
    metadata.publish(image.without_topic(topic.name))
    return topic.name, topic.topic_id


def _result(request: Request, requested_topic: Wanted, outcome: Wanted | Rejection) -> Any:
    name, topic_id = requested_topic if isinstance(outcome, Rejection) else outcome
    return build(
        request.schema.DeletableTopicResult,
        name=name,
        topic_id=topic_id,
        **error_fields(outcome),
    )
