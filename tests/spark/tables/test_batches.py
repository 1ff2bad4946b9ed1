"""A row per batch: what its header says, and what of that is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_tables import broker_dir, busy_log, overwrite, replica, segment, table
from tests.support.logs import NOW, batch, plain
from txnsim.wire.batch import GZIP, LZ4, SNAPPY, ZSTD, Record, build_batch, control_batch


def marker(*, committed: bool, coordinator_epoch: int = 4) -> bytes:
    return control_batch(
        producer_id=7,
        producer_epoch=2,
        committed=committed,
        coordinator_epoch=coordinator_epoch,
        base_offset=0,
        leader_epoch=0,
        timestamp_ms=NOW,
    )


def test_a_row_has_what_its_header_says(tmp_path: Path) -> None:
    data = batch(5, count=3, pid=9, epoch=2, transactional=True, compression=ZSTD)
    path = segment(broker_dir(tmp_path) / "orders-0", [plain(), data], base_offset=40)
    row = table(tmp_path, "batches")[1]
    assert row == {
        "log_dir": str(tmp_path),
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "segment_base_offset": 40,
        "position": len(plain()),
        "size_bytes": len(data),
        "base_offset": 41,
        "last_offset": 43,
        "leader_epoch": 3,
        "crc": int.from_bytes(path.read_bytes()[len(plain()) + 17 :][:4], "big"),
        "codec": "zstd",
        "timestamp_type": "CreateTime",
        "is_transactional": True,
        "is_control": False,
        "has_delete_horizon": False,
        "base_timestamp_ms": NOW,
        "max_timestamp_ms": NOW,
        "producer_id": 9,
        "producer_epoch": 2,
        "base_sequence": 5,
        "records": 3,
        "control_type": None,
        "coordinator_epoch": None,
        "is_valid": None,
    }


def test_what_a_batch_without_producer_has_not_is_null(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    (row,) = table(tmp_path, "batches")
    assert (row["producer_id"], row["producer_epoch"], row["base_sequence"]) == (None,) * 3


def test_markers_say_which_and_whose(tmp_path: Path) -> None:
    segment(
        broker_dir(tmp_path) / "orders-0",
        [marker(committed=True), marker(committed=False, coordinator_epoch=9)],
    )
    assert [
        (row["is_control"], row["control_type"], row["coordinator_epoch"], row["base_sequence"])
        for row in table(tmp_path, "batches")
    ] == [(True, "commit", 4, None), (True, "abort", 9, None)]


@pytest.mark.parametrize(
    ("codec", "name"), [(GZIP, "gzip"), (SNAPPY, "snappy"), (LZ4, "lz4"), (ZSTD, "zstd"), (7, None)]
)
def test_codecs_have_their_names(tmp_path: Path, codec: int, name: str | None) -> None:
    data = bytearray(plain())
    data[22] |= codec
    segment(broker_dir(tmp_path) / "orders-0", [bytes(data)])
    assert [row["codec"] for row in table(tmp_path, "batches")] == [name]


def test_times_of_appending_are_told(tmp_path: Path) -> None:
    data = build_batch([Record(value=b"v")], timestamp_ms=NOW, log_append_time=True)
    segment(broker_dir(tmp_path) / "orders-0", [data])
    assert table(tmp_path, "batches")[0]["timestamp_type"] == "LogAppendTime"


def test_what_the_cleaner_has_left_are_rows_too(tmp_path: Path) -> None:
    """Gaps of offsets, a batch without records, a delete horizon."""
    emptied = bytearray(marker(committed=True))
    emptied[57:61] = bytes(4)
    emptied[22] |= 0x40
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    segment(tmp_path / "orders-0", [bytes(emptied)], base_offset=50)
    last = table(tmp_path, "batches")[-1]
    assert (last["base_offset"], last["records"], last["control_type"]) == (50, 0, None)
    assert (last["has_delete_horizon"], last["is_control"]) == (True, True)


def test_all_segments_of_a_replica_make_all_its_batches(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "batches", options={"taskBytes": "100"})
    assert len(rows) == 90
    assert rows[-1]["last_offset"] == driver.log.log_end_offset - 1


def test_crcs_are_judged_where_they_are_computed(tmp_path: Path) -> None:
    path = segment(broker_dir(tmp_path) / "orders-0", [plain(), plain(), plain()])
    overwrite(path, 2 * len(plain()) - 3, b"!")

    def judged(**options: str) -> list[bool | None]:
        return [row["is_valid"] for row in table(tmp_path, "batches", options=options)]

    assert judged() == [None, None, None]
    assert judged(checkCrc="true") == [True, False, True]
    (tmp_path / ".kafka_cleanshutdown").unlink()
    assert judged() == [True]
    assert judged(checkCrc="false") == [None, None, None]
