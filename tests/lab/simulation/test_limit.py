from __future__ import annotations

import threading
import time  # noqa: TID251 - measures CPU time

import msgspec
import pytest

from tests.support.plans import leaderless_plan
from txnsim_lab.simulation import batch
from txnsim_lab.simulation._limit import OverLimitError, processor_limit
from txnsim_lab.simulation.batch import row_of
from txnsim_lab.simulation.drawing import Wanted
from txnsim_lab.simulation.play import OVER_LIMIT, play

TINY_S = 0.02


def endless() -> None:
    while True:
        pass


def endless_to_the_last() -> None:
    try:
        endless()
    finally:
        endless()


def test_what_goes_on_for_ever_ends() -> None:
    with pytest.raises(OverLimitError), processor_limit(TINY_S):
        endless()


def test_cleaning_up_may_not_go_on_for_ever_either() -> None:
    with pytest.raises(OverLimitError), processor_limit(TINY_S, again_s=TINY_S):
        endless_to_the_last()


class Slow:
    """Takes longer than the limit to go."""

    def __del__(self) -> None:
        began_s = time.process_time()
        while time.process_time() - began_s < 3 * TINY_S:
            pass


def test_an_exception_that_a_finalizer_would_swallow_comes_behind_it() -> None:
    def busy() -> None:
        Slow()
        endless()

    with pytest.raises(OverLimitError), processor_limit(TINY_S, again_s=60):
        busy()


def test_other_threads_have_no_limit() -> None:
    ended: list[bool] = []

    def work() -> None:
        with processor_limit(TINY_S):
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]


async def stubborn(_guest: object) -> None:
    try:
        endless()
    except OverLimitError:
        raise AssertionError("what was cut off is not as it was expected") from None


def test_a_run_that_ends_with_another_error_is_over_its_limit_all_the_same() -> None:
    plan = msgspec.structs.replace(leaderless_plan(), workload=f"{__name__}:stubborn")
    assert OVER_LIMIT in play(plan, cpu_s=0.5).kinds


def test_a_coroutine_that_was_made_and_not_begun_is_no_warning() -> None:
    async def never() -> None: ...

    def struck() -> object:
        waiting = never()
        while True:
            sum(range(1_000))
        return waiting

    with pytest.raises(OverLimitError), processor_limit(0.01):
        struck()


def test_a_run_over_its_limit_is_a_finding_and_the_next_run_is_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = leaderless_plan()
    alone = play(plan).digest
    assert OVER_LIMIT in play(plan, cpu_s=0.001).kinds
    assert play(plan, cpu_s=60).digest == alone
    monkeypatch.setattr(batch, "draw", lambda seed, wanted: plan)
    row = row_of(7, Wanted(), cpu_s=0.001)
    assert (row.seed, row.kinds, row.digest, row.mode) == (7, (OVER_LIMIT,), "", "TV2+")
    assert row.because == ("over-limit: it took more than 0.001 s of processor time",)
