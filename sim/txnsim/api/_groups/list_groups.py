"""ListGroups (key 16): the groups that a broker coordinates.

Versions: 4 filters by state, 5 by type; both ignore case, and an empty filter matches every group.
Kafka's counterpart: KafkaApis.handleListGroupsRequest.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.state import Group
from txnsim.wire.codec import builder
from txnsim.wire.filters import GroupFilters

KEY: Final = 16

refuse = refuse_at_top_level(groups=())

_FILTERED: Final = {"NotReady": "not_ready"}
"""The one state (of streams groups) whose name in a filter differs from its name in an answer."""


async def handle(request: Request) -> Reply:
    """List the groups that match the filters."""
    filters = GroupFilters.of(request.message)
    states = {state.lower() for state in filters.states}
    types = {group_type.lower() for group_type in filters.types}
    listed_groups = request.broker.groups.list()
    if isinstance(listed_groups, Rejection):
        return refuse(request, listed_groups.error)
    make = builder(request.schema.ListedGroup)

    def group_row(group: Group) -> Any:
        state, kind = group.state_name, group.type.value
        if (states and _FILTERED.get(state, state.lower()) not in states) or (
            types and kind.lower() not in types
        ):
            return None
        return make(
            group_id=group.group_id,
            protocol_type=group.protocol_type_or_empty,
            group_state=state,
            group_type=kind,
        )

    groups = [row for row in await request.map_each(group_row, listed_groups) if row is not None]
    return request.answer(error_code=ErrorCode.none, groups=tuple(groups))
