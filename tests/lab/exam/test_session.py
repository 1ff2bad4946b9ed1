"""What a session with a library notes, and how it says what was missed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from txnsim_lab.exam._driver import Answer, Driver, LibraryError, NoAnswerError
from txnsim_lab.exam._ledger import Entry, Told
from txnsim_lab.exam._session import DriverSession, without_repeats
from txnsim_lab.exam.results import MissError, NotAskedError

TIMED_OUT = LibraryError(name="TIMED_OUT", message="too late", retriable=True)


class Fake(Driver):
    """Answers what it was given, in order."""

    def __init__(self, *answers: Answer | LibraryError | None) -> None:
        self._given = list(answers)

    async def ask(self, do: str, **_arguments: Any) -> Answer:
        """The next one; none where it is None."""
        answer = self._given.pop(0)
        if answer is None:
            raise NoAnswerError(f"{do} hangs")
        if isinstance(answer, LibraryError):
            return Answer(id=1, ok=False, error=answer)
        return answer


async def test_every_command_is_a_step_with_its_answer() -> None:
    records = ((0, 3, "a-1"),)
    session = DriverSession(
        Fake(
            Answer(id=1, ok=True, offset=3), Answer(id=1, ok=True, records=records), TIMED_OUT, None
        )
    )
    await session.do("send", producer="p", value="a-1", wait=True, bootstrap="127.0.0.1:1")
    await session.do("poll", consumer="c")
    await session.do("send-offsets", offsets=[["input", 0, 3]])
    with pytest.raises(NoAnswerError):
        await session.do("commit", producer="p")
    assert session.steps == [
        "send producer=p value=a-1 wait=true: done, offset 3",
        "poll consumer=c: done, records a-1",
        "send-offsets offsets=input:0:3: TIMED_OUT (retriable) too late",
        "commit producer=p: no answer",
    ]
    assert session.errors == ["send-offsets: TIMED_OUT (retriable) too late"]


async def test_a_command_that_must_work_and_fails_is_a_miss() -> None:
    with pytest.raises(MissError, match="poll failed: TIMED_OUT"):
        await DriverSession(Fake(TIMED_OUT)).must("poll")
    with pytest.raises(MissError, match="poll failed without an error"):
        await DriverSession(Fake(Answer(id=1, ok=False))).must("poll")
    with pytest.raises(NotAskedError, match="no command poll"):
        await DriverSession(Fake(LibraryError(name="UNSUPPORTED_COMMAND"))).must("poll")


async def test_another_end_than_the_expected_one_is_told_with_the_librarys_errors() -> None:
    session = DriverSession(Fake(TIMED_OUT))
    entry = Entry(values=("a-1", "b-2"), told=Told.UNKNOWN)
    session.expect_told(entry, Told.UNKNOWN)
    await session.do("commit")
    with pytest.raises(MissError) as missed:
        session.expect_told(entry, Told.COMMITTED)
    assert str(missed.value) == (
        'the library says "unknown" of the transaction with a-1, b-2, and "committed" was expected;'
        " its errors: commit: TIMED_OUT (retriable) too late"
    )
    with pytest.raises(MissError, match="the reader gets: 1; expected: 2"):
        session.expect(1, 2, "the reader gets")


async def test_several_calls_have_a_time_together() -> None:
    session = DriverSession(Fake())
    with pytest.raises(MissError, match="closing takes longer than 0 s"):
        async with session.within(0, "closing"):
            await asyncio.Event().wait()


def test_the_same_step_again_and_again_is_one_line() -> None:
    assert list(without_repeats(["a", "b", "b", "b", "a"])) == ["a", "b (3 times)", "a"]
