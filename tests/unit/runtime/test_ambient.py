"""Ambient clocks and chance lent to a virtual run."""

from __future__ import annotations

import random
import threading
import time
from contextlib import AbstractContextManager

import pytest

from txnsim.errors import NotSimulatedError, SimulationError
from txnsim.runtime.ambient import ambient_virtual

NAMES = (
    "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "time", "time_ns",
)  # fmt: skip


def lent(seed: int = 1) -> AbstractContextManager[None]:
    return ambient_virtual(
        monotonic_ns=lambda: 5_000_000_000, wall_ns=lambda: 9_500_000_000, seed=seed
    )


def test_clocks_answer_from_the_run_and_are_put_back() -> None:
    originals = [getattr(time, name) for name in NAMES]
    with lent():
        assert (time.monotonic(), time.perf_counter()) == (5.0, 5.0)
        assert (time.monotonic_ns(), time.perf_counter_ns()) == (5_000_000_000, 5_000_000_000)
        assert (time.time(), time.time_ns()) == (9.5, 9_500_000_000)
    assert [getattr(time, name) for name in NAMES] == originals


def test_clocks_and_chance_are_put_back_after_a_failure() -> None:
    original, state = time.time, random.getstate()

    def fail() -> None:
        with lent():
            random.random()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert time.time is original
    assert random.getstate() == state


def test_chance_follows_the_seed() -> None:
    draws = []
    for seed in (1, 1, 2):
        with lent(seed):
            draws.append(random.random())
    assert draws[0] == draws[1] != draws[2]


def test_other_threads_keep_real_time() -> None:
    seen: list[float] = []

    def look() -> None:
        seen.append(time.monotonic())
        time.sleep(0)

    real_before = time.monotonic()
    with lent():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen[0] >= real_before
    assert seen[0] != 5.0


def test_sleeping_for_real_is_refused() -> None:
    with lent(), pytest.raises(NotSimulatedError, match="await"):
        time.sleep(0)


def test_two_runs_at_once_are_refused() -> None:
    with lent(), pytest.raises(SimulationError, match="another"), lent():
        pytest.fail("entered")
    with lent():
        assert time.monotonic() == 5.0
