"""DeleteTopics (key 20): by name, from v6 also by topic id.

Versions: 5 error messages, 6 topic ids. Kafka's counterpart: ControllerApis.deleteTopics.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any, Final

from txnsim.api.request import ELEMENTS_PER_CHANGE, Reply, Request, error_fields, invalid
from txnsim.errors import ErrorCode, Rejection
from txnsim.wire.codec import build

API_KEY: Final = 20

BY_STATE_FROM: Final = 6
DISABLED_KNOWN_FROM: Final = 3

NameAndId = tuple[str | None, uuid.UUID | None]

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
    ids_by_alias = _aliases(request, requested_topics)
    aliased_ids = set(ids_by_alias.values())
    topic_counts = Counter(requested_topics)

    def delete(requested_topic: NameAndId) -> Any:
        topic_name, topic_id = requested_topic
        if topic_id is None and topic_name in ids_by_alias:
            return _topic_row(request, (topic_name, ids_by_alias[topic_name]), _NAMED_TWICE)
        return _topic_row(
            request,
            requested_topic,
            _delete(request, requested_topic, is_twice=topic_counts[requested_topic] > 1),
        )

    topics_to_delete = [
        requested_topic
        for requested_topic in topic_counts
        if requested_topic[0] is not None or requested_topic[1] not in aliased_ids
    ]
    topic_rows = await request.map_each(delete, topics_to_delete, weight=ELEMENTS_PER_CHANGE)
    return request.answer(responses=tuple(topic_rows))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every topic."""
    rejection = Rejection(error=error, reason="")
    return request.answer(
        responses=tuple(
            _topic_row(request, requested_topic, rejection)
            for requested_topic in _requested_topics(request)
        )
    )


def _requested_topics(request: Request) -> list[NameAndId]:
    message = request.message
    if request.api_version >= BY_STATE_FROM:
        return [
            (topic.name, None if not topic.topic_id or not topic.topic_id.int else topic.topic_id)
            for topic in message.topics
        ]
    return [(topic_name, None) for topic_name in message.topic_names]


def _aliases(request: Request, requested_topics: list[NameAndId]) -> dict[str, uuid.UUID]:
    """Topics that the request names both by name and by id: id by name."""
    topic_ids = {topic_id for topic_name, topic_id in requested_topics if topic_name is None}
    topic_names = [
        topic_name
        for topic_name, topic_id in requested_topics
        if topic_name is not None and topic_id is None
    ]
    topics = request.broker.metadata.image.topics
    return {
        topic_name: topics[topic_name].topic_id
        for topic_name in topic_names
        if topic_name in topics and topics[topic_name].topic_id in topic_ids
    }


def _delete(
    request: Request, requested_topic: NameAndId, *, is_twice: bool
) -> NameAndId | Rejection:
    """Delete a topic. Return its name and id, or the error."""
    topic_name, topic_id = requested_topic
    metadata = request.broker.metadata
    if topic_name is not None and topic_id is not None:
        return invalid("You may not specify both topic name and topic id.")
    if topic_name is None and topic_id is None:
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
        assert topic_name is not None
        topic_image = image.topics.get(topic_name)
        if topic_image is None:
            return Rejection(
                error=ErrorCode.unknown_topic_or_partition,
                reason="This server does not host this topic-partition.",
            )
        topic = topic_image
    metadata.publish(image.without_topic(topic.name))
    return topic.name, topic.topic_id


def _topic_row(request: Request, requested_topic: NameAndId, outcome: NameAndId | Rejection) -> Any:
    topic_name, topic_id = requested_topic if isinstance(outcome, Rejection) else outcome
    return build(
        request.schema.DeletableTopicResult,
        name=topic_name,
        topic_id=topic_id,
        **error_fields(outcome),
    )
