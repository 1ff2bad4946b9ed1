"""Playing the situations, each on a cluster of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from txnsim.client.errors import ClientError
from txnsim.errors import ConfigError
from txnsim_lab.exam._driver import Answer, Driver, NoAnswerError
from txnsim_lab.exam._room import Room
from txnsim_lab.exam._talk import without_repeats
from txnsim_lab.exam.hall import Hall, Halls, SimulatedHalls
from txnsim_lab.exam.results import MissError, NotAskedError, Outcome, Result, Sitting
from txnsim_lab.exam.situation import Situation

STORY_LINES_MAX: Final = 80
NEWEST: Final = 2
Tell = Callable[[Result], None]


async def sit(
    command: str,
    situations: Sequence[Situation],
    *,
    levels: Sequence[int],
    halls: Halls | None = None,
    tell: Tell = lambda _: None,
) -> Sitting:
    """Have a library sit the exam.

    Args:
        command: Starts its driver.
        situations: What is asked.
        levels: Of ``transaction.version``; those that the cluster can't have are left out.
        halls: Where; simulated clusters unless given.
        tell: Hears each result when it is there.

    Raises:
        ConfigError: The driver can't be started, or does not speak the contract.
    """
    exam = Exam(command, halls or SimulatedHalls())
    try:
        who = await exam.begin()
        results = []
        for level in (level for level in levels if level in exam.halls.levels):
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
        runtime=who.runtime,
        contract=who.contract,
        kafka=exam.halls.about,
        speaks=exam.speaks,
        results=tuple(results),
    )


class Exam:
    """One sitting, with the process of the driver, which is started again where it hangs."""

    def __init__(self, command: str, halls: Halls) -> None:
        """Nothing runs: ``begin`` it.

        Args:
            command: Starts the driver.
            halls: Where situations are played.
        """
        self.halls: Final = halls
        self.speaks = 1
        """The newest version of transactions that the library was seen to use."""
        self._command = command
        self._driver: Driver | None = None

    async def begin(self) -> Answer:
        """Start the driver, and ask who it is.

        Raises:
            ConfigError: It can't be started, or does not speak the contract.
        """
        self._driver = await Driver.start(self._command)
        return await self._driver.describe()

    async def end(self) -> None:
        """End the driver and what else runs."""
        if self._driver is not None:
            await self._driver.end()
        await self.halls.close()

    async def play(self, one: Situation, level: int) -> Result:
        """Play one situation."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._driver is None:
            self._driver = await Driver.start(self._command)
        result: Result | None = None
        try:
            async with self.halls.open(level, begins_as=one.begins_as) as hall:
                result = await self._played(one, level, hall, self._driver)
        except NotAskedError as reason:  # behind the situation it only says what was left there
            if result is None:
                result = _result(one, level, Outcome.DOES_NOT_APPLY, because=(str(reason),))
        return msgspec.structs.replace(result, seconds=round(loop.time() - began, 2))

    async def _played(self, one: Situation, level: int, hall: Hall, driver: Driver) -> Result:
        room = Room(hall, driver)
        adds = await room.requests("AddPartitionsToTxn")
        sends = await room.requests("Produce")
        outcome, because = await self._outcome(one, room)
        await hall.faults.disarm_all()
        if level == NEWEST and sends.matched and not adds.matched:
            self.speaks = NEWEST
        is_version_1 = level < NEWEST or adds.matched
        if outcome is Outcome.MISSED and one.needs_version_2 and is_version_1:
            outcome = Outcome.PROTOCOL
        missed = outcome in (Outcome.MISSED, Outcome.PROTOCOL)
        story = await hall.story() if missed else []
        if missed or not await self._tidied(room):
            await driver.end()
            self._driver = None
        return _result(
            one,
            level,
            outcome,
            because=tuple(because),
            errors=tuple(room.errors),
            choices=tuple(room.choices),
            yardstick=one.yardstick if missed else "",
            steps=tuple(without_repeats(room.steps)) if missed else (),
            story=tuple(story[-STORY_LINES_MAX:]),
            recording=await hall.recording() if missed else b"",
            about=one.about if missed else (),
        )

    async def _outcome(self, one: Situation, room: Room) -> tuple[Outcome, list[str]]:
        try:
            await one.play(room)
            because = await room.judge(one.groups)
        except NotAskedError as reason:
            return Outcome.DOES_NOT_APPLY, [str(reason)]
        except (MissError, NoAnswerError) as reason:
            return Outcome.MISSED, [str(reason)]
        except ClientError as reason:
            return Outcome.DOES_NOT_APPLY, [f"the cluster: {reason}"]
        except TimeoutError as reason:
            return Outcome.DOES_NOT_APPLY, [f"what was to be struck did not come: {reason}"]
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


def _result(one: Situation, level: int, outcome: Outcome, **more: Any) -> Result:
    return Result(
        situation=one.name, kind=one.kind, level=level, asks=one.asks, outcome=outcome, **more
    )


def chosen(
    situations: Sequence[Situation], only: Sequence[str] = (), *, core: bool = False
) -> list[Situation]:
    """Those whose name or kind begins with one of the words; all without words.

    Args:
        situations: Of which.
        only: The words.
        core: Of these the core alone, each at its newest level.

    Raises:
        ConfigError: A word chooses none.
    """
    for word in only:
        if not any(_fits(one, word) for one in situations):
            names = ", ".join(one.name for one in situations)
            raise ConfigError(f"--only {word}: no situation is called so; there are {names}")
    asked = [one for one in situations if not only or any(_fits(one, word) for word in only)]
    if not core:
        return asked
    newest = ((one, max(one.levels)) for one in asked if one.core)
    return [msgspec.structs.replace(one, levels=(level,)) for one, level in newest]


def _fits(one: Situation, word: str) -> bool:
    return one.name.startswith(word) or one.kind.startswith(word)
