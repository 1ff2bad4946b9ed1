"""A fault lasts for some seconds: does the library wait without a storm, and then go on?"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from txnsim.testing.exam.book import Told
from txnsim.testing.exam.room import MissError, Room
from txnsim.testing.exam.situation import Play, Situation, situation

LASTS_S: Final = 3
REQUESTS_PER_S_MAX: Final = 60
"""Kafka's clients pause for 100 ms, some for 20 ms where a transaction is still being ended."""
RECONNECTS_PER_S_MAX: Final = 2_000
"""The Java client waits before it connects again only where it could not connect: some hundreds."""


def _lasts(api: str, action: Any, *, requests_per_s_max: int = REQUESTS_PER_S_MAX) -> Play:
    """One API is struck for some seconds, in the middle of which a transaction is played."""

    async def play(room: Room) -> None:
        await room.must_init()
        asked = await room.requests()
        rule = await room.arm(point="client.request", api=api, action=action)

        async def heal() -> float:
            await asyncio.sleep(LASTS_S)
            rate = asked.matched / LASTS_S
            await room.kafka.faults.disarm(rule.id)
            return rate

        told, rate = await asyncio.gather(room.transact("a-1", "b-2"), heal())
        if rate > requests_per_s_max:
            raise MissError(f"{rate:.0f} requests per second while {api} is struck")
        room.expect(told, Told.COMMITTED, f"when it is over the application is told, {room.errors}")
        await room.goes_on()

    return play


def _error(error: str) -> dict[str, str]:
    return {"do": "error", "error": error}


SITUATIONS: Final[tuple[Situation, ...]] = (
    situation("coordinator-loads-long", "liveness", "The coordinator loads for three seconds when"
              " the commit comes.")(_lasts("EndTxn", _error("COORDINATOR_LOAD_IN_PROGRESS"))),
    situation("partition-without-leader", "liveness", "A record meets NOT_LEADER_OR_FOLLOWER for"
              " three seconds.")(_lasts("Produce", _error("NOT_LEADER_OR_FOLLOWER"))),
    situation("transactions-concurrent-long", "liveness", "AddPartitionsToTxn meets"
              " CONCURRENT_TRANSACTIONS for three seconds.", levels=(0, 1))(
                  _lasts("AddPartitionsToTxn", _error("CONCURRENT_TRANSACTIONS"))),
    situation("connections-break-long", "liveness", "Each connection breaks at its commit, for"
              " three seconds.")(
                  _lasts("EndTxn", "disconnect", requests_per_s_max=RECONNECTS_PER_S_MAX)),
)  # fmt: skip
