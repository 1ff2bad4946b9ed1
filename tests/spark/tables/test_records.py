"""Records as a consumer would be given them, and more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_tables import broker_dir, replica, segment, table
from tests.support.logs import NOW, LogDriver, batch, plain
from txnsim.wire.batch import GZIP, LZ4, NONE, SNAPPY, ZSTD, Record, build_batch
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables import _records as records

FULL = [
    Record(key=b"k", value=b"v", timestamp_ms=NOW + 7, headers=(("h", b"1"), ("h", None))),
    Record(key=None, value=None, timestamp_ms=NOW - 3),
    Record(key=b"", value=b"\x00\xff"),
]


@pytest.mark.parametrize(
    ("codec", "name"),
    [(NONE, "none"), (GZIP, "gzip"), (SNAPPY, "snappy"), (LZ4, "lz4"), (ZSTD, "zstd")],
)
def test_keys_values_headers_and_times_are_exact(tmp_path: Path, codec: int, name: str) -> None:
    data = build_batch(
        FULL,
        timestamp_ms=NOW,
        producer_id=7,
        producer_epoch=1,
        base_sequence=4,
        transactional=True,
        compression=codec,
    )
    segment(broker_dir(tmp_path) / "orders-0", [plain(), data], base_offset=8)
    first, second, third = table(tmp_path, "records")[1:]
    assert set(first) == set(TABLES["records"].names)
    assert [one["offset"] for one in (first, second, third)] == [9, 10, 11]
    assert (first["key"], first["value"], first["timestamp_ms"]) == (b"k", b"v", NOW + 7)
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert (second["key"], second["value"], second["timestamp_ms"]) == (None, None, NOW - 3)
    assert (third["key"], third["value"], third["timestamp_ms"]) == (b"", b"\x00\xff", NOW)
    assert [one["sequence"] for one in (first, second, third)] == [4, 5, 6]
    assert (third["producer_id"], third["producer_epoch"]) == (7, 1)
    assert (third["codec"], third["is_transactional"], third["is_control"]) == (name, True, False)
    assert (third["batch_base_offset"], third["batch_position"]) == (9, len(plain()))
    assert (third["leader_epoch"], third["timestamp_type"]) == (3, "CreateTime")


def test_batches_of_several_codecs_come_in_order_without_the_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "BYTES_MAX", 40)  # several groups
    codecs = [ZSTD, NONE, GZIP, ZSTD, NONE, SNAPPY]
    stored = [
        build_batch(
            [Record(value=b"%d-%d" % (number, one) * 9) for one in range(2)],
            timestamp_ms=NOW,
            compression=codec,
        )
        for number, codec in enumerate(codecs)
    ]
    damaged = bytearray(stored[3])
    damaged[61:65] = b"none"
    segment(broker_dir(tmp_path) / "orders-0", [*stored[:3], bytes(damaged), *stored[4:]])
    left = [number for number in range(6) if number != 3]
    rows = table(tmp_path, "records")
    assert [one["value"] for one in rows] == [
        b"%d-%d" % (number, one) * 9 for number in left for one in range(2)
    ]
    assert [one["offset"] for one in rows] == [
        2 * number + one for number in left for one in (0, 1)
    ]


def test_a_header_s_key_that_is_no_text_is_one_with_signs_for_it(tmp_path: Path) -> None:
    data = build_batch(
        [Record(value=b"v", headers=(("h\N{LATIN SMALL LETTER E WITH ACUTE}", b"1"),))],
        timestamp_ms=NOW,
    )
    cut_off = data.replace("\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"\xc3\xc3")
    segment(broker_dir(tmp_path) / "orders-0", [data, cut_off])
    first, second = table(tmp_path, "records")
    assert first["headers"] == [{"key": "h\N{LATIN SMALL LETTER E WITH ACUTE}", "value": b"1"}]
    assert second["headers"] == [{"key": "h\ufffd\ufffd", "value": b"1"}]


def test_times_of_appending_are_the_batch_s(tmp_path: Path) -> None:
    data = build_batch([Record(value=b"v", timestamp_ms=1)], timestamp_ms=NOW, log_append_time=True)
    segment(broker_dir(tmp_path) / "orders-0", [data])
    (row,) = table(tmp_path, "records")
    assert (row["timestamp_ms"], row["timestamp_type"]) == (NOW, "LogAppendTime")


def test_markers_are_records_with_their_type(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=False, coordinator_epoch=5)
    replica(broker_dir(tmp_path), driver)
    data, marker = table(tmp_path, "records")
    assert (data["control_type"], data["coordinator_epoch"]) == (None, None)
    assert (marker["is_control"], marker["control_type"]) == (True, "abort")
    assert (marker["coordinator_epoch"], marker["sequence"], marker["offset"]) == (5, None, 1)


def test_sequences_begin_anew_behind_the_largest(tmp_path: Path) -> None:
    data = batch(2**31 - 1, count=2)
    segment(broker_dir(tmp_path) / "orders-0", [data])
    assert [row["sequence"] for row in table(tmp_path, "records")] == [2**31 - 1, 0]


def test_without_a_producer_there_is_no_sequence(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    (row,) = table(tmp_path, "records")
    assert (row["sequence"], row["producer_id"], row["producer_epoch"]) == (None, None, None)


def test_gaps_that_the_cleaner_left_stay_gaps(tmp_path: Path) -> None:
    whole = bytearray(batch(0, count=3))
    kept = build_batch(
        [Record(key=b"k", value=b"v")], timestamp_ms=NOW, producer_id=7, producer_epoch=0,
        base_sequence=0,
    )  # fmt: skip
    kept = kept[:23] + bytes(whole[23:27]) + kept[27:]  # the last offset stays
    segment(broker_dir(tmp_path) / "orders-0", [kept, plain()])
    assert [row["offset"] for row in table(tmp_path, "records")] == [0, 3]


@pytest.mark.parametrize(("rows", "size"), [(4, 1 << 20), (1 << 13, 10)])
def test_rows_are_handed_over_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, size: int
) -> None:
    monkeypatch.setattr(records, "ROWS_MAX", rows)
    monkeypatch.setattr(records, "BYTES_MAX", size)
    segment(broker_dir(tmp_path) / "orders-0", [plain(5, value=b"four"), plain(6, value=b"four")])
    found = table(tmp_path, "records")
    assert [row["offset"] for row in found] == list(range(11))
    assert [row["batch_base_offset"] for row in found] == [0] * 5 + [5] * 6


def test_only_columns_that_are_wanted_are_made(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain(2)])
    assert table(tmp_path, "records", columns=["value", "offset"]) == [
        {"value": b"v", "offset": 0},
        {"value": b"v", "offset": 1},
    ]
