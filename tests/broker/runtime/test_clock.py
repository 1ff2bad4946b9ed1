"""Clocks, chance, and what watches over both."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.coordinator import START_MS, ManualClock
from txnsim.runtime.clock import (
    ARM_MS_MAX,
    SLICE_NS,
    STANDSTILL_MS,
    LoopClock,
    SkewedClock,
    stood_still,
)
from txnsim.runtime.environment import Clock
from txnsim.runtime.rng import RandomStreams, derive, random_seed
from txnsim.runtime.switch_interval import SWITCH_S, short_switch_interval
from txnsim.runtime.virtual.run import VirtualLoop
from txnsim.runtime.wall_clock import wall_ms

# The cluster clock and the monotonic clock, on a virtual loop.


class ClockBench:
    """A clock, the loop under it, and the wall time that a test may shift."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.wall_shift_ns = 0
        self.clock = LoopClock(
            self.loop,
            read_wall_ns=self.wall_ns,
            read_monotonic_ns=self.loop.time_ns,
            monotonic_start_ms=555,
        )
        self.fired: list[tuple[str, int]] = []
        self.errors: list[object] = []
        self.loop.set_exception_handler(
            lambda _, context: self.errors.append(context.get("exception"))
        )

    def wall_ns(self) -> int:
        return self.loop.time_ns() - 1_000_000_000_000 + START_MS * 1_000_000 + self.wall_shift_ns

    def note(self, name: str) -> Callable[[], None]:
        return lambda: self.fired.append((name, self.clock.now_ms() - START_MS))

    def run_for(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def clock_bench() -> Iterator[ClockBench]:
    clock_bench = ClockBench()
    yield clock_bench
    clock_bench.clock.close()
    clock_bench.loop.close()
    assert clock_bench.errors == []


def test_time_passes_on_both_clocks(clock_bench: ClockBench) -> None:
    assert (clock_bench.clock.now_ms(), clock_bench.clock.monotonic_ms()) == (START_MS, 555)
    clock_bench.run_for(1.5)
    assert clock_bench.clock.now_ms() == START_MS + 1_500
    assert clock_bench.clock.monotonic_ms() == 555 + 1_500
    assert clock_bench.clock.monotonic_us() == 1_500_000


def test_an_advance_moves_the_cluster_clock_alone(clock_bench: ClockBench) -> None:
    clock_bench.clock.advance(3_600_000)
    assert clock_bench.clock.now_ms() == START_MS + 3_600_000
    assert clock_bench.clock.advanced_ms == 3_600_000
    assert (clock_bench.clock.monotonic_ms(), clock_bench.clock.monotonic_us()) == (555, 0)


def test_an_advance_never_goes_back(clock_bench: ClockBench) -> None:
    with pytest.raises(ValueError, match="-1"):
        clock_bench.clock.advance(-1)


def test_a_clock_that_is_set_back_tells_an_earlier_time_and_no_time_has_passed(
    clock_bench: ClockBench,
) -> None:
    clock_bench.clock.advance(10_000)
    clock_bench.clock.shift(-60_000)
    assert clock_bench.clock.now_ms() == START_MS - 50_000
    assert clock_bench.clock.advanced_ms == -50_000
    assert clock_bench.clock.monotonic_ms() == 555


def test_timers_keep_the_time_they_have_left_when_the_clock_is_set_back(
    clock_bench: ClockBench,
) -> None:
    for left_ms in (2_000, 1_000, 3_000):
        clock_bench.clock.call_at(START_MS + left_ms, clock_bench.note(str(left_ms)))
    clock_bench.run_for(0.5)
    clock_bench.clock.shift(-3_600_000)
    clock_bench.clock.call_at(clock_bench.clock.now_ms() + 1_000, clock_bench.note("new"))
    clock_bench.run_for(1)
    assert [name for name, _ in clock_bench.fired] == ["1000", "new"]
    clock_bench.run_for(1.5)
    assert [name for name, _ in clock_bench.fired] == ["1000", "new", "2000", "3000"]
    assert clock_bench.fired[-1][1] == 3_000 - 3_600_000


def test_a_clock_that_is_set_ahead_fires_nothing_early(clock_bench: ClockBench) -> None:
    clock_bench.clock.call_at(START_MS + 10, clock_bench.note("in its own time"))
    clock_bench.clock.shift(3_600_000)
    assert (clock_bench.clock.now_ms(), clock_bench.fired) == (START_MS + 3_600_000, [])
    clock_bench.run_for(0.005)
    assert clock_bench.fired == []
    clock_bench.run_for(0.005)
    assert clock_bench.fired == [("in its own time", 3_600_010)]


def test_a_timer_may_set_the_clock_back(clock_bench: ClockBench) -> None:
    clock_bench.clock.call_at(START_MS + 20, clock_bench.note("left with 10 ms"))
    clock_bench.clock.call_at(START_MS + 10, lambda: clock_bench.clock.shift(-1_000))
    clock_bench.run_for(0.015)
    assert clock_bench.fired == []
    clock_bench.run_for(0.005)
    assert clock_bench.fired == [("left with 10 ms", 20 - 1_000)]


def test_timers_fire_at_their_deadlines_without_an_advance(clock_bench: ClockBench) -> None:
    for deadline in (30, 10, 29):
        clock_bench.clock.call_at(START_MS + deadline, clock_bench.note(str(deadline)))
    clock_bench.run_for(1)
    assert clock_bench.fired == [("10", 10), ("29", 29), ("30", 30)]


def test_an_advance_fires_what_is_due_in_order_of_deadlines(clock_bench: ClockBench) -> None:
    for deadline in (5_000, 3_000, 20_000, 4_000):
        clock_bench.clock.call_at(START_MS + deadline, clock_bench.note(str(deadline)))
    clock_bench.clock.advance(10_000)
    assert clock_bench.fired == [("3000", 10_000), ("4000", 10_000), ("5000", 10_000)]
    clock_bench.run_for(10)
    assert clock_bench.fired[3:] == [("20000", 20_000)]


def test_equal_deadlines_fire_in_the_order_of_arming(clock_bench: ClockBench) -> None:
    for name in "abcde":
        clock_bench.clock.call_at(START_MS + 10, clock_bench.note(name))
    clock_bench.run_for(1)
    assert [name for name, _ in clock_bench.fired] == list("abcde")


def test_a_deadline_in_the_past_fires_in_a_later_turn(clock_bench: ClockBench) -> None:
    clock_bench.clock.call_at(START_MS - 10, clock_bench.note("late"))
    assert clock_bench.fired == []
    clock_bench.run_for(0.001)
    assert clock_bench.fired == [("late", 0)]


def test_a_timer_armed_by_a_timer_fires_in_the_same_advance_if_due(clock_bench: ClockBench) -> None:
    def rearm() -> None:
        clock_bench.note("first")()
        clock_bench.clock.call_at(START_MS + 2_000, clock_bench.note("second"))
        clock_bench.clock.call_at(START_MS + 60_000, clock_bench.note("third"))

    clock_bench.clock.call_at(START_MS + 1_000, rearm)
    clock_bench.clock.advance(5_000)
    assert [name for name, _ in clock_bench.fired] == ["first", "second"]
    clock_bench.run_for(55)
    assert clock_bench.fired[2:] == [("third", 60_000)]


def test_an_advance_within_a_timer_moves_on_at_once_and_fires_afterwards(
    clock_bench: ClockBench,
) -> None:
    def advance() -> None:
        clock_bench.clock.advance(10_000)
        clock_bench.note("advanced")()

    clock_bench.clock.call_at(START_MS + 5_000, clock_bench.note("in between"))
    clock_bench.clock.call_at(START_MS + 1_000, advance)
    clock_bench.clock.advance(1_000)
    assert clock_bench.fired == [("advanced", 11_000), ("in between", 11_000)]


def test_a_cancelled_timer_never_fires(clock_bench: ClockBench) -> None:
    timers = [
        clock_bench.clock.call_at(START_MS + due_in_ms, clock_bench.note(str(due_in_ms)))
        for due_in_ms in (10, 20, 30)
    ]
    timers[1].cancel()
    timers[1].cancel()
    clock_bench.run_for(1)
    timers[0].cancel()
    assert [name for name, _ in clock_bench.fired] == ["10", "30"]


def test_a_timer_may_cancel_one_that_is_due_with_it(clock_bench: ClockBench) -> None:
    second_timer = clock_bench.clock.call_at(START_MS + 20, clock_bench.note("second"))
    clock_bench.clock.call_at(START_MS + 10, second_timer.cancel)
    clock_bench.clock.advance(100)
    assert clock_bench.fired == []


def test_cancelled_timers_do_not_pile_up(clock_bench: ClockBench) -> None:
    clock_bench.clock.call_at(START_MS + 60_000, clock_bench.note("kept"))
    for _ in range(10_000):
        clock_bench.clock.call_at(START_MS + 30_000, clock_bench.note("cancelled")).cancel()
    assert len(clock_bench.clock._timers) < 200
    clock_bench.clock.advance(60_000)
    assert [name for name, _ in clock_bench.fired] == ["kept"]


def test_a_failing_timer_is_reported_and_loses_no_other(clock_bench: ClockBench) -> None:
    def fail() -> None:
        raise ValueError("broken")

    clock_bench.clock.call_at(START_MS + 10, fail)
    clock_bench.clock.call_at(START_MS + 10, clock_bench.note("next"))
    clock_bench.clock.advance(10)
    assert clock_bench.fired == [("next", 10)]
    assert [str(error) for error in clock_bench.errors] == ["broken"]
    clock_bench.errors.clear()


def test_a_jump_of_wall_time_is_noticed_within_a_minute(clock_bench: ClockBench) -> None:
    clock_bench.clock.call_at(START_MS + 3_600_000, clock_bench.note("hour"))
    clock_bench.wall_shift_ns = 3_600_000 * 1_000_000
    clock_bench.run_for(ARM_MS_MAX / 1_000)
    assert [name for name, _ in clock_bench.fired] == ["hour"]


def test_wall_time_that_is_set_back_delays_a_timer_until_its_deadline(
    clock_bench: ClockBench,
) -> None:
    clock_bench.clock.call_at(START_MS + 1_000, clock_bench.note("second"))
    clock_bench.wall_shift_ns = -500 * 1_000_000
    clock_bench.run_for(2)
    assert clock_bench.fired == [("second", 1_000)]


def test_a_timer_runs_in_the_context_that_armed_it(clock_bench: ClockBench) -> None:
    name: ContextVar[str] = ContextVar("name", default="none")
    names_seen = []
    name.set("armer")
    clock_bench.clock.call_at(START_MS + 10, lambda: names_seen.append(name.get()))
    name.set("advancer")
    clock_bench.clock.advance(10)
    assert names_seen == ["armer"]


def test_call_later_counts_monotonic_time(clock_bench: ClockBench) -> None:
    clock_bench.clock.call_later(250, clock_bench.note("later"))
    cancelled_timer = clock_bench.clock.call_later(250, clock_bench.note("cancelled"))
    cancelled_timer.cancel()
    clock_bench.clock.advance(10_000)
    assert clock_bench.fired == []
    clock_bench.run_for(1)
    assert clock_bench.fired == [("later", 10_250)]


def test_a_closed_clock_fires_nothing_more(clock_bench: ClockBench) -> None:
    clock_bench.clock.call_at(START_MS + 10, clock_bench.note("never"))
    clock_bench.clock.close()
    clock_bench.run_for(1)
    clock_bench.clock.advance(100)
    assert clock_bench.fired == []


async def test_an_advance_with_breaks_fires_the_same_and_lets_others_come_between() -> None:
    """Ten thousand transactions may time out in one advance."""
    now_ns, fired, between = 0, [], 0
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop, read_wall_ns=lambda: 10**15, read_monotonic_ns=lambda: now_ns)

    def fire(timer_number: int) -> None:
        nonlocal now_ns
        now_ns += SLICE_NS // 2
        fired.append(timer_number)

    def look() -> None:
        nonlocal between
        between += 1
        if len(fired) < 10:
            loop.call_soon(look)

    for timer_number in range(10):
        clock.call_at(clock.now_ms() + timer_number, partial(fire, timer_number))
    loop.call_soon(look)
    await clock.advance_with_breaks(10)
    assert fired == list(range(10))
    assert between >= 4
    clock.close()


