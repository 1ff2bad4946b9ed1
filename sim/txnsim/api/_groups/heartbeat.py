"""Heartbeat (key 12): a member of a classic group is alive, and learns whether to join again.

Versions: 3 knows static members (KIP-345). While the group is being loaded there is no error, so
that no member leaves the group. Kafka's counterpart: KafkaApis.handleHeartbeatRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request, only_error
from txnsim.errors import ErrorCode
from txnsim.group.commands import Heartbeat

KEY: Final = 12


async def handle(request: Request) -> Reply:
    """Move the member's session on."""
    message = request.message
    refusal = request.broker.groups.heartbeat(
        Heartbeat(
            group_id=message.group_id,
            generation=message.generation_id,
            member_id=message.member_id,
            group_instance_id=getattr(message, "group_instance_id", None),
        )
    )
    return refuse(request, ErrorCode.none if refusal is None else refusal.error)


def refuse(request: Request, error: ErrorCode) -> Reply:
    return only_error(KEY, request.api_version, int(error))
