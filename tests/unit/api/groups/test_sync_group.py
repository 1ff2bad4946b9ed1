"""SyncGroup v0 to v5: assignments, and the protocol that v5 has to name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.group_api import ASSIGNMENT, GroupApi, Member
from txnsim.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize("version", range(6))
async def test_the_leader_brings_the_assignments(groups: GroupApi, version: int) -> None:
    joined = await groups.join()
    member = Member(id=joined.member_id, generation=1)
    for _ in range(2):  # a stable group tells it again
        answer = await groups.sync(member, {member.id: ASSIGNMENT}, version=version)
        assert (answer.error_code, answer.assignment) == (E.none, ASSIGNMENT)
        assert getattr(answer, "protocol_type", "consumer") == "consumer"
        assert getattr(answer, "protocol_name", "range") == "range"


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ({"protocol_type": None}, E.inconsistent_group_protocol),
        ({"protocol_name": None}, E.inconsistent_group_protocol),
        ({"protocol_name": "other"}, E.inconsistent_group_protocol),
        ({"protocol_type": "other"}, E.inconsistent_group_protocol),
        ({"group_id": ""}, E.invalid_group_id),
        ({"group_id": "missing"}, E.unknown_member_id),
        ({"member_id": "nobody"}, E.unknown_member_id),
        ({"group_instance_id": "nobody"}, E.unknown_member_id),
        ({"generation_id": 2}, E.illegal_generation),
    ],
)
async def test_refusals(groups: GroupApi, told: dict[str, Any], error: ErrorCode) -> None:
    member = await groups.stable()
    answer = await groups.sync(member, version=5, **told)
    assert (answer.error_code, answer.assignment) == (error, b"")
    assert (answer.protocol_type, answer.protocol_name) == (None, None)


async def test_a_second_sync_of_a_member_lets_the_first_one_wait_for_ever(
    groups: GroupApi,
) -> None:
    leader = await groups.stable()
    joining = groups.later(groups.join())
    await groups.reaches("PreparingRebalance")
    await groups.join(leader.id)
    member = Member(id=(await joining).member_id, generation=2)
    waits = groups.later(groups.sync(member))
    await asyncio.sleep(0)
    again = groups.later(groups.sync(member))
    await asyncio.sleep(0)
    await groups.sync(Member(id=leader.id, generation=2), {member.id: b"yours"})
    assert (await again).assignment == b"yours"
    assert (await waits).name == "NEVER"


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    answer = groups.api.refuse("SyncGroup", 5, E.not_coordinator, group_id="g")
    assert (answer.error_code, answer.assignment) == (E.not_coordinator, b"")