async def test_due_timers_have_breaks() -> None:
    """Periodic work of many partitions comes at the same moment."""
    now_ns, fired, between = 0, [], 0
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop, read_wall_ns=lambda: 10**15, read_monotonic_ns=lambda: now_ns)

    def fire(timer_number: int) -> None:
        nonlocal now_ns
        now_ns += SLICE_NS
        fired.append(timer_number)

    for timer_number in range(5):
        clock.call_at(clock.now_ms(), partial(fire, timer_number))
    while len(fired) < 5:
        await asyncio.sleep(0)
        between += 1
    assert fired == list(range(5))
    assert between >= 5
    clock.close()


def test_it_agrees_with_the_cluster_until_it_is_set() -> None:
    cluster = ManualClock()
    clock: Clock = SkewedClock(cluster)
    cluster.advance(5)
    cluster.pass_ms(7)
    assert clock.now_ms() == START_MS + 5
    assert clock.advanced_ms == cluster.advanced_ms
    assert (clock.monotonic_ms(), clock.monotonic_us()) == (5_007, 5_007_000)


def test_setting_it_moves_no_other_clock() -> None:
    cluster = ManualClock()
    clock, other_clock = SkewedClock(cluster), SkewedClock(cluster)
    clock.shift(-1_000)
    clock.shift(10)
    assert (clock.now_ms(), clock.offset_ms, clock.advanced_ms) == (START_MS - 990, -990, -990)
    assert (cluster.now_ms(), other_clock.now_ms()) == (START_MS, START_MS)
    assert clock.monotonic_ms() == cluster.monotonic_ms()


