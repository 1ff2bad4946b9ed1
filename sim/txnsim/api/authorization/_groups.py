"""Rights on groups, for APIs whose answers leave out what the client may not see."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from itertools import compress
from typing import Any, Final

import msgspec

from txnsim.api._access import TEXTS, Access
from txnsim.api._groups import alter_share_group_offsets as alter_offsets_api
from txnsim.api._groups import delete_share_group_offsets as delete_offsets_api
from txnsim.api._groups import describe_share_group_offsets as share_offsets_api
from txnsim.api._groups import offset_delete as offset_delete_api
from txnsim.api._groups import streams_group_describe as streams_describe_api
from txnsim.api._groups.describe_groups import group_operations
from txnsim.api.authorization._named_resources import (
    Guard,
    ResourcePart,
    by_id,
    shown_parts,
    split_allowed,
    with_elements,
    with_more_elements,
)
from txnsim.api.request import Handler, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.group.sharing.share_topics import PartitionError, TopicOutcome
from txnsim.security.acls import AclOperation, ResourceType

_TOPICS_HIDDEN: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)
_STREAMS_TOPICS_HIDDEN: Final = (
    "The described group uses topics that the client is not authorized to describe."
)
_FORBIDDEN_ERROR: Final = ErrorCode.topic_authorization_failed


async def list_groups(request: Request, access: Access, handler: Handler) -> Reply:
    """List all groups with DESCRIBE on the cluster, else the groups that the client may
    describe.
    """
    answer: Any = await handler.handle(request)
    if access.may_cluster(AclOperation.DESCRIBE):
        return answer
    visible_flags = await request.map_each(
        lambda group: access.may_group(AclOperation.DESCRIBE, group.group_id),
        answer.groups,
        weight=4,
    )
    return dataclasses.replace(answer, groups=tuple(compress(answer.groups, visible_flags)))


def _with_operations(request: Request, access: Access, group: Any) -> Any:
    """The group with its authorized operations, if the request asks for them."""
    wants_operations = getattr(request.message, "include_authorized_operations", False)
    if not wants_operations or group.error_code is not ErrorCode.none:
        return group
    requested_operations = group_operations(request)
    operation_bits = access.operation_bits(
        requested_operations, lambda operation: access.may_group(operation, group.group_id)
    )
    return dataclasses.replace(group, authorized_operations=operation_bits)


def _described_with_topics(request: Request, access: Access, group: Any) -> Any:
    """The group, or an error if one of its topics may not be described."""
    topic_names = {
        topic.topic_name
        for member in group.members
        for assignment in (
            member.assignment,
            getattr(member, "target_assignment", member.assignment),  # share groups have none
        )
        for topic in assignment.topic_partitions
    }
    if all(access.may_topic(AclOperation.DESCRIBE, topic_name) for topic_name in topic_names):
        return _with_operations(request, access, group)
    return dataclasses.replace(
        group,
        error_code=_FORBIDDEN_ERROR,
        error_message=_TOPICS_HIDDEN,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=-(2**31),
    )


def _described_streams_group(request: Request, access: Access, group: Any) -> Any:
    """The streams group, or an error if a topic of its topology may not be described."""
    subtopologies = group.topology.subtopologies if group.topology is not None else ()
    topic_names = {
        topic_name
        for subtopology in subtopologies
        for topic_name in (
            *subtopology.source_topics,
            *subtopology.repartition_sink_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
            *(topic.name for topic in subtopology.state_changelog_topics),
        )
    }
    if all(access.may_topic(AclOperation.DESCRIBE, topic_name) for topic_name in topic_names):
        return _with_operations(request, access, group)
    failure = streams_describe_api.failed_group(request, group.group_id, _FORBIDDEN_ERROR)
    return dataclasses.replace(failure, error_message=_STREAMS_TOPICS_HIDDEN)


async def consumer_group_heartbeat(request: Request, access: Access, handler: Handler) -> Reply:
    """Require DESCRIBE on every topic that the member subscribes to by name."""
    topic_names = request.message.subscribed_topic_names or ()
    if all(access.may_topic(AclOperation.DESCRIBE, topic_name) for topic_name in topic_names):
        return await handler.handle(request)
    return handler.refuse(request, _FORBIDDEN_ERROR)


async def offset_delete(request: Request, access: Access, handler: Handler) -> Reply:
    """Require READ on each topic. A refused topic does not fail the whole request."""
    allowed_topics, denied_topics = await split_allowed(
        request,
        lambda topic: None if access.may_topic(AclOperation.READ, topic.name) else _FORBIDDEN_ERROR,
        request.message.topics,
    )
    answer: Any
    if denied_topics and not allowed_topics:
        # no need to ask the coordinator
        answer = request.answer(error_code=ErrorCode.none, topics=())
    else:
        answer = await handler.handle(with_elements(request, "topics", allowed_topics))
    if answer.error_code is not ErrorCode.none:
        return answer
    refused_rows = (
        (
            topic.name,
            [(partition.partition_index, _FORBIDDEN_ERROR) for partition in topic.partitions],
        )
        for topic, _ in denied_topics
    )
    return with_more_elements(answer, "topics", offset_delete_api.topics_of(request, refused_rows))


async def share_group_offsets(request: Request, access: Access, handler: Handler) -> Reply:
    """Require DESCRIBE on each group and each topic. If the request names no topics, those that may
    not be described are left out.
    """
    groups = request.message.groups
    permissions = await request.map_each(
        lambda group: access.may_group(AclOperation.DESCRIBE, group.group_id), groups, weight=4
    )
    allowed_groups = [
        group
        if group.topics is None
        else dataclasses.replace(group, topics=_visible_topics(access, group))
        for group in compress(groups, permissions)
    ]
    answer: Any = await handler.handle(with_elements(request, "groups", allowed_groups))
    described_groups = iter(answer.groups)
    denial_error = ErrorCode.group_authorization_failed
    visible_groups = [
        _visible_offsets(request, access, group, next(described_groups))
        if is_allowed
        else share_offsets_api.failed_group(request, group.group_id, denial_error, None)
        for group, is_allowed in zip(groups, permissions, strict=True)
    ]
    return dataclasses.replace(answer, groups=tuple(visible_groups))


def _visible_topics(access: Access, group: Any) -> tuple[Any, ...]:
    """The topics of a group that the client may describe."""
    return tuple(
        topic for topic in group.topics if access.may_topic(AclOperation.DESCRIBE, topic.topic_name)
    )


def _visible_offsets(request: Request, access: Access, requested_group: Any, group: Any) -> Any:
    """The group without forbidden topics, or with an error on those that the request names."""
    if group.error_code is not ErrorCode.none:
        return group
    if requested_group.topics is None:
        return dataclasses.replace(group, topics=_visible_topics(access, group))
    refused_topics = tuple(
        share_offsets_api.refused_topic(request, topic, _FORBIDDEN_ERROR)
        for topic in requested_group.topics
        if not access.may_topic(AclOperation.DESCRIBE, topic.topic_name)
    )
    return dataclasses.replace(group, topics=(*group.topics, *refused_topics))


async def alter_share_offsets(request: Request, access: Access, handler: Handler) -> Reply:
    """Require READ on each topic. A refused topic does not fail the whole request."""
    allowed_topics, denied_topics = await split_allowed(
        request, partial(_unreadable_topic, access), request.message.topics
    )
    answer: Any = await handler.handle(with_elements(request, "topics", allowed_topics))
    if answer.error_code is not ErrorCode.none:
        return answer
    topics = [topic for topic, _ in denied_topics]
    refused_rows = await alter_offsets_api.refused_topics(request, topics, _FORBIDDEN_ERROR)
    return dataclasses.replace(answer, responses=(*refused_rows, *answer.responses))


async def delete_share_offsets(request: Request, access: Access, handler: Handler) -> Reply:
    """Require READ on each topic. Even if none remains the coordinator answers, with group not
    found.
    """
    allowed_topics, denied_topics = await split_allowed(
        request, partial(_unreadable_topic, access), request.message.topics
    )
    answer: Any = await handler.handle(with_elements(request, "topics", allowed_topics))
    if answer.error_code is not ErrorCode.none:
        return answer
    outcome = PartitionError(error=_FORBIDDEN_ERROR, message=TEXTS[_FORBIDDEN_ERROR])
    refused_rows = (
        delete_offsets_api.topic_of(
            request, TopicOutcome(topic_name=topic.topic_name, outcome=outcome)
        )
        for topic, _ in denied_topics
    )
    return dataclasses.replace(answer, responses=(*refused_rows, *answer.responses))


def _unreadable_topic(access: Access, topic: Any) -> ErrorCode | None:
    return None if access.may_topic(AclOperation.READ, topic.topic_name) else _FORBIDDEN_ERROR


_DESCRIBE_PART: Final = ResourcePart(
    request_field="groups",
    answer_field="groups",
    error=by_id(AclOperation.DESCRIBE, ResourceType.GROUP),
    has_entries=True,
    show_element=_with_operations,
)
_COORDINATOR_DESCRIBE_PART: Final = msgspec.structs.replace(
    _DESCRIBE_PART, request_field="group_ids", show_element=_described_with_topics
)
_STREAMS_DESCRIBE_PART: Final = msgspec.structs.replace(
    _DESCRIBE_PART, request_field="group_ids", show_element=_described_streams_group
)
GUARDS: Final[Mapping[int, Guard]] = {
    15: partial(shown_parts, resource_part=_DESCRIBE_PART),  # DescribeGroups
    16: list_groups,
    47: offset_delete,
    68: consumer_group_heartbeat,
    69: partial(shown_parts, resource_part=_COORDINATOR_DESCRIBE_PART),  # ConsumerGroupDescribe
    76: consumer_group_heartbeat,  # ShareGroupHeartbeat
    77: partial(shown_parts, resource_part=_COORDINATOR_DESCRIBE_PART),  # ShareGroupDescribe
    89: partial(shown_parts, resource_part=_STREAMS_DESCRIBE_PART),  # StreamsGroupDescribe
    90: share_group_offsets,  # DescribeShareGroupOffsets
    91: alter_share_offsets,  # AlterShareGroupOffsets
    92: delete_share_offsets,  # DeleteShareGroupOffsets
}
