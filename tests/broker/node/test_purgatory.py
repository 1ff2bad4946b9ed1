"""Parked work: answered once, by a touch, a release or the deadline, and then gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.coordinator import ManualClock
from txnsim.node import purgatory
from txnsim.node.purgatory import Purgatory
from txnsim.runtime.tasks import LoopTasks


class Bench:
    """A purgatory on a clock that moves by hand, and a condition to wait for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        tasks = LoopTasks(asyncio.get_running_loop())
        self.purgatory: Purgatory[str] = Purgatory(self.clock, tasks)
        self.met = False
        self.checks = 0

    def check(self, _key: str) -> bool:
        self.checks += 1
        return self.met

    async def park(self, *keys: str, timeout_ms: float = 100) -> Any:
        wait = self.purgatory.wait(keys, timeout_ms=timeout_ms, check=self.check)
        task = asyncio.get_running_loop().create_task(wait)
        await asyncio.sleep(0)
        return task

    def assert_empty(self) -> None:
        assert len(self.purgatory) == 0
        self.clock.pass_ms(1_000)
        assert self.clock.armed == 0, "the timer of all with one timeout is not armed for nobody"


@pytest.fixture(params=["few keys", "many keys"])
async def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    if request.param == "many keys":
        monkeypatch.setattr(purgatory, "WIDE", 0)
    return Bench()


async def test_a_touch_answers_once_the_condition_holds(bench: Bench) -> None:
    task = await bench.park("a", "b")
    bench.purgatory.touch("a")
    await asyncio.sleep(0)
    assert not task.done()
    bench.met = True
    bench.purgatory.touch("b")
    assert await task is True
    bench.assert_empty()
    assert bench.checks == 2


async def test_a_touch_of_another_key_checks_nothing(bench: Bench) -> None:
    task = await bench.park("a")
    bench.met = True
    bench.purgatory.touch("c")
    assert bench.checks == 0
    task.cancel()


async def test_the_deadline_is_monotonic_and_says_no(bench: Bench) -> None:
    task = await bench.park("a", timeout_ms=100)
    bench.clock.advance(1_000)
    bench.clock.pass_ms(99)
    await asyncio.sleep(0)
    assert not task.done(), "the cluster clock does not end a long poll"
    bench.clock.pass_ms(1)
    assert await task is False
    bench.assert_empty()


async def test_a_release_answers_whatever_the_condition(bench: Bench) -> None:
    first, second, other = await bench.park("a"), await bench.park("a", "b"), await bench.park("c")
    assert len(bench.purgatory) == 3
    bench.purgatory.release("a")
    assert (await first, await second) == (True, True)
    assert not other.done()
    bench.purgatory.release_all()
    assert await other is True
    bench.purgatory.release("a")
    bench.assert_empty()


async def test_a_cancelled_waiter_leaves_nothing_behind(bench: Bench) -> None:
    task = await bench.park("a", "b")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    bench.assert_empty()
    bench.purgatory.touch("a")
    assert bench.checks == 0


async def test_one_touch_answers_all_that_wait_oldest_first(bench: Bench) -> None:
    order: list[str] = []
    tasks = [await bench.park("a") for _ in "abc"]
    for name, task in zip("abc", tasks, strict=True):
        task.set_name(name)
        task.add_done_callback(lambda done: order.append(done.get_name()))
    bench.met = True
    bench.purgatory.touch("a")
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]


async def test_a_waiter_that_is_cancelled_after_its_answer_hears_nothing_twice(
    bench: Bench,
) -> None:
    task = await bench.park("a")
    bench.met = True
    bench.purgatory.touch("a")
    task.cancel()
    bench.clock.pass_ms(1_000)
    with pytest.raises(asyncio.CancelledError):
        await task
    bench.assert_empty()


async def test_those_with_one_timeout_share_a_timer_and_keep_their_deadlines(bench: Bench) -> None:
    first = await bench.park("a", timeout_ms=100)
    bench.clock.pass_ms(40)
    second, other = await bench.park("a", timeout_ms=100), await bench.park("a", timeout_ms=70)
    assert bench.clock.armed == 2
    bench.clock.pass_ms(60)
    await asyncio.sleep(0)
    assert await first is False
    assert not second.done()
    bench.clock.pass_ms(10)
    assert await other is False
    bench.clock.pass_ms(30)
    assert await second is False
    bench.assert_empty()


async def test_an_answer_does_not_interrupt_the_touch_that_caused_it(bench: Bench) -> None:
    task = await bench.park("a")
    bench.met = True
    bench.purgatory.touch("a")
    assert not task.done()
    assert await task is True


async def test_a_check_learns_what_was_touched(bench: Bench) -> None:
    touched: list[str] = []

    def check(key: str) -> bool:
        touched.append(key)
        return key == "b"

    waiting = asyncio.get_running_loop().create_task(
        bench.purgatory.wait(("a", "b"), timeout_ms=60_000, check=check)
    )
    await asyncio.sleep(0)
    bench.purgatory.touch("a")
    bench.purgatory.touch("b")
    assert await waiting
    assert touched == ["a", "b"]


async def test_what_happens_while_it_prepares_is_not_missed(bench: Bench) -> None:
    touched: list[str] = []
    gate = asyncio.Event()

    async def prepare() -> bool:
        await gate.wait()
        return bool(touched)

    def check(key: str) -> bool:
        touched.append(key)
        return False

    async def wait() -> bool:
        return await bench.purgatory.wait(("a", "b"), timeout_ms=100, check=check, prepare=prepare)

    task = asyncio.get_running_loop().create_task(wait())
    await asyncio.sleep(0)
    bench.purgatory.touch("b")
    assert touched == ["b"]
    gate.set()
    assert await task is True
    bench.assert_empty()


async def test_who_is_released_while_it_prepares_waits_no_more(bench: Bench) -> None:
    async def prepare() -> bool:
        bench.purgatory.release("a")
        return False

    waits = bench.purgatory.wait(("a",), timeout_ms=100, check=bench.check, prepare=prepare)
    assert await waits is True
    bench.assert_empty()