def test_a_timer_goes_by_its_machines_clock() -> None:
    cluster = ManualClock()
    clock = SkewedClock(cluster)
    clock.shift(-1_000)
    fired: list[int] = []
    clock.call_at(clock.now_ms() + 10, lambda: fired.append(clock.now_ms()))
    cluster.advance(9)
    assert fired == []
    cluster.advance(1)
    assert fired == [START_MS - 990]


def test_a_timer_keeps_the_time_it_has_left_when_the_clock_is_set() -> None:
    cluster = ManualClock()
    clock = SkewedClock(cluster)
    fired: list[str] = []
    clock.call_at(clock.now_ms() + 10, lambda: fired.append("periodic"))
    clock.shift(3_600_000)
    cluster.advance(9)
    clock.shift(-7_200_000)
    assert fired == []
    cluster.advance(1)
    assert fired == ["periodic"]


def test_time_passes_on_all_clocks() -> None:
    cluster = ManualClock()
    clock = SkewedClock(cluster)
    clock.advance(30)
    assert cluster.now_ms() == START_MS + 30
    cluster.shift(-40)
    assert (cluster.now_ms(), clock.now_ms()) == (START_MS - 10, START_MS - 10)
    later_times: list[int] = []
    clock.call_later(5, lambda: later_times.append(clock.monotonic_ms()))
    cluster.pass_ms(5)
    assert later_times == [5_005]


