"""LeaveGroup (key 13): members leave a classic group, or are removed from it.

Versions: up to 2 a member leaves by itself; 3 names several, static ones by their instance id
(KIP-345), and has an error for each. Kafka's counterpart: KafkaApis.handleLeaveGroupRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode
from txnsim.group.commands import LeaveGroup

API_KEY: Final = 13

refuse = refuse_at_top_level(members=())

BATCHED_FROM: Final = 3


async def handle(request: Request) -> Reply:
    """Remove the members from the group."""
    message = request.message
    if request.api_version < BATCHED_FROM:
        members: tuple[tuple[str, str | None], ...] = ((message.member_id, None),)
    else:
        members = tuple((member.member_id, member.group_instance_id) for member in message.members)
    leave_command = LeaveGroup(group_id=message.group_id, members=members)
    reply = await request.broker.groups.leave(leave_command)
    if request.api_version < BATCHED_FROM:
        error = reply.error or (reply.members[0][2] if reply.members else ErrorCode.none)
        return request.answer(error_code=error)
    member_rows = await request.map_each(partial(_member_row, request.schema), reply.members)
    return request.answer(error_code=reply.error, members=tuple(member_rows))


def _member_row(schema: Any, member: tuple[str, str | None, ErrorCode]) -> Any:
    member_id, instance_id, error = member
    return schema.MemberResponse(
        member_id=member_id, group_instance_id=instance_id, error_code=error
    )
