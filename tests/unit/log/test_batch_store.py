"""Finding batches by offset and by size."""

from __future__ import annotations

import pytest

from sim.log.batch_store import INDEX_INTERVAL_BYTES, BatchStore
from sim.wire.batch import assign
from tests.support.logs import plain


def store(*spans: tuple[int, int]) -> BatchStore:
    """Batches of (base offset, records), all of different sizes."""
    made = BatchStore()
    for base, count in spans:
        made.append(assign(plain(count), base_offset=base, leader_epoch=0), base)
    return made


SPANS = ((0, 3), (3, 1), (4, 2), (10, 2))  # compaction took 6 to 9 away


@pytest.mark.parametrize(
    ("offset", "index"), [(0, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3), (9, 3), (11, 3), (12, 4)]
)
def test_index_of_an_offset(offset: int, index: int) -> None:
    assert store(*SPANS).index_of(offset) == index


@pytest.mark.parametrize(
    ("upper", "count"),
    [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3), (9, 3), (11, 3), (12, 4), (99, 4)],
)
def test_batches_below_a_bound(upper: int, count: int) -> None:
    assert store(*SPANS).end_index_of(upper) == count


def test_batches_within_a_size() -> None:
    made = store(*SPANS)
    sizes = [len(made.batch(index)) for index in range(4)]
    assert made.size_bytes == sum(sizes)
    assert made.end_index_within(1, sizes[1] - 1) == 1
    assert made.end_index_within(1, sizes[1]) == 2
    assert made.end_index_within(1, sizes[1] + sizes[2]) == 3
    assert made.end_index_within(0, 1 << 30) == 4


def test_truncation_drops_the_batch_that_holds_the_offset() -> None:
    made = store(*SPANS)
    made.truncate_to(5)
    assert len(made) == 2
    assert made.last_offset(1) == 3
    made.append(assign(plain(), base_offset=4, leader_epoch=0), 4)
    assert made.index_of(4) == 2


def test_a_dropped_prefix_leaves_positions_where_they_were() -> None:
    made = store(*SPANS)
    position = made.position(2)
    assert made.drop_before(2) == ()
    dropped = made.drop_before(5)
    assert len(dropped) == 2
    assert made.position(0) == position
    assert made.base_offset(0) == made.first_offset(-1) == 4
    assert made.size_bytes == len(made.batch(0)) + len(made.batch(1))
    assert made.index_of(0) == 0
    made.drop_before(99)
    assert (len(made), made.size_bytes, made.first_offset(-1)) == (0, 0, -1)
    end = made.position(0)
    made.append(assign(plain(), base_offset=12, leader_epoch=0), 12)
    assert made.position(1) == end + made.size_bytes


def test_slices_hold_the_very_bytes() -> None:
    made = store(*SPANS)
    first, second = made.slice(1, 3)
    assert first is made.batch(1)
    assert second is made.batch(2)


def test_every_4_kib_a_batch_is_indexed() -> None:
    made = BatchStore()
    large = plain(value=b"x" * INDEX_INTERVAL_BYTES)
    for base in range(4):
        made.append(assign(large, base_offset=base, leader_epoch=0), base)
    # The first one never is: nothing lies before it (LogSegment.append).
    assert made.offset_behind(0) == 1
    assert made.offset_behind(made.position(1)) == 1
    assert made.offset_behind(made.position(1) + 1) == 2
    assert made.offset_behind(made.position(3) + 1) is None


def test_small_batches_are_not_indexed() -> None:
    assert store(*SPANS).offset_behind(0) is None


def test_index_entries_go_with_their_batches() -> None:
    made = BatchStore()
    large = plain(value=b"x" * INDEX_INTERVAL_BYTES)
    for base in range(5):
        made.append(assign(large, base_offset=base, leader_epoch=0), base)
    made.drop_before(2)
    assert made.offset_behind(0) == 2
    made.truncate_to(3)
    assert made.offset_behind(0) == 2
    made.append(assign(large, base_offset=3, leader_epoch=0), 3)
    assert made.offset_behind(made.position(1)) is None  # counting began anew
    made.append(assign(large, base_offset=4, leader_epoch=0), 4)
    assert made.offset_behind(made.position(1)) == 4
