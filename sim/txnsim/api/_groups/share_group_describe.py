"""ShareGroupDescribe (key 77): share groups and their members (KIP-932).

Version 1 alone. A group of another protocol does not exist here. Kafka's counterpart:
KafkaApis.handleShareGroupDescribe.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api._error_texts import reason_of, text_of
from txnsim.api._groups.consumer_group_describe import assignment_of, group_row
from txnsim.api._groups.describe_groups import group_operations
from txnsim.api._groups.share_group_heartbeat import has_share_groups
from txnsim.api.request import NOT_ASKED, Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.assignors import SIMPLE
from txnsim.group.sharing.share_group import ShareGroup, ShareMember

KEY: Final = 77


async def handle(request: Request) -> Reply:
    """Describe each group."""
    if not has_share_groups(request):
        return refuse(request, ErrorCode.unsupported_version)
    found = await request.each_heavy(partial(_describe, request), request.message.group_ids)
    return request.answer(groups=tuple(found))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every group."""
    found = [
        group_row(request, group_id, error_code=error) for group_id in request.message.group_ids
    ]
    return request.answer(groups=tuple(found))


async def _describe(request: Request, group_id: str) -> Any:
    if not group_id:
        return group_row(request, "", error_code=ErrorCode.invalid_group_id)
    group = request.broker.groups.find(group_id)
    if isinstance(group, Rejection):
        reason = reason_of(group) or text_of(group.error)
        return group_row(request, group_id, error_code=group.error, error_message=reason)
    if not isinstance(group, ShareGroup):
        return group_row(
            request,
            group_id,
            error_code=ErrorCode.group_id_not_found,
            error_message=f"Group {group_id} is not a share group.",
        )
    members = tuple(group.members.values())
    request.answers(sum(map(_elements, members)))
    described = await request.each(partial(_member, request), members, weight=_elements)
    return group_row(
        request,
        group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=SIMPLE,
        members=tuple(described),
        authorized_operations=group_operations(request)
        if request.message.include_authorized_operations
        else NOT_ASKED,
    )


def _elements(member: ShareMember) -> int:
    return 1 + len(member.assigned) + len(member.topic_names)


def _member(request: Request, member: ShareMember) -> Any:
    return request.schema.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        assignment=assignment_of(request, member.assigned),
    )
