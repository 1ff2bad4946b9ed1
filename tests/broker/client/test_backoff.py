from __future__ import annotations

import asyncio
from collections.abc import Callable

from txnsim.client.backoff import Backoff, Deadline, pause


class Handle:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandClock:
    """A clock whose monotonic time is moved by its own timers, at once."""

    def __init__(self) -> None:
        self.time_ms = 1_000
        self.delays: list[float] = []
        self.handles: list[Handle] = []

    def now_ms(self) -> int:
        raise AssertionError("waiting is monotonic")

    @property
    def advanced_ms(self) -> int:
        raise AssertionError("waiting is monotonic")

    def monotonic_ms(self) -> int:
        return self.time_ms

    def monotonic_us(self) -> int:
        return self.time_ms * 1_000

    def stopwatch_ns(self) -> int:
        return self.time_ms * 1_000_000

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> Handle:
        raise AssertionError("waiting is monotonic")

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Handle:
        self.delays.append(delay_ms)
        self.time_ms += int(delay_ms)
        asyncio.get_running_loop().call_soon(callback)
        self.handles.append(Handle())
        return self.handles[-1]

    def advance(self, ms: int) -> None:
        raise AssertionError("waiting is monotonic")

    def shift(self, ms: int) -> None:
        raise AssertionError("waiting is monotonic")


async def test_a_pause_ends_with_its_timer_and_a_cancelled_one_disarms_it() -> None:
    clock = HandClock()
    await pause(clock, 5)
    assert clock.delays == [5]
    waiting = asyncio.gather(pause(clock, 9))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert clock.handles[-1].cancelled


def test_a_deadline_counts_down_to_0() -> None:
    clock = HandClock()
    deadline = Deadline(clock, 10)
    assert (deadline.left_ms, deadline.passed) == (10, False)
    clock.time_ms += 10
    assert (deadline.left_ms, deadline.passed) == (0, True)
    clock.time_ms += 10
    assert deadline.left_ms == 0


async def test_pauses_double_up_to_a_limit_and_never_pass_the_deadline() -> None:
    clock = HandClock()
    backoff = Backoff(clock, initial_ms=10, max_ms=50)
    for _ in range(4):
        await backoff.wait()
    assert clock.delays == [10, 20, 40, 50]
    await backoff.wait(Deadline(clock, 7))
    await backoff.wait(at_most_ms=3)
    assert clock.delays[-2:] == [7, 3]
