"""What a transaction costs under load, by counts that hardly depend on the machine: three brokers
that replicate and owe each other markers, 32 producers, real sockets.

In virtual time work takes no time, so the kept counts can't see when brokers fall behind.
"""

from __future__ import annotations

import shutil

import pytest

from benchmarks.calls import count_over_tcp
from benchmarks.quick import (
    KFAKE,
    LOADS,
    OURS,
    RETRIES_MAX,
    QuickLoad,
    QuickLoadFigures,
    describe_broken_bounds,
)

CALLS_SLACK, RETRIES_SLACK = 50, 0.4
"""The server is slowed down by the counter of calls, and the machine by other tests: both delay
markers. Where brokers had to wait for their turns, it were 400 calls more and 2.5 retries.
"""


def _figures(*, call_count: float, retry_count: float) -> QuickLoadFigures:
    cpu_ms = {OURS: 0.4, KFAKE: 0.1}
    return QuickLoadFigures(calls=call_count, retries=retry_count, cpu_ms=cpu_ms, per_second={})


@pytest.mark.costly
@pytest.mark.skipif(shutil.which("go") is None, reason="the load generator is a Go program")
@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.title)
def test_a_transaction_under_load_takes_no_more_calls_and_retries(load: QuickLoad) -> None:
    counted_load = count_over_tcp(load.brokers, load.txn_flow)
    call_count = sum(counted_load.calls_by_function.values())
    figures = _figures(
        call_count=call_count - CALLS_SLACK, retry_count=counted_load.retries - RETRIES_SLACK
    )
    assert not list(describe_broken_bounds(load, figures))


def test_a_broken_bound_is_named() -> None:
    load = QuickLoad(3, "old", 350)
    assert not list(describe_broken_bounds(load, _figures(call_count=350, retry_count=RETRIES_MAX)))
    assert list(describe_broken_bounds(load, _figures(call_count=816.4, retry_count=2.5))) == [
        "816 calls per transaction, at most 350",
        "2.50 retries per transaction, at most 0.1",
    ]


def test_a_ratio_is_of_this_tree_s_server_to_a_peer() -> None:
    assert _figures(call_count=1, retry_count=0).cpu_ratio(KFAKE) == pytest.approx(4)
