"""Sparse indexes of a segment."""

from __future__ import annotations

from struct import Struct

import pytest

from txnsim.errors import CorruptLogRecordError
from txnsim.storage.indexes import decode_offset_index, decode_time_index, encode_indexes
from txnsim.wire.batch import Record, assign, build_batch


def batches(*stamps: int, base: int = 100) -> list[bytes]:
    """One record each, of 100 bytes and more."""
    return [
        assign(
            build_batch([Record(key=b"k", value=b"v" * 30)], timestamp_ms=stamp),
            base_offset=base + number,
            leader_epoch=0,
        )
        for number, stamp in enumerate(stamps)
    ]


def offsets(data: bytes) -> list[tuple[int, ...]]:
    return list(Struct(">ii").iter_unpack(data))


def times(data: bytes) -> list[tuple[int, ...]]:
    return list(Struct(">qi").iter_unpack(data))


def test_a_batch_is_indexed_once_enough_was_written_since_the_last_one() -> None:
    stored = batches(5, 6, 7, 8, 9)
    size = len(stored[0])
    index, time_index = encode_indexes(stored, base_offset=100, index_interval_bytes=size)
    # The entry stands for a batch's last offset and for where it begins.
    assert offsets(index) == [(2, 2 * size), (4, 4 * size)]
    assert times(time_index) == [(7, 2), (9, 4)]


def test_the_largest_timestamp_is_noted_with_the_batch_that_brought_it() -> None:
    stored = batches(50, 6, 7, 8)
    size = len(stored[0])
    index, time_index = encode_indexes(stored, base_offset=100, index_interval_bytes=size)
    assert len(offsets(index)) == 1
    assert times(time_index) == [(50, 0)]


def test_the_end_of_a_segment_is_noted_in_the_time_index_alone() -> None:
    index, time_index = encode_indexes(batches(5, 6), base_offset=100, index_interval_bytes=4096)
    assert (offsets(index), times(time_index)) == ([], [(6, 1)])


def test_an_empty_segment_has_empty_indexes() -> None:
    assert encode_indexes([], base_offset=0, index_interval_bytes=4096) == (b"", b"")


def test_what_was_written_is_read_without_the_zeros_behind_it() -> None:
    stored = batches(5, 6, 7, 8, 9)
    size = len(stored[0])
    index, time_index = encode_indexes(stored, base_offset=100, index_interval_bytes=size)
    expected = ((102, 2 * size), (104, 4 * size))
    for data in (index, index + bytes(80)):
        assert decode_offset_index(data, base_offset=100, place="f") == expected
    for data in (time_index, time_index + bytes(120)):
        assert decode_time_index(data, base_offset=100, place="f") == ((7, 102), (9, 104))


def test_a_file_of_zeros_has_no_entries() -> None:
    assert decode_offset_index(bytes(80), base_offset=100, place="f") == ()
    assert decode_time_index(bytes(120), base_offset=100, place="f") == ()
    assert decode_offset_index(b"", base_offset=100, place="f") == ()


def test_half_an_entry_is_reported() -> None:
    with pytest.raises(CorruptLogRecordError, match="f, byte 8: 3 bytes, entries have 8"):
        decode_offset_index(bytes(11), base_offset=0, place="f")
    with pytest.raises(CorruptLogRecordError, match="f, byte 12: 1 bytes, entries have 12"):
        decode_time_index(bytes(13), base_offset=0, place="f")
