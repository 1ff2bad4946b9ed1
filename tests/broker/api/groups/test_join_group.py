"""JoinGroup v0 to v9: a request that is never answered; the casebook has the answers."""

from __future__ import annotations

import asyncio

from tests.support.group_api import GroupApi
from tests.support.slow_machine import SLOW_S


async def test_a_second_join_of_a_member_lets_the_first_one_wait_for_ever(
    groups: GroupApi,
) -> None:
    member = await groups.stable()
    other = await groups.join(version=4)  # pending: nobody can complete the rebalance without it
    waits = groups.later(groups.join(member.id))
    await groups.reaches("PreparingRebalance")
    again = groups.later(groups.join(member.id))
    await asyncio.wait_for(groups.join(other.member_id), timeout=SLOW_S)
    assert (await again).generation_id == 2
    assert (await waits).name == "NEVER"
