"""ShareGroupHeartbeat (key 76): join, stay in, and leave a share group (KIP-932).

Only version 1. A field that a heartbeat leaves out has not changed. Kafka's counterpart:
KafkaApis.handleShareGroupHeartbeat.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._groups.consumer_group_heartbeat import build_error_reply, build_reply
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.group.sharing.share import ShareHeartbeat
from txnsim.metadata.image import SHARE_VERSION

API_KEY: Final = 76


async def handle(request: Request) -> Reply:
    """Decide the heartbeat; answer once the group's records are replicated."""
    if not has_share_groups(request):
        return refuse(request, ErrorCode.unsupported_version)
    message = request.message
    if not message.member_id:  # blanks get as far as the coordinator, which says why
        return refuse(request, ErrorCode.invalid_request)
    outcome = await request.broker.groups.share_heartbeat(
        ShareHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            rack_id=message.rack_id,
            topic_names=message.subscribed_topic_names,
            client_id=request.client_id or "",
            client_host=request.client_host,
        ),
        request.pace_of(len(message.subscribed_topic_names or ())),
    )
    return build_reply(request, outcome)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for the whole request."""
    return build_error_reply(request, error, None)


def has_share_groups(request: Request) -> bool:
    """Whether the finalized level of ``share.version`` enables share groups; their APIs are
    advertised either way.
    """
    return request.broker.image.features.get(SHARE_VERSION, 0) > 0
