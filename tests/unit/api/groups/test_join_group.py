"""JoinGroup v0 to v9: new members and their ids, and what is refused before any group is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.group_api import GroupApi, join_values
from txnsim.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize("version", range(10))
async def test_every_version_gives_a_first_generation(groups: GroupApi, version: int) -> None:
    answer = await groups.join(version=version)
    if version >= 4:
        assert (answer.error_code, answer.generation_id) == (E.member_id_required, -1)
        assert answer.protocol_name == (None if version >= 7 else "")
        answer = await groups.join(answer.member_id, version=version)
    assert answer.error_code is E.none
    assert answer.member_id.startswith("test-")
    assert answer.generation_id == 1
    assert answer.leader == answer.member_id
    assert answer.protocol_name == "range"
    assert [member.member_id for member in answer.members] == [answer.member_id]
    assert getattr(answer, "protocol_type", "consumer") == "consumer"
    assert getattr(answer, "skip_assignment", False) is False


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"group_id": ""}, E.invalid_group_id),
        ({"session_timeout": 5_999}, E.invalid_session_timeout),
        ({"session_timeout": 1_800_001}, E.invalid_session_timeout),
        ({"member_id": "nobody"}, E.unknown_member_id),
        ({"protocols": []}, E.inconsistent_group_protocol),
        ({"protocol_type": ""}, E.inconsistent_group_protocol),
    ],
)
async def test_refusals(groups: GroupApi, wanted: dict[str, Any], error: ErrorCode) -> None:
    answer = await groups.api.ask("JoinGroup", 9, **join_values(**wanted))
    assert (answer.error_code, answer.generation_id, answer.leader) == (error, -1, "")
    assert answer.protocol_name is None


@pytest.mark.parametrize("version", [8, 9])
async def test_a_static_leader_comes_back(groups: GroupApi, version: int) -> None:
    old = await groups.stable(instance="i")
    answer = await groups.join(version=version, group_instance_id="i")
    assert answer.error_code is E.none
    assert answer.member_id != old.id
    assert answer.generation_id == old.generation
    if version == 8:
        assert (answer.leader, answer.members) == (old.id, ())
    else:
        assert answer.leader == answer.member_id
        assert answer.skip_assignment is True
        assert [member.group_instance_id for member in answer.members] == ["i"]
    fenced = await groups.heartbeat(old, group_instance_id="i")
    assert fenced is E.fenced_instance_id


async def test_a_second_join_of_a_member_lets_the_first_one_wait_for_ever(
    groups: GroupApi,
) -> None:
    member = await groups.stable()
    other = await groups.join(version=4)  # pending: nobody can complete the rebalance without it
    waits = groups.later(groups.join(member.id))
    await groups.reaches("PreparingRebalance")
    again = groups.later(groups.join(member.id))
    await asyncio.wait_for(groups.join(other.member_id), timeout=5)
    assert (await again).generation_id == 2
    assert (await waits).name == "NEVER"


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    for version in (0, 6, 7, 9):
        answer = groups.api.refuse("JoinGroup", version, E.not_coordinator, **join_values())
        assert answer.error_code is E.not_coordinator
