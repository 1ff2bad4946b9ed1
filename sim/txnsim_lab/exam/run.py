"""Plays the situations, each on a cluster of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from txnsim.errors import ClientError, ConfigError
from txnsim_lab.exam._application import Application
from txnsim_lab.exam._driver import Answer, Driver, NoAnswerError
from txnsim_lab.exam._session import without_repeats
from txnsim_lab.exam.results import ExamRun, MissError, NotAskedError, Result, SituationOutcome
from txnsim_lab.exam.situation import Situation
from txnsim_lab.exam.targets import OpenedTarget, SimulatedTargets, Targets
from txnsim_lab.target.cluster import TargetError

STORY_LINES_MAX: Final = 80
NEWEST_LEVEL: Final = 2
ReportResult = Callable[[Result], None]


async def run_exam(
    command: str,
    situations: Sequence[Situation],
    *,
    levels: Sequence[int],
    targets: Targets | None = None,
    report_result: ReportResult = lambda _: None,
    stops: tuple[type[BaseException], ...] = (),
) -> ExamRun:
    """Run the exam of a library.

    Args:
        command: The command that starts its driver.
        situations: The situations to play.
        levels: Levels of ``transaction.version``; those that the cluster can't have are left out.
        targets: Opens the clusters; simulated ones unless given.
        report_result: Takes each result when it is there.
        stops: Exceptions that end the run early, such as ``CancelledError``: the results so far are
            returned, and the driver and clusters are stopped.

    Raises:
        ConfigError: The driver can't be started, or does not speak the contract.
    """
    exam = Exam(command, targets or SimulatedTargets())
    exam_results: list[Result] = []
    is_stopped = False
    try:
        driver_description = await exam.begin()
        try:
            for level in (level for level in levels if level in exam.targets.levels):
                for situation in situations:
                    if level in situation.levels:
                        exam_results.append(await exam.play(situation, level))
                        report_result(exam_results[-1])
        except stops:
            is_stopped = True
    finally:
        await exam.end()
    return ExamRun(
        library=driver_description.library,
        version=driver_description.version,
        language=driver_description.language,
        runtime=driver_description.runtime,
        contract=driver_description.contract,
        kafka=exam.targets.about,
        speaks=exam.speaks,
        results=tuple(exam_results),
        is_stopped=is_stopped,
    )


class Exam:
    """One run of the exam, with the driver's process, which is restarted if it hangs."""

    def __init__(self, command: str, targets: Targets) -> None:
        """Start nothing yet; ``begin`` does.

        Args:
            command: The command that starts the driver.
            targets: Opens the clusters.
        """
        self.targets: Final = targets
        self.speaks = 1
        """The newest version of transactions that the library was seen to use."""
        self._command = command
        self._driver: Driver | None = None

    async def begin(self) -> Answer:
        """Start the driver, and ask for its library.

        Raises:
            ConfigError: The driver can't be started, or does not speak the contract.
        """
        self._driver = await Driver.start(self._command)
        return await self._driver.describe()

    async def end(self) -> None:
        """End the driver and the targets."""
        if self._driver is not None:
            await self._driver.end()
        await self.targets.close()

    async def play(self, situation: Situation, level: int) -> Result:
        """Play one situation, with a new process of the driver if the last one has ended."""
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        if self._driver is None:
            self._driver = await Driver.start(self._command)
        result: Result | None = None
        try:
            async with self.targets.open(level, begins_as=situation.begins_as) as opened_target:
                result = await self._play_situation(situation, level, opened_target, self._driver)
        except NotAskedError as reason:  # behind the situation it only says what was left there
            if result is None:
                result = _build_result(
                    situation, level, SituationOutcome.DOES_NOT_APPLY, because=(str(reason),)
                )
        return msgspec.structs.replace(result, seconds=round(loop.time() - start_s, 2))

    async def _play_situation(
        self, situation: Situation, level: int, opened_target: OpenedTarget, driver: Driver
    ) -> Result:
        app = Application(opened_target, driver)
        add_rule = await app.requests("AddPartitionsToTxn")
        produce_rule = await app.requests("Produce")
        outcome, reasons = await self._judge_outcome(situation, app)
        await opened_target.faults.disarm_all()
        if level == NEWEST_LEVEL and produce_rule.matched and not add_rule.matched:
            self.speaks = NEWEST_LEVEL
        has_version_1 = level < NEWEST_LEVEL or add_rule.matched
        if outcome is SituationOutcome.MISSED and situation.needs_version_2 and has_version_1:
            outcome = SituationOutcome.PROTOCOL
        is_missed = outcome in (SituationOutcome.MISSED, SituationOutcome.PROTOCOL)
        story = opened_target.story() if is_missed else []
        if is_missed or not await self._close_clients(app):
            await driver.end()
            self._driver = None
        return _build_result(
            situation,
            level,
            outcome,
            because=tuple(reasons),
            errors=tuple(app.errors),
            choices=tuple(app.names_of_choices),
            yardstick=situation.yardstick if is_missed else "",
            steps=tuple(without_repeats(app.steps)) if is_missed else (),
            story=tuple(story[-STORY_LINES_MAX:]),
            recording=await opened_target.recording() if is_missed else b"",
            about=situation.about if is_missed else (),
        )

    async def _judge_outcome(
        self, situation: Situation, app: Application
    ) -> tuple[SituationOutcome, list[str]]:
        try:
            await situation.play(app)
            reasons = await app.judge(situation.groups)
        except (NotAskedError, TargetError) as reason:
            return SituationOutcome.DOES_NOT_APPLY, [str(reason)]
        except (MissError, NoAnswerError) as reason:
            return SituationOutcome.MISSED, [str(reason)]
        except ClientError as reason:
            return SituationOutcome.DOES_NOT_APPLY, [f"the cluster: {reason}"]
        except TimeoutError as reason:
            return SituationOutcome.DOES_NOT_APPLY, [
                f"what was to be struck did not come: {reason}"
            ]
        if reasons:
            return SituationOutcome.MISSED, reasons
        idle_fault = [fault.rule for fault in app.rules_that_must_strike if not fault.struck]
        if idle_fault:
            return SituationOutcome.DOES_NOT_APPLY, [f"it never sends {idle_fault[0].api}"]
        return SituationOutcome.PASSED, []

    async def _close_clients(self, app: Application) -> bool:
        """Close all open producers and consumers while the cluster still runs; False if the driver
        hangs.
        """
        try:
            for name in app.opened_names - app.dead_names:
                await app.close(name)
        except (NoAnswerError, MissError, NotAskedError):
            return False
        return True


