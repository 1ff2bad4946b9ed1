"""The conversation with a library through its driver: commands and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any, Final

from txnsim_lab.exam._driver import UNSUPPORTED_COMMAND, Answer, Driver, LibraryError
from txnsim_lab.exam._ledger import LedgerEntry, ReportedEnd, shorten_value, values_text
from txnsim_lab.exam.results import MissError, NotAskedError

OMITTED_ARGUMENTS: Final = ("bootstrap", "client_id")
"""Arguments that reports omit: they are the same in every command."""

BeforeCommand = Callable[[int], Awaitable[None]]


class DriverSession:
    """Sends commands to one driver, and keeps its answers."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.errors: list[str] = []
        """All errors that the library has reported."""
        self.steps: list[str] = []
        """All that was done, in order: commands with their answers, and faults."""
        self.before_command: BeforeCommand | None = None
        """Called before each command, with its number from 1 on."""
        self._command_text = 0

    async def do(self, verb: str, **arguments: Any) -> Answer:
        """Send one command; an error counts as an answer.

        Raises:
            MissError: The command fails without an error.
            NotAskedError: The driver has no such command.
        """
        self._command_text += 1
        if self.before_command is not None:
            await self.before_command(self._command_text)
        step, command = len(self.steps), _command_text(verb, arguments)
        self.steps.append(f"{command}: no answer")
        answer = await self._driver.ask(verb, **arguments)
        self.steps[step] = f"{command}: {_answer_text(answer)}"
        if answer.error is not None and not answer.ok:
            if answer.error.name == UNSUPPORTED_COMMAND:
                raise NotAskedError(f"the driver has no command {verb}")
            self.errors.append(f"{verb}: {_error_text(answer.error)}")
        elif not answer.ok:
            raise MissError(f"{verb} failed without an error")
        return answer

    async def must(self, verb: str, **arguments: Any) -> Answer:
        """Send one command, which must succeed.

        Raises:
            MissError: It fails.
        """
        answer = await self.do(verb, **arguments)
        self.expect_done(answer, verb)
        return answer

    # What it should have told

    def expect(self, actual: object, expected: object, subject: str) -> None:
        """Compare a value with the expected one.

        Raises:
            MissError: They differ.
        """
        if actual != expected:
            raise MissError(f"{subject}: {actual}; expected: {expected}")

    def expect_end(self, transaction: LedgerEntry, expected_end: ReportedEnd) -> None:
        """Compare the end that the library has reported for a transaction with the expected one.

        Raises:
            MissError: They differ.
        """
        if transaction.reported_end is not expected_end:
            values_phrase = f" with {values_text(transaction.values)}" if transaction.values else ""
            claim = (
                f'the library says "{transaction.reported_end}" of the transaction{values_phrase}'
            )
            raise MissError(f'{claim}, and "{expected_end}" was expected{self.after_errors}')

    def expect_done(self, answer: Answer, subject: str) -> None:
        """Check that a call has succeeded.

        Raises:
            MissError: It has failed.
        """
        if answer.error is not None:
            raise MissError(f"{subject} failed: {_error_text(answer.error)}")

    @asynccontextmanager
    async def within(self, seconds: float, subject: str) -> AsyncIterator[None]:
        """Limit the time that several calls of the library may take.

        Raises:
            MissError: They took longer.
        """
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise MissError(
                f"{subject} takes longer than {seconds:g} s{self.after_errors}"
            ) from None

    @property
    def after_errors(self) -> str:
        """The errors that the library has reported so far, worded as the end of a sentence."""
        return f"; its errors: {'; '.join(self.errors)}" if self.errors else ""


def without_repeats(steps: Iterable[str]) -> Iterator[str]:
    for step, equal_steps in groupby(steps):
        repeat_count = len(list(equal_steps))
        yield step if repeat_count == 1 else f"{step} ({repeat_count} times)"


def _command_text(verb: str, arguments: Mapping[str, Any]) -> str:
    argument_texts = (
        f"{argument_name}={_argument_text(argument_value)}"
        for argument_name, argument_value in arguments.items()
        if argument_name not in OMITTED_ARGUMENTS
    )
    return " ".join((verb, *argument_texts))


def _argument_text(argument_value: Any) -> str:
    match argument_value:
        case bool():
            return str(argument_value).lower()
        case list():
            return ",".join(":".join(map(str, argument_row)) for argument_row in argument_value)
        case _:
            return shorten_value(str(argument_value))


def _answer_text(answer: Answer) -> str:
    if answer.error is not None:
        return _error_text(answer.error)
    answer_parts = [f"offset {answer.offset}"] if answer.offset >= 0 else []
    if answer.records:
        answer_parts.append(f"records {values_text([value for _, _, value in answer.records])}")
    for places_name, offset_by_partition in (
        *(("positions", answer.positions), ("ends", answer.ends)),
        ("failed", answer.failed),
    ):
        if offset_by_partition:
            offset_texts = (
                f"{partition_number}:{offset}"
                for partition_number, offset in offset_by_partition.items()
            )
            answer_parts.append(f"{places_name} {', '.join(offset_texts)}")
    return ", ".join(("done", *answer_parts))


def _error_text(error: LibraryError) -> str:
    error_kinds = [
        error_kind
        for error_kind in ("retriable", "abortable", "fatal")
        if getattr(error, error_kind)
    ]
    kinds_text = ", ".join(error_kinds) or "no word on what to do"
    return f"{error.name} ({kinds_text}) {error.message}".rstrip()