# Named streams of chance.


def test_a_name_gives_the_same_stream_object_every_time() -> None:
    random_streams = RandomStreams(7)
    assert random_streams.stream("link.b1-b2") is random_streams.stream("link.b1-b2")


@given(seed=st.integers(), name=st.text(max_size=40))
def test_seed_and_name_determine_the_draws(seed: int, name: str) -> None:
    draws = [RandomStreams(seed).stream(name).random() for _ in range(2)]
    assert draws[0] == draws[1]


def test_a_new_stream_does_not_shift_another() -> None:
    lone_streams, disturbed_streams = RandomStreams(7), RandomStreams(7)
    disturbed_streams.stream("b").random()
    drawn_alone = [lone_streams.stream("a").random() for _ in range(3)]
    second_numbers = []
    for _ in range(3):
        second_numbers.append(disturbed_streams.stream("a").random())
        disturbed_streams.stream("c").random()
    assert drawn_alone == second_numbers


def test_streams_differ_by_name_and_by_seed() -> None:
    derived = {derive(seed, stream_name) for seed in (1, 2, -1) for stream_name in ("a", "b", "")}
    assert len(derived) == 9


def test_long_seeds_differ_in_any_digit() -> None:
    assert derive(10**80 + 1, "a") != derive(10**80 + 2, "a")


def test_derivation_does_not_depend_on_the_hash_seed() -> None:
    code = "from txnsim.runtime.rng import derive; print(derive(7, 'link.b1-b2'))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert outputs == {f"{derive(7, 'link.b1-b2')}\n"}


def test_random_seeds_are_fit_for_a_command_line() -> None:
    seed = random_seed()
    assert 0 <= seed < 2**48


# How often the interpreter's lock changes hands beside a thread that works.


def test_the_last_of_several_gives_it_back() -> None:
    interval_before = sys.getswitchinterval()
    barrier, interval_read_event = threading.Barrier(2), threading.Event()

    def work(*, is_last: bool) -> float:
        with short_switch_interval():
            barrier.wait(30)
            if is_last:
                interval_read_event.wait(30)
                return sys.getswitchinterval()
        return 0.0

    with ThreadPoolExecutor(2) as threads:
        last_work_future = threads.submit(work, is_last=True)
        threads.submit(work, is_last=False).result(30)
        interval_read_event.set()
        assert last_work_future.result(30) == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == interval_before


# What comes late tells that the process stood still.


@pytest.mark.parametrize(
    ("late_ms", "has_stood_still"), [(-1, False), (STANDSTILL_MS - 1, False), (STANDSTILL_MS, True)]
)
def test_a_timer_that_comes_late(late_ms: int, has_stood_still: bool) -> None:
    assert stood_still(7_000.5 - 0.5, 7_000 + late_ms) is has_stood_still


# The wall clock without an event loop.


def test_it_needs_no_event_loop() -> None:
    before_ms = time.time_ns() // 1_000_000
    assert before_ms <= wall_ms() <= time.time_ns() // 1_000_000
