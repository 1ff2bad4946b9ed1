"""Rights on groups, for APIs that not only refuse: the answer leaves out what the client may not
see.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final

from txnsim.api.access import Access
from txnsim.api.authorization.parts import (
    DESCRIBED_CONSUMER_GROUPS,
    DESCRIBED_GROUPS,
    divided,
    handle_parts,
    joined,
    narrowed,
)
from txnsim.api.groups.describe_groups import group_operations
from txnsim.api.request import Handler, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation
from txnsim.wire.codec import build

_TOPICS_HIDDEN: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)
_FORBIDDEN: Final = ErrorCode.topic_authorization_failed


async def list_groups(request: Request, access: Access, handler: Handler) -> Reply:
    """All with DESCRIBE on the cluster, else those that may be described."""
    answer: Any = await handler.handle(request)
    if access.may_cluster(Operation.DESCRIBE):
        return answer
    seen = [one for one in answer.groups if access.may_group(Operation.DESCRIBE, one.group_id)]
    return dataclasses.replace(answer, groups=tuple(seen))


async def describe_groups(request: Request, access: Access, handler: Handler) -> Reply:
    """Forbidden groups are errors."""
    answer: Any = await handle_parts(request, access, handler, DESCRIBED_GROUPS)
    return await _with_operations(request, access, answer)


async def consumer_group_describe(request: Request, access: Access, handler: Handler) -> Reply:
    """A group that has topics which may not be described is an error as well."""
    answer: Any = await handle_parts(request, access, handler, DESCRIBED_CONSUMER_GROUPS)
    shown = await request.each(partial(_shown, access), answer.groups, weight=4)
    answer = dataclasses.replace(answer, groups=tuple(shown))
    return await _with_operations(request, access, answer)


def _shown(access: Access, group: Any) -> Any:
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if all(access.may_topic(Operation.DESCRIBE, name) for name in names):
        return group
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


async def _with_operations(request: Request, access: Access, answer: Any) -> Any:
    if not getattr(request.message, "include_authorized_operations", False):
        return answer
    operations = group_operations(request)
    shown = await request.each(
        lambda group: _with_bits(access, group, operations), answer.groups, weight=4
    )
    return dataclasses.replace(answer, groups=tuple(shown))


def _with_bits(access: Access, group: Any, operations: int) -> Any:
    if group.error_code is not ErrorCode.none:
        return group
    bits = access.bits(operations, lambda one: access.may_group(one, group.group_id))
    return dataclasses.replace(group, authorized_operations=bits)


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
    schema = request.schema
    return joined(
        answer,
        "topics",
        tuple(
            build(
                schema.OffsetDeleteResponseTopic,
                name=topic.name,
                partitions=tuple(
                    schema.OffsetDeleteResponsePartition(
                        partition_index=one.partition_index, error_code=_FORBIDDEN
                    )
                    for one in topic.partitions
                ),
            )
            for topic, _ in denied
        ),
    )


GUARDS: Final = {
    15: describe_groups,
    16: list_groups,
    47: offset_delete,
    68: consumer_group_heartbeat,
    69: consumer_group_describe,
}
