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

API_KEY: Final = 16

refuse = refuse_at_top_level(groups=())

_FILTER_NAMES: Final = {"NotReady": "not_ready"}
"""The one state (of streams groups) whose name in a filter differs from its name in an answer."""


async def handle(request: Request) -> Reply:
    """List the groups that match the filters."""
    filters = GroupFilters.of(request.message)
    wanted_states = {state.lower() for state in filters.states}
    group_types = {group_type.lower() for group_type in filters.types}
    listed_groups = request.broker.groups.list()
    if isinstance(listed_groups, Rejection):
        return refuse(request, listed_groups.error)
    build_group = builder(request.schema.ListedGroup)

    def group_row(group: Group) -> Any:
        state_name, type_name = group.state_name, group.type.value
        if (
            wanted_states and _FILTER_NAMES.get(state_name, state_name.lower()) not in wanted_states
        ) or (group_types and type_name.lower() not in group_types):
            return None
        return build_group(
            group_id=group.group_id,
            protocol_type=group.protocol_type_or_empty,
            group_state=state_name,
            group_type=type_name,
        )

    groups = [row for row in await request.map_each(group_row, listed_groups) if row is not None]
    return request.answer(error_code=ErrorCode.none, groups=tuple(groups))
