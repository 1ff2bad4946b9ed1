"""JoinGroup (key 11): become a member of a classic group's next generation.

Versions: 1 has a rebalance timeout beside the session's, 4 makes a new member ask twice
(KIP-394), 5 knows static members (KIP-345), 7 answers with the protocol's type and has none where
there is an error, 9 lets a static leader skip the assignment (KIP-814). The answer waits for the
generation. Kafka's counterpart: KafkaApis.handleJoinGroupRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import NoResponse, Reply, Request, may_describe
from txnsim.errors import ErrorCode
from txnsim.group.commands import JoinGroup, JoinReply
from txnsim.wire.codec import builder

API_KEY: Final = 11

REBALANCE_TIMEOUT_FROM: Final = 1
MEMBER_ID_REQUIRED_FROM: Final = 4
NO_PROTOCOL_NULL_FROM: Final = 7
SKIP_ASSIGNMENT_FROM: Final = 9


async def handle(request: Request) -> Reply:
    """Join the group; answer once the generation is formed."""
    message = request.message
    api_version = request.api_version
    session_timeout_ms = round(message.session_timeout.total_seconds() * 1_000)
    reply = await request.broker.groups.join(
        JoinGroup(
            group_id=message.group_id,
            member_id=message.member_id,
            group_instance_id=getattr(message, "group_instance_id", None),
            client_id=request.client_id or "",
            client_host=request.client_host,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=round(message.rebalance_timeout.total_seconds() * 1_000)
            if api_version >= REBALANCE_TIMEOUT_FROM
            else session_timeout_ms,
            protocol_type=message.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in message.protocols),
            may_describe=may_describe(request),
            member_id_required=api_version >= MEMBER_ID_REQUIRED_FROM,
            may_skip_assignment=api_version >= SKIP_ASSIGNMENT_FROM,
        )
    )
    return NoResponse.NEVER if reply is None else _answer(request, reply)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error, with no member and no generation."""
    return _answer(request, JoinReply(error=error))


def _answer(request: Request, reply: JoinReply) -> Reply:
    request.announce_answer(
        len(reply.members), sum([len(metadata) for _, _, metadata in reply.members])
    )
    build_member = builder(request.schema.JoinGroupResponseMember)
    protocol = reply.protocol
    if protocol is None and request.api_version < NO_PROTOCOL_NULL_FROM:
        protocol = ""
    return request.answer(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            build_member(member_id=member_id, metadata=metadata, group_instance_id=instance_id)
            for member_id, instance_id, metadata in reply.members
        ),
    )
