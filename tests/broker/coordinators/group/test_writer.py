"""Decisions of a group coordinator that take slices."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from tests.support.group_world import GroupWorld, run_groups
from tests.support.within_environment import within
from txnsim.coordinators.group._writer import decided_in_slices
from txnsim.group.streams.commands import StreamsOutcome
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, LOOKS, Pace


@within(run_groups)
async def test_decisions_of_a_group_that_take_slices_are_made_one_after_the_other(
    world: GroupWorld,
) -> None:
    begun = 0
    written: list[object] = []
    line = asyncio.Lock()

    def decide() -> Generator[int, None, StreamsOutcome]:
        nonlocal begun
        begun += 1
        yield LOOKS * LOOK_ELEMENTS
        return StreamsOutcome()

    async def heartbeat() -> None:
        pace = Pace(world.env.tasks.turns, world.env.clock.stopwatch_ns)
        result = await decided_in_slices(decide, lambda: len(written), lambda: True, pace, line)
        assert pace.has_rested
        written.append(result)

    await asyncio.gather(*(heartbeat() for _ in range(5)))
    assert (begun, len(written)) == (5, 5), "none was made anew"
