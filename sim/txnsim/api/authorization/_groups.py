"""Rights on groups, for APIs that not only refuse: the answer leaves out what the client may not
see.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from itertools import compress
from typing import Any, Final

import msgspec

from txnsim.api._access import Access
from txnsim.api._groups import offset_delete as offset_delete_api
from txnsim.api._groups.describe_groups import group_operations
from txnsim.api.authorization._parts import (
    Guard,
    Part,
    by_id,
    divided,
    joined,
    narrowed,
    shown_parts,
)
from txnsim.api.request import Handler, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, ResourceType

_TOPICS_HIDDEN: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)
_FORBIDDEN: Final = ErrorCode.topic_authorization_failed


async def list_groups(request: Request, access: Access, handler: Handler) -> Reply:
    """All with DESCRIBE on the cluster, else those that may be described."""
    answer: Any = await handler.handle(request)
    if access.may_cluster(Operation.DESCRIBE):
        return answer
    may = await request.each(
        lambda one: access.may_group(Operation.DESCRIBE, one.group_id), answer.groups, weight=4
    )
    return dataclasses.replace(answer, groups=tuple(compress(answer.groups, may)))


def _described(request: Request, access: Access, group: Any) -> Any:
    """With its authorized operations, where the request asks for them."""
    is_asked = getattr(request.message, "include_authorized_operations", False)
    if not is_asked or group.error_code is not ErrorCode.none:
        return group
    operations = group_operations(request)
    bits = access.bits(operations, lambda one: access.may_group(one, group.group_id))
    return dataclasses.replace(group, authorized_operations=bits)


def _described_consumer_group(request: Request, access: Access, group: Any) -> Any:
    """A group that has topics which may not be described is an error as well."""
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if all(access.may_topic(Operation.DESCRIBE, name) for name in names):
        return _described(request, access, group)
    return dataclasses.replace(
        group,
        error_code=_FORBIDDEN,
        error_message=_TOPICS_HIDDEN,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=-(2**31),
    )


async def consumer_group_heartbeat(request: Request, access: Access, handler: Handler) -> Reply:
    """DESCRIBE on every topic that is subscribed by name."""
    names = request.message.subscribed_topic_names or ()
    if all(access.may_topic(Operation.DESCRIBE, name) for name in names):
        return await handler.handle(request)
    return handler.refuse(request, _FORBIDDEN)


async def offset_delete(request: Request, access: Access, handler: Handler) -> Reply:
    """READ on each topic. A refused topic does not fail the whole request."""
    allowed, denied = await divided(
        request,
        lambda topic: None if access.may_topic(Operation.READ, topic.name) else _FORBIDDEN,
        request.message.topics,
    )
    answer: Any
    if denied and not allowed:
        # no need to ask the coordinator
        answer = request.answer(error_code=ErrorCode.none, topics=())
    else:
        answer = await handler.handle(narrowed(request, "topics", allowed))
    if answer.error_code is not ErrorCode.none:
        return answer
    refused = (
        (topic.name, [(one.partition_index, _FORBIDDEN) for one in topic.partitions])
        for topic, _ in denied
    )
    return joined(answer, "topics", offset_delete_api.topics_of(request, refused))


_DESCRIBED: Final = Part(
    asked="groups",
    answered="groups",
    error=by_id(Operation.DESCRIBE, ResourceType.GROUP),
    has_entries=True,
    shown=_described,
)
_DESCRIBED_CONSUMER_GROUPS: Final = msgspec.structs.replace(
    _DESCRIBED, asked="group_ids", shown=_described_consumer_group
)
GUARDS: Final[Mapping[int, Guard]] = {
    15: partial(shown_parts, part=_DESCRIBED),  # DescribeGroups
    16: list_groups,
    47: offset_delete,
    68: consumer_group_heartbeat,
    69: partial(shown_parts, part=_DESCRIBED_CONSUMER_GROUPS),  # ConsumerGroupDescribe
}
