"""The laws of share groups in the exam, on answers that a driver might give."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.lab.exam.test_exam import Fake
from txnsim_lab.exam._application import Application
from txnsim_lab.exam._driver import Answer, LibraryError
from txnsim_lab.exam._session import DriverSession
from txnsim_lab.exam._sharers import EMPTY_POLLS, POLLS_MAX, Sharers
from txnsim_lab.exam.results import MissError
from txnsim_lab.exam.situations import SITUATIONS


def got(*values: str) -> Answer:
    records = tuple((0, offset, value) for offset, value in enumerate(values))
    return Answer(id=1, ok=True, records=records)


DONE = Answer(id=1, ok=True)
FAILED = Answer(id=1, ok=True, failed={"0": "INVALID_RECORD_STATE"})
ERROR = LibraryError(name="TIMED_OUT", message="too late")


def sharers(*answers: Answer | LibraryError) -> Sharers:
    session: Any = DriverSession(Fake(*answers))
    return Sharers(cast(Application, session), isolation="read_committed", configs={})


async def test_what_is_accepted_or_rejected_is_not_given_again() -> None:
    for acknowledge_type in ("accept", "reject"):
        group = sharers(got("a"), DONE, DONE, got("b", "a"))
        assert await group.get() == ["a"]
        await group.must_acknowledge(acknowledge_type)
        with pytest.raises(
            MissError, match=f"the library called a {acknowledge_type}ed, and gives it again"
        ):
            await group.poll()


async def test_what_is_released_or_failed_may_come_again() -> None:
    group = sharers(
        *(got("a"), DONE, DONE),
        *(got("a"), DONE, FAILED),
        *(got("a"), ERROR),
        *(got("a"), DONE, ERROR),
        *(got("a"), DONE, DONE),
    )
    await group.get()
    await group.must_acknowledge("release")
    for _ in range(3):
        await group.get()
        assert not await group.acknowledge("accept")
    assert group.accepted_values == set()
    await group.get()
    await group.must_acknowledge("accept")
    assert group.accepted_values == {"a"}


async def test_what_is_renewed_is_held_on() -> None:
    group = sharers(got("a"), DONE, DONE, DONE, DONE)
    await group.get()
    await group.must_acknowledge("renew")
    await group.must_acknowledge("accept")
    assert group.accepted_values == {"a"}


async def test_work_names_what_is_missing_and_what_is_too_much() -> None:
    empty = [got()] * POLLS_MAX
    with pytest.raises(MissError, match="b never came, or was never accepted"):
        await sharers(got("a"), DONE, DONE, *empty).work(wanted_values=("a", "b"))
    with pytest.raises(MissError, match="lost was given, though it was never committed"):
        await sharers(got("a", "lost"), DONE, DONE, *empty).work(wanted_values=("a",))
    await sharers(got("a"), DONE, DONE, *empty[:EMPTY_POLLS]).work(wanted_values=("a",))


async def test_a_member_gets_nothing_or_something() -> None:
    await sharers(*[got()] * EMPTY_POLLS).gets_nothing()
    with pytest.raises(MissError, match=r"the member gets: \['a'\]; expected: \[\]"):
        await sharers(got(), got("a")).gets_nothing()
    with pytest.raises(MissError, match="m gets nothing; its errors: share-poll: TIMED_OUT"):
        await sharers(*[ERROR] * POLLS_MAX).get()
    group = sharers(got("a"), DONE, FAILED)
    await group.get()
    with pytest.raises(MissError, match="accept failed"):
        await group.must_acknowledge("accept")


def test_each_situation_says_what_it_is_judged_by() -> None:
    share_situations = [situation for situation in SITUATIONS if situation.kind == "share groups"]
    assert len(share_situations) == 19
    assert all(situation.yardstick and situation.levels == (2,) for situation in share_situations)
