"""A machine whose clock differs from the others'."""

from __future__ import annotations

from tests.support.coordinator import START_MS, ManualClock
from txnsim.runtime.env import Clock
from txnsim.runtime.skewed_clock import SkewedClock


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
    clock, other = SkewedClock(cluster), SkewedClock(cluster)
    clock.shift(-1_000)
    clock.shift(10)
    assert (clock.now_ms(), clock.offset_ms, clock.advanced_ms) == (START_MS - 990, -990, -990)
    assert (cluster.now_ms(), other.now_ms()) == (START_MS, START_MS)
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
    later: list[int] = []
    clock.call_later(5, lambda: later.append(clock.monotonic_ms()))
    cluster.pass_ms(5)
    assert later == [5_005]
