"""A cluster brought to rest before it is made anew: no broker is being started, what waited
has come to its end, links are whole, the clock is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from txnsim.runtime.env import Environment
from txnsim.server.member import Member, MemberState
from txnsim.types import BrokerId

TURNS_TO_END: Final = 20
"""Turns of the loop after which every released task has ended, however deep."""


async def end_starts(members: Iterable[Member]) -> None:
    """Kill the starting brokers: their ports are only partly open."""
    starting = [member for member in members if member.state is MemberState.STARTING]
    for member in starting:
        await member.kill()
    if starting:
        await let_end()


async def let_end() -> None:
    """Release the held tasks, and wait until they have ended."""
    for _ in range(TURNS_TO_END):
        await asyncio.sleep(0)


def undisturb(environment: Environment, nodes: Sequence[BrokerId]) -> None:
    """Heal every link between these nodes, and set the cluster clock right."""
    for source in nodes:
        for target in nodes:
            environment.network.heal(source, target)
    environment.clock.shift(-environment.clock.advanced_ms)
