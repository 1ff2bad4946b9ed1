"""Rights on topics, for APIs that need more than refusing some of them: Metadata, CreateTopics,
DeleteTopics, DescribeTopicPartitions, DescribeCluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from txnsim.api._access import Access
from txnsim.api._partitions import metadata as metadata_api
from txnsim.api.authorization._named_resources import (
    Guard,
    ResourcePart,
    shown_parts,
    split_allowed,
    with_elements,
    with_message,
    with_more_elements,
)
from txnsim.api.request import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, Handler, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.acls import AclOperation
from txnsim.types import INTERNAL_TOPICS
from txnsim.wire import codec

_FORBIDDEN_ERROR: Final = ErrorCode.topic_authorization_failed
_FORBIDDEN_TEXT: Final = "Topic authorization failed."
_SHORT_TEXT: Final = "Authorization failed."


# Metadata, DescribeCluster


async def metadata(request: Request, access: Access, handler: Handler) -> Reply:
    """Topics that may not be described get an error if the request names them, else they are left
    out.
    """
    message = request.message
    is_all = message.topics is None or (
        request.api_version < metadata_api.NONE_MEANS_ALL_FROM and not message.topics
    )
    if is_all:
        answer: Any = await handler.handle(request)
        visible_topics = [
            topic for topic in answer.topics if access.may_topic(AclOperation.DESCRIBE, topic.name)
        ]
        answer = dataclasses.replace(answer, topics=tuple(visible_topics))
        return await _with_operations(request, access, answer)
    denial_of = partial(_metadata_denial, request, access)
    allowed_topics, denied_topics = await split_allowed(request, denial_of, message.topics)
    if not denied_topics:
        return await _with_operations(request, access, await handler.handle(request))
    if not allowed_topics and request.api_version < metadata_api.NONE_MEANS_ALL_FROM:
        # No topics would mean all of them.
        wants_all: Any = await handler.handle(with_elements(request, "topics", []))
        answer = dataclasses.replace(wants_all, topics=())
    else:
        answer = await handler.handle(with_elements(request, "topics", allowed_topics))
    return await _with_operations(
        request,
        access,
        with_more_elements(answer, "topics", tuple(row for _, row in denied_topics)),
    )


def _metadata_denial(request: Request, access: Access, topic: Any) -> Any | None:
    """The row of a topic that the client may not describe or create; None if it may."""
    image = request.broker.image
    topic_id = getattr(topic, "topic_id", None)
    if topic_id is not None and topic_id.int:
        topic_name = image.topic_names.get(topic_id)
        if topic_name is None or access.may_topic(AclOperation.DESCRIBE, topic_name):
            return None
        # A client that knows an id may learn that the topic is forbidden, but not its name.
        return metadata_api.failed_topic(
            request, _FORBIDDEN_ERROR, topic_name=None, topic_id=topic_id
        )
    if not topic.name:
        return None
    if not access.may_topic(AclOperation.DESCRIBE, topic.name):
        return _hide_topic(request, topic.name)
    would_create = (
        topic.name not in image.topics
        and request.broker.settings.auto_create_topics_enable
        and getattr(request.message, "allow_auto_topic_creation", True)
    )
    if would_create and not _may_create(access, topic.name):
        return _hide_topic(request, topic.name)
    return None


def _hide_topic(request: Request, topic_name: str) -> Any:
    failed_topic = metadata_api.failed_topic(request, _FORBIDDEN_ERROR, topic_name=topic_name)
    if topic_name in INTERNAL_TOPICS and hasattr(failed_topic, "is_internal"):
        return dataclasses.replace(failed_topic, is_internal=False)
    return failed_topic


def _may_create(access: Access, topic_name: str) -> bool:
    return access.may_cluster(AclOperation.CREATE) or access.may_topic(
        AclOperation.CREATE, topic_name
    )


async def _with_operations(request: Request, access: Access, answer: Any) -> Any:
    """The answer with the authorized operations on the topics and the cluster."""
    message = request.message
    if getattr(message, "include_topic_authorized_operations", False):
        topics = await request.map_each(partial(_with_topic_bits, access), answer.topics, weight=4)
        answer = dataclasses.replace(answer, topics=tuple(topics))
    if getattr(message, "include_cluster_authorized_operations", False):
        answer = dataclasses.replace(answer, cluster_authorized_operations=_cluster_bits(access))
    return answer


def _with_topic_bits(access: Access, topic: Any) -> Any:
    if topic.error_code is not ErrorCode.none:
        return topic
    operation_bits = access.operation_bits(
        TOPIC_OPERATIONS, lambda operation: access.may_topic(operation, topic.name)
    )
    return dataclasses.replace(topic, topic_authorized_operations=operation_bits)


def _cluster_bits(access: Access) -> int:
    """Bit field of authorized operations on the cluster; 0 for a client that may not describe
    it.
    """
    if not access.may_cluster(AclOperation.DESCRIBE):
        return 0
    return access.operation_bits(CLUSTER_OPERATIONS, access.may_cluster)


async def describe_cluster(request: Request, access: Access, handler: Handler) -> Reply:
    """Every client may ask; the answer has the client's own authorized operations."""
    answer: Any = await handler.handle(request)
    is_failed = answer.error_code is not ErrorCode.none
    return answer if is_failed else await _with_operations(request, access, answer)


