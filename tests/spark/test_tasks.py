"""Works shared out to tasks; workers are tried with Spark."""

from __future__ import annotations

import pytest

from txnsim_spark.tasks import shared_out


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([], []),
        ([60], [(60,)]),
        ([10, 20, 30, 1], [(10, 20, 30), (1,)]),
        ([1, 200, 1], [(1,), (200,), (1,)]),
    ],
)
def test_tasks_are_filled_in_order(sizes: list[int], tasks: list[tuple[int, ...]]) -> None:
    assert shared_out(sizes, 60, size_of=int) == tasks


def test_neighbours_that_go_together_are_not_parted() -> None:
    words = ["aa", "ab", "ba", "bb"]
    tasks = shared_out(
        words, 3, size_of=len, go_together=lambda before, after: before[0] == after[0]
    )
    assert tasks == [("aa", "ab"), ("ba", "bb")]
