"""LeaveGroup v0 to v5: one member by itself, or several with an error each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode

E = ErrorCode


def values(*members: tuple[str, str | None], group_id: str = GROUP) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "member_id": members[0][0],
        "members": [{"member_id": each, "group_instance_id": one} for each, one in members],
    }


def told(answer: Any) -> list[tuple[str, ErrorCode]]:
    return [(each.member_id, each.error_code) for each in answer.members]


@pytest.mark.parametrize("version", range(6))
async def test_every_version(groups: GroupApi, version: int) -> None:
    member = await groups.stable()
    answer = await groups.api.ask("LeaveGroup", version, **values((member.id, None)))
    assert answer.error_code is E.none
    if version >= 3:
        assert told(answer) == [(member.id, E.none)]
    assert await groups.state() == "Empty"


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("group_id", [GROUP, "missing"])
async def test_who_is_no_member_can_not_leave(
    groups: GroupApi, version: int, group_id: str
) -> None:
    await groups.stable()
    wanted = values(("nobody", None), group_id=group_id)
    answer = await groups.api.ask("LeaveGroup", version, **wanted)
    if version == 2:
        assert answer.error_code is E.unknown_member_id
    else:
        assert (answer.error_code, told(answer)) == (E.none, [("nobody", E.unknown_member_id)])


async def test_instances_are_removed_by_their_id(groups: GroupApi) -> None:
    member = await groups.stable(instance="i")
    answer = await groups.api.ask(
        "LeaveGroup", 5, **values(("other", "i"), ("", "nobody"), ("", "i"), (member.id, "i"))
    )
    assert told(answer) == [
        ("other", E.fenced_instance_id),
        ("", E.unknown_member_id),
        ("", E.none),
        (member.id, E.unknown_member_id),
    ]


async def test_a_group_needs_a_name(groups: GroupApi) -> None:
    answer = await groups.api.ask("LeaveGroup", 5, **values(("m", None), group_id=""))
    assert (answer.error_code, answer.members) == (E.invalid_group_id, ())
    old = await groups.api.ask("LeaveGroup", 0, **values(("m", None), group_id=""))
    assert old.error_code is E.invalid_group_id


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    for version in (0, 5):
        answer = groups.api.refuse("LeaveGroup", version, E.not_coordinator, group_id=GROUP)
        assert answer.error_code is E.not_coordinator