# CreateTopics, DeleteTopics


def _creation_error(_request: Request, access: Access, topic: Any) -> ErrorCode | None:
    return None if _may_create(access, topic.name) else _FORBIDDEN_ERROR


def _show_created(request: Request, access: Access, topic: Any) -> Any:
    """The created topic; its configs are shown only with DESCRIBE_CONFIGS."""
    if topic.error_code is _FORBIDDEN_ERROR:
        return dataclasses.replace(topic, error_message=_SHORT_TEXT)
    if topic.error_code is not ErrorCode.none or request.api_version < 5:
        return topic
    if access.may_topic(AclOperation.DESCRIBE_CONFIGS, topic.name):
        return topic
    return dataclasses.replace(
        topic,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
        topic_config_error_code=_FORBIDDEN_ERROR,
    )


async def delete_topics(request: Request, access: Access, handler: Handler) -> Reply:
    """Require DELETE on the cluster or on the topic. The answer gives the name of a topic that was
    requested by id only with DESCRIBE.
    """
    if access.may_cluster(AclOperation.DELETE):
        return await handler.handle(request)
    topics_field = "topics" if hasattr(request.message, "topics") else "topic_names"
    denial_of = partial(_deletion_denial, request, access)
    allowed_topics, denied_topics = await split_allowed(
        request, denial_of, getattr(request.message, topics_field)
    )
    if not denied_topics:
        return await handler.handle(request)
    answer = await handler.handle(with_elements(request, topics_field, allowed_topics))
    return with_more_elements(answer, "responses", tuple(dict(denied_topics).values()))


def _deletion_denial(request: Request, access: Access, topic: Any) -> Any | None:
    image = request.broker.metadata.image
    named_topic = topic if isinstance(topic, str) else topic.name
    topic_id = getattr(topic, "topic_id", None)  # the zero id is read as None
    if named_topic is not None and topic_id is not None:
        return None  # the handler refuses it
    topic_name = named_topic
    if topic_id is not None:
        topic_name = image.topic_names.get(topic_id)
    if topic_name is None:
        return None
    is_seen = access.may_topic(AclOperation.DESCRIBE, topic_name)
    if is_seen and topic_name not in image.topics:
        return None
    if is_seen and access.may_topic(AclOperation.DELETE, topic_name):
        return None
    return codec.build(
        request.schema.DeletableTopicResult,
        name=topic_name if named_topic is not None or is_seen else None,
        topic_id=topic_id,
        error_code=_FORBIDDEN_ERROR,
        error_message=_FORBIDDEN_TEXT,
    )


# DescribeTopicPartitions


async def describe_topic_partitions(request: Request, access: Access, handler: Handler) -> Reply:
    """Forbidden topics get an error if the request names them, else they are left out."""
    message = request.message
    is_describable = partial(access.may_topic, AclOperation.DESCRIBE)
    denied_names: set[str] = set()
    if message.topics:
        denied_names = {
            topic.name for topic in message.topics if topic.name and not is_describable(topic.name)
        }
        allowed_topics = [topic for topic in message.topics if topic.name not in denied_names]
    else:
        schema = codec.request_schema(request.api_key, request.api_version)
        topic_names = filter(is_describable, sorted(request.broker.image.topics))
        allowed_topics = [schema.TopicRequest(name=topic_name) for topic_name in topic_names]
    refused: Any = handler.refuse(
        with_message(
            request,
            dataclasses.replace(
                message,
                topics=tuple(topic for topic in message.topics if topic.name in denied_names),
            ),
        ),
        _FORBIDDEN_ERROR,
    )
    allowed_request = _from_cursor(request, allowed_topics)
    if not allowed_request.message.topics:
        # To the handler no topics would mean all of them.
        return refused
    answer: Any = await handler.handle(allowed_request)
    shown_topics = tuple(_with_topic_bits(access, topic) for topic in answer.topics)
    return dataclasses.replace(answer, topics=(*shown_topics, *refused.topics))


def _from_cursor(request: Request, allowed_topics: list[Any]) -> Request:
    """The request for these topics. If the cursor of a request for all topics points at one that is
    deleted or forbidden now, the answer continues with the next.
    """
    message = request.message
    cursor = message.cursor
    if message.topics or cursor is None or cursor.partition_index < 0:
        return with_elements(request, "topics", allowed_topics)
    remaining_topics = [topic for topic in allowed_topics if topic.name >= cursor.topic_name]
    if remaining_topics and remaining_topics[0].name == cursor.topic_name:
        return with_elements(request, "topics", remaining_topics)
    return with_message(
        request, dataclasses.replace(message, topics=tuple(remaining_topics), cursor=None)
    )


_CREATED: Final = ResourcePart(
    request_field="topics",
    answer_field="topics",
    error=_creation_error,
    has_entries=True,
    show_element=_show_created,
)
GUARDS: Final[Mapping[int, Guard]] = {
    3: metadata,
    19: partial(shown_parts, resource_part=_CREATED),  # CreateTopics
    20: delete_topics,
    60: describe_cluster,
    75: describe_topic_partitions,
}
