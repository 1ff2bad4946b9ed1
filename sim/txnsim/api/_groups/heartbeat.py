"""Heartbeat (key 12): a member of a classic group says that it is alive, and learns whether it has
to rejoin.

Versions: 3 knows static members (KIP-345). While the coordinator loads the group it answers without
an error, so that no member leaves. Kafka's counterpart: KafkaApis.handleHeartbeatRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request, only_error
from txnsim.errors import ErrorCode
from txnsim.group.commands import Heartbeat

API_KEY: Final = 12


async def handle(request: Request) -> Reply:
    """Extend the member's session."""
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
    return only_error(API_KEY, request.api_version, int(error))
