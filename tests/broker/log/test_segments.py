"""Segments side by side: which one holds an offset, reads that end where a segment does."""

from __future__ import annotations

from tests.support.logs import NOW, plain
from txnsim.log._segments import Segments
from txnsim.log.segment import Segment
from txnsim.wire.batch import assign, read_batch_header

ALL = 1 << 30


def add(segment: Segment, base: int, *, count: int = 1) -> None:
    stored = assign(plain(count), base_offset=base, leader_epoch=0)
    segment.append(stored, base, base + count - 1, max_timestamp=NOW, now_ms=NOW)


def made(*segments: tuple[int, ...]) -> Segments:
    """Segments of (base offset, offsets of batches of one record …)."""
    built: Segments | None = None
    for base, *offsets in segments:
        segment = Segment(base)
        if built is None:
            built = Segments(segment)
        else:
            built.add(segment)
        for offset in offsets:
            add(segment, offset)
    assert built is not None
    return built


def offsets(batches: list[bytes]) -> list[int]:
    return [read_batch_header(batch).base_offset for batch in batches]


THREE = ((0, 0, 1), (2, 2, 3), (4, 4))


def test_the_segment_of_an_offset() -> None:
    segments = made((5, 5), (7, 7))
    assert [segments.floor(offset) for offset in (0, 5, 6, 7, 99)] == [0, 0, 0, 1, 1]
    assert len(segments) == 2
    assert segments.first_base_offset == 5
    assert segments.size_bytes == 2 * len(plain())
    assert segments.inactive == [*segments][:1]


def test_segments_between_two_offsets() -> None:
    segments = made(*THREE)
    first, second, third = segments
    assert segments.between(0, 0) == []
    assert segments.between(0, 2) == [first]
    assert segments.between(1, 3) == [first, second]
    assert segments.between(2, 99) == [second, third]
    assert segments.higher_base_offset(second, -1) == 4
    assert segments.higher_base_offset(third, -1) == -1


def test_a_read_ends_with_its_segment() -> None:
    segments = made(*THREE)
    span = segments.read(0, 5, max_bytes=ALL, min_one_batch=True)
    assert span is not None
    assert offsets(span.batches) == [0, 1]
    assert span.size == span.reach == 2 * len(plain())
    span = segments.read(4, 5, max_bytes=ALL, min_one_batch=True)
    assert span is not None
    assert offsets(span.batches) == [4]


def test_a_read_stops_below_its_bound_and_within_its_size() -> None:
    segments = made(*THREE)
    size = len(plain())
    span = segments.read(2, 3, max_bytes=ALL, min_one_batch=True)
    assert span is not None
    assert (offsets(span.batches), span.reach) == ([2], size)
    span = segments.read(2, 5, max_bytes=size, min_one_batch=True)
    assert span is not None
    assert (offsets(span.batches), span.reach) == ([2], size)
    span = segments.read(3, 5, max_bytes=3, min_one_batch=True)
    assert span is not None
    assert (offsets(span.batches), span.reach) == ([3], 2 * size)
    span = segments.read(2, 5, max_bytes=3, min_one_batch=False)
    assert span is not None
    assert (span.batches, span.size, span.reach, span.cut) == ([], 0, 3, b"")


def test_a_batch_behind_a_whole_one_is_cut_where_the_size_ends() -> None:
    segments = made(*THREE)
    whole = segments.read(2, 5, max_bytes=ALL, min_one_batch=True)
    assert whole is not None
    assert (offsets(whole.batches), whole.cut) == ([2, 3], b"")
    span = segments.read(2, 5, max_bytes=len(plain()) + 7, min_one_batch=True)
    assert span is not None
    assert (offsets(span.batches), span.size, span.cut) == (
        [2],
        len(plain()),
        whole.batches[1][:7],
    )
    bounded = segments.read(2, 3, max_bytes=len(plain()) + 7, min_one_batch=True)
    assert bounded is not None
    assert bounded.cut == b"", "what lies behind the bound is not readable"


def test_a_read_goes_on_to_the_next_segment_where_compaction_left_nothing() -> None:
    segments = made((0, 0), (5, 7), (9,))
    span = segments.read(1, 9, max_bytes=ALL, min_one_batch=True)
    assert span is not None
    assert offsets(span.batches) == [7]
    assert segments.read(8, 9, max_bytes=ALL, min_one_batch=True) is None
    assert segments.read(9, 9, max_bytes=ALL, min_one_batch=True) is None
    assert segments.holder(8) is None


def test_bytes_and_age_of_what_waits_to_be_read() -> None:
    segments = made(*THREE)
    size = len(plain())
    assert segments.is_older(1, 5)
    assert not segments.is_older(1, 2 - 1)
    assert not segments.is_older(4, 5)
    assert segments.bytes_between(4, 5) == size
    assert segments.bytes_between(5, 5) == 0
    assert segments.bytes_between(0, 1) == size


def test_truncation_keeps_a_segment_that_begins_there() -> None:
    segments = made(*THREE)
    segments.truncate_to(4, now_ms=NOW)
    assert (len(segments), len(segments.active), segments.active.base_offset) == (3, 0, 4)
    segments.truncate_to(3, now_ms=NOW)
    assert (len(segments), len(segments.active), segments.active.base_offset) == (2, 1, 2)
    segments.truncate_to(0, now_ms=NOW)
    assert (len(segments), segments.size_bytes) == (1, 0)


def test_an_empty_segment_gives_way_to_one_of_the_same_base() -> None:
    segments = made((0, 0), (1,))
    fresh = Segment(1)
    segments.add(fresh)
    assert [*segments][1] is segments.active is fresh
    alone = Segments(Segment(0))
    alone.add(Segment(0))
    assert len(alone) == 1


def test_old_segments_are_dropped() -> None:
    segments = made(*THREE)
    segments.drop_first(2)
    assert (len(segments), segments.first_base_offset) == (1, 4)


def test_cleaned_segments_are_put_in_place_of_the_very_old_ones() -> None:
    segments = made(*THREE)
    first, second, third = segments
    cleaned = Segment(0)
    add(cleaned, 3)
    assert segments.replace([first, second], cleaned)
    assert [*segments] == [cleaned, third]
    assert segments.active is third
    assert not segments.replace([first, second], Segment(0)), "they are gone"
    assert [*segments] == [cleaned, third]


def test_batches_are_those_of_the_moment() -> None:
    segments = made(*THREE)
    batches = segments.batches(1)
    seen = [next(batches)]
    segments.truncate_to(1, now_ms=NOW)
    seen += batches
    assert offsets(seen) == [1, 2, 3, 4]
