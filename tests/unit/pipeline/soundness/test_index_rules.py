"""Sparse indexes against batches."""

from __future__ import annotations

from txnsim.pipeline.soundness.index_rules import Entries, IndexCheck
from txnsim.pipeline.soundness.violations import Broken
from txnsim.wire.batch import BatchHeader


def found(offsets: Entries = (), times: Entries = ()) -> list[tuple[str, int | None, bool]]:
    """Batches of two offsets and 100 bytes each, of timestamps 50, 60, 70."""
    check = IndexCheck(offsets, times, offsets_file="i", times_file="t")
    for number in range(3):
        timestamp = 50 + 10 * number
        check.take(
            BatchHeader(2 * number, 88, 0, 2, 0, 0, 1, timestamp, timestamp, -1, -1, -1, 2),
            100 * number,
        )
    return [_short(one) for one in check.finish()]


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
