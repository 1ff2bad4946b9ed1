"""Entries of a segment's sparse indexes."""

from __future__ import annotations

from struct import pack

import pytest

from txnsim.errors import CorruptLogRecordError
from txnsim_spark.soundness._index_entries import decode_offset_index, decode_time_index


def test_entries_are_read_without_the_zeros_behind_them() -> None:
    index = pack(">iiii", 2, 200, 4, 400)
    for data in (index, index + bytes(80)):
        assert decode_offset_index(data, base_offset=100, place="f") == ((102, 200), (104, 400))
    time_index = pack(">qiqi", 7, 2, 9, 4)
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