def _build_result(
    situation: Situation, level: int, outcome: SituationOutcome, **result_fields: Any
) -> Result:
    return Result(
        situation=situation.name,
        kind=situation.kind,
        level=level,
        asks=situation.asks,
        outcome=outcome,
        **result_fields,
    )


def choose_situations(
    situations: Sequence[Situation], only: Sequence[str] = (), *, is_core_only: bool = False
) -> list[Situation]:
    """The situations whose name or kind begins with one of the words; all of them without words.

    Args:
        situations: The situations to choose from.
        only: The words.
        is_core_only: Whether only core situations are chosen, each at its newest level.

    Raises:
        ConfigError: A word matches no situation.
    """
    for word in only:
        if not any(_has_word_as_prefix(situation, word) for situation in situations):
            situation_names = ", ".join(situation.name for situation in situations)
            raise ConfigError(
                f"--only {word}: no situation is called so; there are {situation_names}"
            )
    matching = [
        situation
        for situation in situations
        if not only or any(_has_word_as_prefix(situation, word) for word in only)
    ]
    if not is_core_only:
        return matching
    newest_levels = ((situation, max(situation.levels)) for situation in matching if situation.core)
    return [
        msgspec.structs.replace(situation, levels=(level,)) for situation, level in newest_levels
    ]


def _has_word_as_prefix(situation: Situation, name_prefix: str) -> bool:
    return situation.name.startswith(name_prefix) or situation.kind.startswith(name_prefix)
