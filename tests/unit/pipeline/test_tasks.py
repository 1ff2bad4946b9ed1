"""Works shared out to tasks, and columns as Arrow has them; workers are tried with Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from txnsim.pipeline.tasks import arrow_schema, shared_out


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


def test_every_plain_type_of_columns_is_known_to_arrow() -> None:
    columns = "a string, b int, c bigint, d boolean, e binary"
    kinds = [pa.string(), pa.int32(), pa.int64(), pa.bool_(), pa.binary()]
    assert arrow_schema(columns) == pa.schema(list(zip("abcde", kinds, strict=True)))
    with pytest.raises(KeyError):
        arrow_schema("a decimal")
