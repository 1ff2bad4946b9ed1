"""One segment: finding batches by offset and by size, and when it ends."""

from __future__ import annotations

import copy

import pytest

from tests.support.logs import NOW, plain
from txnsim.log.config import LogConfig
from txnsim.log.segment import Segment, max_timestamp_of
from txnsim.releases.rules import LATEST
from txnsim.wire.batch import assign, read_batch_header

INTERVAL = 4096


def add(segment: Segment, data: bytes, base: int, *, now: int = NOW) -> None:
    stored = assign(data, base_offset=base, leader_epoch=0)
    header = read_batch_header(stored)
    segment.append(
        stored, base, header.last_offset, max_timestamp=header.max_timestamp_ms, now_ms=now
    )


def segment_of(*spans: tuple[int, int]) -> Segment:
    """Batches of (base offset, records), all of different sizes."""
    made = Segment(0)
    for base, count in spans:
        add(made, plain(count), base)
    return made


SPANS = ((0, 3), (3, 1), (4, 2), (10, 2))  # compaction took 6 to 9 away


@pytest.mark.parametrize(
    ("offset", "index"), [(0, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3), (9, 3), (11, 3), (12, 4)]
)
def test_index_of_an_offset(offset: int, index: int) -> None:
    assert segment_of(*SPANS).index_of(offset) == index


def test_offsets_before_the_first_batch_are_found_there() -> None:
    assert segment_of((5, 1)).index_of(2) == 0


@pytest.mark.parametrize(
    ("upper", "count"),
    [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3), (9, 3), (11, 3), (12, 4), (99, 4)],
)
def test_batches_below_a_bound(upper: int, count: int) -> None:
    assert segment_of(*SPANS).end_index_of(upper) == count


def test_batches_within_a_size() -> None:
    made = segment_of(*SPANS)
    sizes = [len(made.batch(index)) for index in range(4)]
    assert made.size_bytes == sum(sizes)
    assert Segment(0).size_bytes == 0
    assert made.end_index_within(1, sizes[1] - 1) == 1
    assert made.end_index_within(1, sizes[1]) == 2
    assert made.end_index_within(1, sizes[1] + sizes[2]) == 3
    assert made.end_index_within(0, 1 << 30) == 4


def test_slices_hold_the_very_bytes() -> None:
    made = segment_of(*SPANS)
    first, second = made.slice(1, 3)
    assert first is made.batch(1)
    assert second is made.batch(2)
    assert list(made.batches())[1] is first
    assert made.batch_base(3) == 10


def test_truncation_drops_the_batch_that_holds_the_offset() -> None:
    made = segment_of(*SPANS)
    made.truncate_to(5, now_ms=NOW)
    assert len(made) == 2
    assert made.last_offset(1) == 3
    add(made, plain(), 4)
    assert made.index_of(4) == 2


def test_every_4_kib_a_batch_is_indexed() -> None:
    made = Segment(0)
    large = plain(value=b"x" * INTERVAL)
    for base in range(4):
        add(made, large, base)
    # The first one never is: nothing lies before it (LogSegment.append).
    assert made.offset_behind(0) == 1
    assert made.offset_behind(made.position(1)) == 1
    assert made.offset_behind(made.position(1) + 1) == 2
    assert made.offset_behind(made.position(3) + 1) is None


def test_small_batches_are_not_indexed() -> None:
    assert segment_of(*SPANS).offset_behind(0) is None


def test_the_interval_of_the_index_is_a_config() -> None:
    made = Segment(0, index_interval_bytes=0)
    for base in range(2):
        add(made, plain(), base)
    assert made.offset_behind(0) == 1


def test_index_entries_go_with_their_batches() -> None:
    made = Segment(0)
    large = plain(value=b"x" * INTERVAL)
    for base in range(5):
        add(made, large, base)
    made.truncate_to(3, now_ms=NOW)
    assert made.offset_behind(0) == 1
    assert made.offset_behind(made.position(1) + 1) == 2
    add(made, large, 3)
    assert made.offset_behind(made.position(3)) is None  # counting began anew
    add(made, large, 4)
    assert made.offset_behind(made.position(3)) == 4


