"""StreamsGroupTopologyDescriptionUpdate (key 93): a member describes its topology (KIP-1331).

Only version 0. A real broker keeps descriptions in a plugin; without one it refuses them, as this
one always does. Kafka's counterpart: KafkaApis.handleStreamsGroupTopologyDescriptionUpdate.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._groups.streams_group_heartbeat import has_streams_groups
from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode

API_KEY: Final = 93

DEVIATIONS: Final = (
    "A plugin for descriptions of topologies is Java code that a broker loads "
    "(group.streams.topology.description.plugin.class); txnsim has none, so "
    "StreamsGroupTopologyDescriptionUpdate is refused, as on a broker without it.",
)

_NO_PLUGIN: Final = "The broker has no streams group topology description plugin configured."

refuse = refuse_at_top_level(error_message=None)


async def handle(request: Request) -> Reply:
    reason = _NO_PLUGIN if has_streams_groups(request) else None
    return request.answer(error_code=ErrorCode.unsupported_version, error_message=reason)
