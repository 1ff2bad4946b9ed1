"""DescribeGroups v0 to v6: a stable group, elsewhere, by release; the casebook has the rest."""

from __future__ import annotations

import pytest

from tests.support.group_api import ASSIGNMENT, GROUP, SUBSCRIPTION, GroupApi
from txnsim.api._groups.describe_groups import group_operations
from txnsim.api.registry import shipped
from txnsim.errors import ErrorCode
from txnsim.releases import RELEASES

E = ErrorCode


@pytest.mark.parametrize("version", range(7))
async def test_a_stable_group(groups: GroupApi, version: int) -> None:
    member = await groups.stable()
    answer = await groups.api.ask(
        "DescribeGroups", version, groups=[GROUP], include_authorized_operations=True
    )
    (group,) = answer.groups
    assert (group.error_code, group.group_id, group.group_state) == (E.none, GROUP, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (one,) = group.members
    assert (one.member_id, one.client_id) == (member.id, "test")
    assert (one.member_metadata, one.member_assignment) == (SUBSCRIPTION, ASSIGNMENT)
    if version >= 3:
        assert group.authorized_operations == 3400
    if version >= 4:
        assert one.group_instance_id is None


async def test_groups_elsewhere(groups: GroupApi) -> None:
    for partition in range(3):
        groups.api.broker.groups.unload(partition)
    answer = await groups.api.ask(
        "DescribeGroups", 5, groups=[GROUP], include_authorized_operations=False
    )
    assert answer.groups[0].error_code is E.not_coordinator


async def test_groups_without_configs_had_fewer_operations(groups: GroupApi) -> None:
    request = groups.api.request("DescribeGroups", 5)
    assert group_operations(request) == 3400
    request.apis = shipped(RELEASES["3.9"])
    assert group_operations(request) == 328
