"""Sparse indexes against batches."""

from __future__ import annotations

import numpy as np
import pytest

from txnsim_spark.scan import kernel
from txnsim_spark.soundness._index_rules import Entries, IndexCheck


def _row(number: int) -> list[int]:
    row = [0] * kernel.BATCH_COLUMNS
    row[kernel.POSITION], row[kernel.MAX_TIMESTAMP] = 100 * number, 50 + 10 * number
    row[kernel.BASE_OFFSET], row[kernel.LAST_OFFSET] = 2 * number, 2 * number + 1
    return row


@pytest.mark.parametrize(
    ("offsets", "times", "told"),
    [
        ([(3, 100), (5, 200)], [(60, 3), (70, 5)], []),
        # An entry points at a batch, and has its last offset.
        ([(3, 99)], [], [("i", 3, False)]),
        ([(9, 300)], [], [("i", 9, False)]),
        ([(2, 100)], [], [("i", 2, False)]),
        # Several batches at once, as followers before 4.0 appended.
        ([(5, 100)], [], [("i", 5, True)]),
        # Entries ascend.
        ([(5, 200), (3, 100)], [], [("i", 3, False)]),
        ([], [(70, 5), (60, 3)], [("t", 3, False)]),
        # A time is the largest of its batch.
        ([], [(61, 3)], [("t", 3, False)]),
        ([], [(60, 2)], [("t", 2, True)]),
        ([], [(61, 2)], [("t", 2, False)]),
        ([], [(80, 7)], [("t", 7, False)]),
    ],
)
def test_what_entries_say_of_batches(
    offsets: Entries, times: Entries, told: list[tuple[str, int, bool]]
) -> None:
    """Batches of two offsets and 100 bytes each, of timestamps 50, 60, 70."""
    check = IndexCheck(offsets, times, offsets_file="i", times_file="t")
    rows = [_row(number) for number in range(3)]
    for some in (rows[:2], rows[2:]):
        check.take(np.array(some, dtype=np.int64).T)
    assert [(one.file, one.offset, one.is_notice) for one in check.finish()] == told
