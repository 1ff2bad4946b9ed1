"""ListGroups (key 16): the groups that a broker coordinates.

Versions: 4 filters by state, 5 by type; both without regard to case, an empty filter lets all pass.
Kafka's counterpart: KafkaApis.handleListGroupsRequest.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import Reply, Request, at_top
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import GroupListing
from txnsim.wire.codec import build

KEY: Final = 16
VERSIONS: Final = (0, 5)

refuse = at_top(groups=())


async def handle(request: Request) -> Reply:
    """List what passes the filters."""
    message = request.message
    states = {state.lower() for state in getattr(message, "states_filter", ())}
    types = {each.lower() for each in getattr(message, "types_filter", ())}
    found = request.broker.groups.list()
    if isinstance(found, Rejection):
        return refuse(request, found.error)
    return request.answer(
        error_code=ErrorCode.none,
        groups=tuple(
            _listed(request, group)
            for group in found
            if (not states or group.state.lower() in states)
            and (not types or group.type.lower() in types)
        ),
    )


def _listed(request: Request, group: GroupListing) -> Any:
    return build(
        request.schema.ListedGroup,
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.type,
    )