def test_timestamps_are_remembered_and_recounted_after_truncation() -> None:
    made = Segment(0)
    for base, stamp in enumerate((NOW + 5, NOW + 9, NOW + 7)):
        add(made, plain(timestamp=stamp), base)
    assert (made.first_timestamp, made.max_timestamp) == (NOW + 5, NOW + 9)
    made.truncate_to(1, now_ms=NOW)
    assert (made.first_timestamp, made.max_timestamp) == (NOW + 5, NOW + 5)
    made.truncate_to(0, now_ms=NOW + 50)
    assert (made.first_timestamp, made.max_timestamp, made.created_ms) == (-1, -1, NOW + 50)
    add(made, plain(timestamp=NOW + 60), 0)
    assert made.first_timestamp == NOW + 60
    assert max_timestamp_of(made.batch(0)) == NOW + 60


def test_without_timestamps_the_last_write_is_the_age() -> None:
    made = Segment(0, created_ms=NOW)
    assert made.largest_timestamp == NOW
    add(made, plain(timestamp=-1), 0, now=NOW + 3)
    assert made.largest_timestamp == NOW + 3
    add(made, plain(timestamp=NOW - 9), 1)
    assert made.largest_timestamp == NOW - 9


def due(
    segment: Segment,
    *,
    size: int = 70,
    stamp: int = NOW,
    last: int = 9,
    roll_bytes: int = 1 << 30,
    segment_ms: int = 1 << 40,
    segment_index_bytes: int = 1 << 20,
) -> bool:
    config = LogConfig(
        rules=LATEST,
        roll_bytes=roll_bytes,
        segment_ms=segment_ms,
        segment_index_bytes=segment_index_bytes,
    )
    return not copy.deepcopy(segment).append(
        bytes(size), 0, last, max_timestamp=stamp, now_ms=NOW + 1_000, config=config
    )


def test_a_segment_ends_when_the_next_batch_would_exceed_its_size() -> None:
    made = segment_of((0, 1))
    assert not due(made, size=70, roll_bytes=made.size_bytes + 70)
    assert due(made, size=71, roll_bytes=made.size_bytes + 70)
    assert not due(Segment(0), size=70, roll_bytes=70)
    assert due(Segment(0), size=71, roll_bytes=70)


def test_a_segment_ends_when_timestamps_have_gone_on() -> None:
    made = segment_of((0, 1))
    assert not due(made, stamp=NOW + 500, segment_ms=500)
    assert due(made, stamp=NOW + 501, segment_ms=500)
    assert not due(Segment(0, created_ms=0), segment_ms=500), "an empty one never is too old"


def test_jitter_ends_a_segment_earlier() -> None:
    made = Segment(0, roll_jitter_ms=100)
    add(made, plain(), 0)
    assert not due(made, stamp=NOW + 400, segment_ms=500)
    assert due(made, stamp=NOW + 401, segment_ms=500)


def test_without_timestamps_the_clock_counts() -> None:
    made = Segment(0, created_ms=NOW)
    add(made, plain(timestamp=-1), 0)
    assert not due(made, stamp=-1, segment_ms=1_000)
    assert due(made, stamp=-1, segment_ms=999)


def test_a_segment_ends_when_an_index_is_full() -> None:
    made = Segment(0)
    large = plain(value=b"x" * INTERVAL)
    for base in range(3):
        add(made, large, base)
    # Two entries in the index of offsets, one in that of times: all have one timestamp.
    assert not due(made, segment_index_bytes=36)
    assert due(made, segment_index_bytes=24), "of the last time entry no use is made"
    assert due(made, segment_index_bytes=16)
    made = Segment(0)
    for base in range(4):
        add(made, plain(value=b"x" * INTERVAL, timestamp=NOW + base), base)
    assert due(made, segment_index_bytes=48)
    assert not due(made, segment_index_bytes=60)


def test_a_segment_ends_where_offsets_need_more_than_32_bits() -> None:
    assert not due(Segment(5), last=5 + 2**31 - 1)
    assert due(Segment(5), last=5 + 2**31)
