"""DeleteGroups v0 to v2: groups without members, and their positions."""

from __future__ import annotations

import pytest

from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize("version", range(3))
async def test_every_version(groups: GroupApi, version: int) -> None:
    await groups.commit(5)
    await groups.stable_elsewhere()
    answer = await groups.api.ask(
        "DeleteGroups", version, groups_names=[GROUP, "busy", "missing", GROUP]
    )
    assert {each.group_id: each.error_code for each in answer.results} == {
        GROUP: E.none,
        "busy": E.non_empty_group,
        "missing": E.group_id_not_found,
    }
    assert await groups.committed() == (-1, E.none)


async def test_groups_elsewhere(groups: GroupApi) -> None:
    for partition in range(3):
        groups.api.broker.groups.unload(partition)
    answer = await groups.api.ask("DeleteGroups", 2, groups_names=[GROUP])
    assert answer.results[0].error_code is E.not_coordinator
