"""Playing the situations, each on a cluster of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from txnsim.errors import ConfigError
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.exam.driver import Answer, Driver, NoAnswerError
from txnsim.testing.exam.results import Outcome, Result, Sitting
from txnsim.testing.exam.room import MissError, NotAskedError, Room
from txnsim.testing.exam.situation import Situation

SETTINGS: Final = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 300}
"""A dead broker is known as dead in three seconds."""
STORY_LINES_MAX: Final = 80
NEWEST: Final = 2
Tell = Callable[[Result], None]


async def sit(
    command: str,
    situations: Sequence[Situation],
    *,
    levels: Sequence[int],
    as_version: str | None = None,
    tell: Tell = lambda _: None,
) -> Sitting:
    """Have a library sit the exam.

    Args:
        command: Starts its driver.
        situations: What is asked.
        levels: Of ``transaction.version``.
        as_version: The release of Kafka.
        tell: Hears each result when it is there.

    Raises:
        ConfigError: The driver can't be started, or does not speak the contract.
    """
    exam = _Exam(command, as_version)
    try:
        who = await exam.begin()
        results = []
        for level in levels:
            for one in situations:
                if level in one.levels:
                    results.append(await exam.play(one, level))
                    tell(results[-1])
    finally:
        await exam.end()
    return Sitting(
        library=who.library,
        version=who.version,
        language=who.language,
        contract=who.contract,
        as_version=as_version or "",
        speaks=exam.speaks,
        results=tuple(results),
    )


class _Exam:
    """One sitting, with the process of the driver, which is started again where it hangs."""

    def __init__(self, command: str, as_version: str | None) -> None:
        self._command = command
        self._as_version = as_version
        self._driver: Driver | None = None
        self.speaks = 1

    async def begin(self) -> Answer:
        self._driver = await Driver.start(self._command)
        return await self._driver.describe()

    async def end(self) -> None:
        if self._driver is not None:
            await self._driver.end()

    async def play(self, one: Situation, level: int) -> Result:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._driver is None:
            self._driver = await Driver.start(self._command)
        async with AsyncSimulatedKafka(
            topics={"t": 2, "input": 1},
            transaction_version=level,
            settings=SETTINGS,
            as_version=self._as_version or (),
            trace="brief",
        ) as kafka:
            room = Room(kafka, self._driver)
            adds = await room.requests("AddPartitionsToTxn")
            outcome, because = await self._outcome(one, room)
            if level == NEWEST and outcome is Outcome.PASSED and not adds.matched:
                self.speaks = NEWEST
            is_version_1 = level < NEWEST or adds.matched
            if outcome is Outcome.MISSED and one.needs_version_2 and is_version_1:
                outcome = Outcome.PROTOCOL
            missed = outcome in (Outcome.MISSED, Outcome.PROTOCOL)
            story = [str(line.text) for line in await kafka.trace.story()] if missed else []
            if missed or not await self._tidied(room):
                await self._driver.end()
                self._driver = None
        return Result(
            situation=one.name,
            kind=one.kind,
            level=level,
            asks=one.asks,
            outcome=outcome,
            because=tuple(because),
            errors=tuple(room.errors),
            story=tuple(story[-STORY_LINES_MAX:]),
            about=one.about if missed else (),
            seconds=round(loop.time() - began, 2),
        )

    async def _outcome(self, one: Situation, room: Room) -> tuple[Outcome, list[str]]:
        try:
            await one.play(room)
        except NotAskedError as reason:
            return Outcome.DOES_NOT_APPLY, [str(reason)]
        except (MissError, NoAnswerError) as reason:
            return Outcome.MISSED, [str(reason)]
        because = await room.judge(one.groups)
        if because:
            return Outcome.MISSED, because
        idle = [fault.rule for fault in room.must_strike if not fault.struck]
        if idle:
            return Outcome.DOES_NOT_APPLY, [f"it never sends {idle[0].api}"]
        return Outcome.PASSED, []

    async def _tidied(self, room: Room) -> bool:
        """Close what is open, while its cluster still stands; false where that hangs."""
        try:
            for name in room.opened - room.dead:
                await room.close(name)
        except (NoAnswerError, MissError, NotAskedError):
            return False
        return True


def chosen(situations: Sequence[Situation], only: Sequence[str]) -> list[Situation]:
    """Those whose name or kind begins with one of the words; all without words.

    Raises:
        ConfigError: A word chooses none.
    """
    for word in only:
        if not any(_fits(one, word) for one in situations):
            names = ", ".join(one.name for one in situations)
            raise ConfigError(f"--only {word}: no situation is called so; there are {names}")
    return [one for one in situations if not only or any(_fits(one, word) for word in only)]


def _fits(one: Situation, word: str) -> bool:
    return one.name.startswith(word) or one.kind.startswith(word)
