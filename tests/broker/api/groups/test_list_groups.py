"""ListGroups v0 to v5: the groups of a broker, by state and type."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.group_api import GroupApi
from txnsim.errors import ErrorCode
from txnsim.types import CoordinatorEpoch

E = ErrorCode


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), {"g", "new", "simple"}),
        (("stable",), (), {"g", "new"}),
        (("EMPTY", "Dead"), (), {"simple"}),
        ((), ("Consumer",), {"new"}),
        (("Stable",), ("classic",), {"g"}),
        (("nonsense",), (), set()),
    ],
)
async def test_filters(
    groups: GroupApi, states: Sequence[str], types: Sequence[str], found: set[str]
) -> None:
    await groups.stable()
    await groups.consume("a", group_id="new")
    await groups.commit(1, group_id="simple")
    answer = await groups.api.ask("ListGroups", 5, states_filter=states, types_filter=types)
    assert {group.group_id for group in answer.groups} == found


async def test_a_coordinator_that_loads(groups: GroupApi) -> None:
    groups.api.broker.groups.begin_load(0, CoordinatorEpoch(7))
    answer = await groups.api.ask("ListGroups", 5)
    assert answer.error_code is E.coordinator_load_in_progress
