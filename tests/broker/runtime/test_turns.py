"""Who waits for a turn goes on in order of what it has used and wants, and a turn has an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from txnsim.runtime.turns import (
    LOOK_ELEMENTS,
    LOOKS,
    ROUND,
    SLICE_NS,
    Pace,
    TimeSlices,
    Turns,
)

WORK_NS = 1_000_000
"""One piece of a worker's work."""


class Worker:
    """Has so many pieces of work."""

    def __init__(self, turns: Turns, log: list[str], name: str, pieces: int, *, wanted_ns: int = 0):
        self.turns, self.log, self.name = turns, log, name
        self.pieces, self.wanted_ns = pieces, wanted_ns
        self.used_ns = self.busy_period = 0
        self.on_done: Callable[[], None] = lambda: None
        turns.wait(self, wanted_ns=wanted_ns)

    def go_on(self, limit_ns: int) -> None:
        while self.pieces:
            self.pieces -= 1
            self.log.append(self.name)
            self.turns.spent_ns += WORK_NS
            self.used_ns += WORK_NS
            if self.turns.spent_ns >= limit_ns:
                break
        if self.pieces:
            self.turns.wait(self, wanted_ns=self.wanted_ns)
        else:
            self.on_done()


async def turns_taken(log: list[str]) -> list[int]:
    """How much was done in each turn of the loop."""
    found = []
    done = 0
    for _ in range(1000):
        await asyncio.sleep(0)
        if len(log) > done:
            found.append(len(log) - done)
        done = len(log)
    return found


async def test_one_worker_alone_takes_its_limit_in_each_turn() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = 10 * WORK_NS
    Worker(turns, log, "a", 25)
    assert await turns_taken(log) == [10, 10, 5]


async def test_those_who_wait_share_a_turn() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = 4 * WORK_NS
    for name in "ab":
        Worker(turns, log, name, 6)
    await turns_taken(log)
    assert log[:4] in (list("aabb"), list("aaab"))
    assert log.count("a") == log.count("b") == 6
    assert max(log.index("b"), 12 - log[::-1].index("a")) > 4, "neither had to wait for all"


async def test_a_newcomer_waits_for_none_of_the_work_that_others_have_queued() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = WORK_NS
    for number in range(20):
        Worker(turns, log, f"old{number}", 50)
    for _ in range(40):
        await asyncio.sleep(0)
    before = len(log)
    Worker(turns, log, "new", 1)
    await turns_taken(log)
    assert log.index("new") - before <= 20, "at most one piece of each who is ahead"


async def test_a_small_request_goes_ahead_of_large_ones() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = WORK_NS
    for number in range(20):
        Worker(turns, log, f"large{number}", 2, wanted_ns=100 * WORK_NS)
    Worker(turns, log, "small", 1, wanted_ns=100)
    await turns_taken(log)
    assert log[0] == "small"
    assert len(log) == 41


async def test_what_was_used_before_a_contest_does_not_count_in_it() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = WORK_NS
    veteran = Worker(turns, log, "veteran", 500)
    await turns_taken(log)
    veteran.pieces = 3
    Worker(turns, log, "new", 3)
    turns.wait(veteran, wanted_ns=0)
    await turns_taken(log)
    assert sorted(log[500:502]) == ["new", "veteran"]


async def test_work_that_is_caused_in_a_turn_waits_for_the_next_one() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = 10 * WORK_NS
    first = Worker(turns, log, "a", 1)
    first.on_done = lambda: Worker(turns, log, "b", 1) and None
    assert await turns_taken(log) == [1, 1]


async def slices_of(turns: Turns, log: list[str], name: str, count: int) -> None:
    """A large request."""
    slices = TimeSlices(turns)
    for _ in range(count):
        await slices.next()
        log.append(name)


async def test_a_turn_has_one_slice_however_many_requests_are_large() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    async with asyncio.TaskGroup() as tasks:
        for name in "abcdef":
            tasks.create_task(slices_of(turns, log, name, 5))
        assert set(await turns_taken(log)) == {1}
    assert "".join(log) == "".join(name * 5 for name in "abcdef"), "the oldest one first"


async def test_a_large_request_goes_to_the_end_of_the_line_after_a_round() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    async with asyncio.TaskGroup() as tasks:
        for name in "ab":
            tasks.create_task(slices_of(turns, log, name, ROUND + 1))
        for _ in range(ROUND * 3 // 2):
            await asyncio.sleep(0)
        tasks.create_task(slices_of(turns, log, "c", 1))
    assert "".join(log) == "a" * ROUND + "b" * ROUND + "acb"


async def test_a_client_has_as_much_of_the_loop_as_all_large_requests() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = WORK_NS
    async with asyncio.TaskGroup() as tasks:
        for number in range(30):
            tasks.create_task(slices_of(turns, log, f"large{number}", 10))
        await asyncio.sleep(0)
        Worker(turns, log, "small", 20)
        await turns_taken(log)
    assert log[:45].count("small") == 20


async def test_a_small_request_waits_for_no_slice_of_a_large_one() -> None:
    """Large requests that begin wait for their slices behind what wants less than a slice."""
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = 2 * SLICE_NS

    async def work(name: str) -> None:
        await TimeSlices(turns).next()
        log.append(name)

    tasks = [asyncio.get_running_loop().create_task(work(f"large{at}")) for at in range(30)]
    await asyncio.sleep(0)
    Worker(turns, log, "small", 1, wanted_ns=SLICE_NS // 20)
    await turns_taken(log)
    assert log[0] == "small"
    for task in tasks:
        await task


async def test_a_slice_that_is_not_waited_for_any_more_is_given_to_none() -> None:
    turns = Turns(asyncio.get_running_loop())
    slices = TimeSlices(turns)
    waiting = asyncio.get_running_loop().create_task(slices.next())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0.01)
    assert waiting.cancelled()
    await slices.next()


def test_a_large_request_rests_after_so_many_elements_where_no_time_passes() -> None:
    async def main() -> None:
        pace = Pace(Turns(asyncio.get_running_loop()), lambda: 0)
        done = 0
        while not pace.has_done(1):
            done += 1
        assert done + 1 == LOOKS * LOOK_ELEMENTS
        assert not pace.has_rested
        await pace.rest()
        assert pace.has_rested
        assert not pace.has_done(1), "a new slice"

    asyncio.run(main())


def test_it_rests_earlier_where_its_elements_take_long() -> None:
    async def main() -> None:
        now_ns = 0
        pace = Pace(Turns(asyncio.get_running_loop()), lambda: now_ns)
        assert not pace.has_done(LOOK_ELEMENTS)
        now_ns = SLICE_NS
        assert not pace.has_done(LOOK_ELEMENTS - 1), "the clock is looked at now and then"
        assert pace.has_done(1)

    asyncio.run(main())


def test_steps_are_gone_through_with_breaks() -> None:
    def steps() -> Generator[int, None, str]:
        for _ in range(10):
            yield LOOKS * LOOK_ELEMENTS // 4
        return "through"

    async def main() -> None:
        turns: list[int] = []
        loop = asyncio.get_running_loop()

        def turn() -> None:
            turns.append(1)
            loop.call_soon(turn)

        loop.call_soon(turn)
        assert await Pace(Turns(loop), lambda: 0).run(steps()) == "through"
        assert len(turns) >= 2

    asyncio.run(main())
