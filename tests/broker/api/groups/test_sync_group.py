"""SyncGroup v0 to v5: a request that is never answered; the casebook has the answers."""

from __future__ import annotations

import asyncio

from tests.support.group_api import GroupApi, Member


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
