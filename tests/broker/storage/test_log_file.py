"""Reading segments, torn and whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_dirs import sound_batches
from txnsim.storage.log_file import TornTail, read_log_file
from txnsim.wire.batch import Record, assign, build_batch


def batch(offset: int, size: int = 10) -> bytes:
    data = build_batch([Record(key=b"k", value=b"v" * size)], timestamp_ms=5)
    return assign(data, base_offset=offset, leader_epoch=0)


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def test_batches_come_in_order_with_their_places(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnsim.storage.log_file.CHUNK_BYTES", 1_000)
    stored = [batch(0), batch(1, 5_000), batch(2)]
    path.write_bytes(b"".join(stored))
    torn: list[TornTail] = []
    found = list(read_log_file(path, on_torn=torn.append))
    assert [one.data for one in found] == stored
    assert [one.position for one in found] == [0, len(stored[0]), len(stored[0] + stored[1])]
    assert [one.header.base_offset for one in found] == [0, 1, 2]
    assert torn == []


def test_a_part_of_a_segment_ends_where_it_is_told_to(path: Path) -> None:
    stored = [batch(0), batch(1, 5_000), batch(2), batch(3)]
    path.write_bytes(b"".join(stored))
    torn: list[TornTail] = []
    start, until = len(stored[0]), len(b"".join(stored[:3]))
    found = list(read_log_file(path, on_torn=torn.append, start=start, until=until))
    assert [one.data for one in found] == stored[1:3]
    assert [one.position for one in found] == [start, start + len(stored[1])]
    assert torn == []
    list(read_log_file(path, on_torn=torn.append, start=start, until=until - 1))
    assert [one.position for one in torn] == [until - len(stored[2])]


def test_an_empty_segment_has_no_batches(path: Path) -> None:
    path.touch()
    assert sound_batches(path) == ([], None)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0" * 20, "20 bytes, less than a header"),
        (batch(1)[:-1], "bytes of a batch of"),
        (changed(batch(1), 16, b"\1"), "a batch of format 1, only 2 is read"),
        (changed(batch(1), 8, b"\0\0\0\1"), "a batch that claims 13 bytes"),
        (changed(batch(1), 8, b"\x7f\0\0\0"), "a batch that claims"),
        (changed(batch(1), 70, b"\xff\xff"), "the batch of offset 1 has another CRC"),
    ],
    ids=["front", "cut", "format", "small", "huge", "crc"],
)
def test_what_an_unclean_stop_leaves_is_cut_off_and_reported(
    path: Path, tail: bytes, reason: str
) -> None:
    path.write_bytes(batch(0) + tail)
    batches, torn = sound_batches(path)
    assert batches == [batch(0)]
    assert torn is not None
    assert (torn.position, torn.size) == (len(batch(0)), len(tail))
    assert reason in torn.reason


def test_who_does_not_ask_for_crcs_gets_damaged_records(path: Path) -> None:
    damaged = changed(batch(0), 70, b"\xff\xff")
    path.write_bytes(damaged)
    torn: list[TornTail] = []
    found = list(read_log_file(path, on_torn=torn.append, check_crc=False))
    assert ([one.data for one in found], torn) == ([damaged], [])
