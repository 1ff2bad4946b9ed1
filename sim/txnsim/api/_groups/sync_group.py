"""SyncGroup (key 14): learn one's assignment; the leader of the generation brings the assignments
of all members.

Versions: 3 knows static members (KIP-345); from 5 on the protocol has to be named and is answered
(KIP-559). The answer waits for the leader's assignment. Kafka's counterpart:
KafkaApis.handleSyncGroupRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import NoResponse, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.group.commands import SyncGroup, SyncReply

API_KEY: Final = 14

PROTOCOL_NAMED_FROM: Final = 5


async def handle(request: Request) -> Reply:
    """Answer with the member's assignment, once it is replicated."""
    if not names_its_protocol(request):
        return refuse(request, ErrorCode.inconsistent_group_protocol)
    message = request.message
    reply = await request.broker.groups.sync(
        SyncGroup(
            group_id=message.group_id,
            generation=message.generation_id,
            member_id=message.member_id,
            group_instance_id=getattr(message, "group_instance_id", None),
            protocol_type=getattr(message, "protocol_type", None),
            protocol=getattr(message, "protocol_name", None),
            assignments=tuple(
                (assignment.member_id, assignment.assignment) for assignment in message.assignments
            ),
        )
    )
    return NoResponse.NEVER if reply is None else _answer(request, reply)


def names_its_protocol(request: Request) -> bool:
    """Whether the request names its protocol, as versions from 5 on must; checked before any
    right.
    """
    if request.api_version < PROTOCOL_NAMED_FROM:
        return True
    return None not in (request.message.protocol_type, request.message.protocol_name)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error, without an assignment."""
    return _answer(request, SyncReply(error=error))


def _answer(request: Request, reply: SyncReply) -> Reply:
    return request.answer(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol,
        assignment=reply.assignment,
    )
