"""Positions of groups in transactions."""

from __future__ import annotations

import asyncio
from typing import Final

from txnsim.testing.exam.book import Told
from txnsim.testing.exam.room import Room
from txnsim.testing.exam.situation import Situation, situation


@situation("offsets-commit-and-abort", "groups", "Positions go with their transaction: do those of"
           " a commit count, and those of an abort not?", groups=("g",))  # fmt: skip
async def commit_and_abort(room: Room) -> None:
    """KIP-98."""
    await room.must_init()
    told = await room.transact("a-1", group="g", position=3)
    room.expect(told, Told.COMMITTED, "the first one")
    told = await room.transact("lost-1", group="g", position=5, end="abort")
    room.expect(told, Told.ABORTED, "the second one")
    await room.goes_on()


@situation("group-coordinator-dies", "groups", "The group's coordinator dies and stays dead before"
           " the positions are sent: is the new one found?", groups=("g",),
           about=("librdkafka #5511",), core=True)  # fmt: skip
async def coordinator_dies(room: Room) -> None:
    """The coordinator is known from the transaction before."""
    await room.must_init()
    told = await room.transact("a-1", group="g", position=3)
    room.expect(told, Told.COMMITTED, "the first one")
    await room.kill_group_coordinator("g")
    await asyncio.sleep(1)
    told = await room.transact("b-2", group="g", position=4)
    room.expect(told, Told.COMMITTED, f"the application is told, after {room.errors}")


@situation("group-coordinator-moves", "groups", "The group's coordinator moves before the positions"
           " are sent.", groups=("g",))  # fmt: skip
async def coordinator_moves(room: Room) -> None:
    """TxnOffsetCommit meets NOT_COORDINATOR of a broker that lives."""
    await room.must_init()
    told = await room.transact("a-1", group="g", position=3)
    room.expect(told, Told.COMMITTED, "the first one")
    await room.move_group("g")
    told = await room.transact("b-2", group="g", position=4)
    room.expect(told, Told.COMMITTED, f"the application is told, after {room.errors}")


SITUATIONS: Final[tuple[Situation, ...]] = (commit_and_abort, coordinator_dies, coordinator_moves)
