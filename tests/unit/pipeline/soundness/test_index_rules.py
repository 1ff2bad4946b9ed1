"""Sparse indexes against batches."""

from __future__ import annotations

import numpy as np

from txnsim.pipeline.scan import kernel
from txnsim.pipeline.soundness.index_rules import Entries, IndexCheck
from txnsim.pipeline.soundness.violations import Broken


def found(offsets: Entries = (), times: Entries = ()) -> list[tuple[str, int | None, bool]]:
    """Batches of two offsets and 100 bytes each, of timestamps 50, 60, 70."""
    check = IndexCheck(offsets, times, offsets_file="i", times_file="t")
    rows = [_row(number) for number in range(3)]
    for some in (rows[:2], rows[2:]):
        check.take(np.array(some, dtype=np.int64).T)
    return [_short(one) for one in check.finish()]


def _row(number: int) -> list[int]:
    row = [0] * kernel.BATCH_COLUMNS
    row[kernel.POSITION], row[kernel.MAX_TIMESTAMP] = 100 * number, 50 + 10 * number
    row[kernel.BASE_OFFSET], row[kernel.LAST_OFFSET] = 2 * number, 2 * number + 1
    return row


def _short(broken: Broken) -> tuple[str, int | None, bool]:
    return broken.file, broken.offset, broken.is_notice


def test_entries_of_batches_are_sound() -> None:
    assert found([(3, 100), (5, 200)], [(60, 3), (70, 5)]) == []


def test_an_entry_points_at_a_batch() -> None:
    assert found([(3, 99)]) == [("i", 3, False)]
    assert found([(9, 300)]) == [("i", 9, False)]


def test_an_entry_has_the_batches_last_offset() -> None:
    assert found([(2, 100)]) == [("i", 2, False)]
    # Several batches at once, as followers before 4.0 appended.
    assert found([(5, 100)]) == [("i", 5, True)]


def test_entries_ascend() -> None:
    assert found([(5, 200), (3, 100)]) == [("i", 3, False)]
    assert found([], [(70, 5), (60, 3)]) == [("t", 3, False)]


def test_a_time_is_the_largest_of_its_batch() -> None:
    assert found([], [(61, 3)]) == [("t", 3, False)]
    assert found([], [(60, 2)]) == [("t", 2, True)]
    assert found([], [(61, 2)]) == [("t", 2, False)]
    assert found([], [(80, 7)]) == [("t", 7, False)]
