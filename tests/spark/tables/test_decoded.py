"""Batches that are looked into, bounded, and what can't be."""

from __future__ import annotations

from pathlib import Path

import cramjam
import pytest

from tests.support.log_tables import broker_dir, overwrite, segment
from tests.support.logs import NOW, batch, plain
from txnsim.wire.batch import ZSTD, build_batch
from txnsim.wire.batch_header import pack_batch
from txnsim.wire.records import Record
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.scan.pieces import PIECE_BYTES
from txnsim_spark.scan.segments import SegmentDamage, replicas_in, segments_of
from txnsim_spark.tables import _decoded as decoded
from txnsim_spark.tables._decoded import decoded_batches
from txnsim_spark.tables.rows import TableJob


def looked_into(
    path: Path, *, producers: frozenset[int] | None = None, **options: str
) -> tuple[list[int], list[SegmentDamage]]:
    """The offsets of all records, and the complaints of the decoder."""
    (only_segment,) = segments_of(replicas_in([path])[0])
    damages: list[SegmentDamage] = []
    job = TableJob(
        options=KafkaLogOptions.of({"path": str(path), "table": "records", **options}),
        columns=(),
        producer_ids=producers,
    )
    offsets = [
        record.offset
        for _, records in decoded_batches(only_segment, job, damages.append)
        for record in records
    ]
    return offsets, damages


def bomb(size: int) -> bytes:
    """A batch of some hundred bytes whose only record claims to have this many bytes."""
    return pack_batch(
        bytes(cramjam.zstd.compress(bytes(size))),
        base_offset=0,
        leader_epoch=0,
        attributes=ZSTD,
        last_offset_delta=0,
        base_timestamp_ms=NOW,
        max_timestamp_ms=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=1,
    )


def test_records_of_all_batches_come_in_order(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain(2), plain(), plain(3)], base_offset=10)
    assert looked_into(tmp_path) == ([10, 11, 12, 13, 14, 15], [])


@pytest.mark.parametrize("value_bytes", [64_000, PIECE_BYTES + 5])
def test_batches_of_any_size_are_read(tmp_path: Path, value_bytes: int) -> None:
    large_batch = plain(record_value=b"v" * value_bytes)
    segment(broker_dir(tmp_path) / "orders-0", [plain(), large_batch, plain(), large_batch])
    assert looked_into(tmp_path) == ([0, 1, 2, 3], [])


def test_only_the_producers_that_are_wanted_are_decoded(tmp_path: Path) -> None:
    damaged_batch = bytearray(batch(0, producer_id=8))
    damaged_batch[61:] = b"\xff" * len(damaged_batch[61:])
    segment(
        broker_dir(tmp_path) / "orders-0",
        [batch(0, producer_id=7), bytes(damaged_batch), batch(1, producer_id=7)],
    )
    assert looked_into(tmp_path, producers=frozenset({7})) == ([0, 2], [])
    assert looked_into(tmp_path, producers=frozenset({9})) == ([], [])


def test_a_batch_that_is_not_what_it_says_is_told_and_the_next_one_is_read(tmp_path: Path) -> None:
    damaged_batch = bytearray(plain(3))
    damaged_batch[60] = 2  # records: one less than there are
    segment(broker_dir(tmp_path) / "orders-0", [plain(), bytes(damaged_batch), plain()])
    offsets, (segment_damage,) = looked_into(tmp_path)
    assert offsets == [0, 1, 2, 4]  # what came in front of the damage counts
    assert (segment_damage.position, segment_damage.size, segment_damage.kind) == (
        len(plain()),
        len(damaged_batch),
        "records",
    )
    assert "bytes after the last record" in segment_damage.reason


@pytest.mark.costly
@pytest.mark.slow
def test_a_bomb_is_told_and_not_unpacked(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain(), bomb(300 << 20), plain()])
    offsets, (segment_damage,) = looked_into(tmp_path)
    assert offsets == [0, 2]
    assert "decompresses to more than" in segment_damage.reason


def test_a_batch_that_is_too_large_as_it_is_stored_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded, "STORED_BYTES_MAX", PIECE_BYTES)
    large_batch = plain(record_value=b"v" * PIECE_BYTES)
    segment(broker_dir(tmp_path) / "orders-0", [plain(), large_batch, plain()])
    offsets, (segment_damage,) = looked_into(tmp_path)
    assert offsets == [0, 2]
    assert "at most" in segment_damage.reason


def test_a_batch_with_another_crc_is_left_out_where_crcs_are_computed(tmp_path: Path) -> None:
    path = segment(broker_dir(tmp_path) / "orders-0", [plain(), plain(), plain()])
    overwrite(path, 2 * len(plain()) - 2, b"!")
    assert looked_into(tmp_path)[0] == [0, 1, 2]
    assert looked_into(tmp_path, checkCrc="true")[0] == [0, 2]


def test_an_empty_batch_has_no_records(tmp_path: Path) -> None:
    emptied_batch = bytearray(build_batch([Record(value=b"v")], timestamp_ms=NOW))[:61]
    emptied_batch[8:12] = (49).to_bytes(4, "big")
    emptied_batch[57:61] = bytes(4)
    segment(broker_dir(tmp_path) / "orders-0", [bytes(emptied_batch), plain()])
    assert looked_into(tmp_path) == ([1], [])
