"""Heartbeat v0 to v4: alive, or told to join again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi, Member
from txnsim.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize("version", range(5))
async def test_a_member_is_alive(groups: GroupApi, version: int) -> None:
    member = await groups.stable()
    assert await groups.heartbeat(member, version=version) is E.none


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ({"group_id": ""}, E.invalid_group_id),
        ({"group_id": "missing"}, E.unknown_member_id),
        ({"member_id": "nobody"}, E.unknown_member_id),
        ({"group_instance_id": "nobody"}, E.unknown_member_id),
        ({"generation_id": 9}, E.illegal_generation),
    ],
)
async def test_refusals(groups: GroupApi, told: dict[str, Any], error: ErrorCode) -> None:
    assert await groups.heartbeat(await groups.stable(), **told) is error


async def test_a_heartbeat_of_a_missing_member_reports_the_rebalance(groups: GroupApi) -> None:
    member = await groups.stable()
    joining = groups.later(groups.join())
    await groups.reaches("PreparingRebalance")
    assert await groups.heartbeat(member) is E.rebalance_in_progress
    await groups.join(member.id)
    assert (await joining).generation_id == 2
    assert await groups.heartbeat(Member(id=member.id, generation=2)) is E.none


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    answer = groups.api.refuse("Heartbeat", 0, E.not_coordinator, group_id=GROUP)
    assert answer.error_code is E.not_coordinator
