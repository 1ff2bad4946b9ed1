"""Indexes of aborted transactions, leader epochs, snapshots and what a folder says, as rows."""

from __future__ import annotations

from pathlib import Path

from tests.support.log_tables import (
    ORDERS,
    broker_dir,
    busy_log,
    overwrite,
    replica,
    segment,
    table,
)
from tests.support.logs import NOW, LogDriver, plain
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_leader_epochs, encode_offsets
from txnsim.storage.txn_index import ENTRY_BYTES


def test_all_aborts_of_all_segments_are_told(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "aborted")
    assert [
        (row["producer_id"], row["first_offset"], row["marker_offset"], row["last_stable_offset"])
        for row in rows
    ] == [
        (one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)
        for one in driver.log.snapshot().aborted
    ]
    bases = {one.base_offset for one in driver.log.local.segments}
    assert {row["segment_base_offset"] for row in rows} <= bases
    assert all(row["segment_base_offset"] <= row["marker_offset"] for row in rows)


def test_an_index_without_its_segment_is_read(tmp_path: Path) -> None:
    """As it lies there where the segment itself is in tiered storage by now."""
    folder = replica(broker_dir(tmp_path), busy_log())
    before = table(tmp_path, "aborted")
    (folder / names.file_name(0, names.LOG_SUFFIX)).unlink()
    assert table(tmp_path, "aborted") == before


def test_entries_in_front_of_damage_are_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    before = table(tmp_path, "aborted")
    overwrite(folder / names.file_name(0, names.TXN_INDEX_SUFFIX), ENTRY_BYTES, b"\x00\x09")
    after = table(tmp_path, "aborted")
    assert after[0] == before[0]
    assert {row["marker_offset"] for row in after if row["segment_base_offset"] == 0} == {
        before[0]["marker_offset"]
    }
    assert len(after) < len(before)


def test_epochs_are_rows_in_order(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    path = tmp_path / "orders-0" / names.LEADER_EPOCHS_NAME
    path.write_text(encode_leader_epochs([(0, 0), (3, 12)]))
    assert table(tmp_path, "leader_epochs") == [
        {
            "log_dir": str(tmp_path),
            "broker": 1,
            "topic": "orders",
            "partition": 0,
            "leader_epoch": epoch,
            "start_offset": offset,
        }
        for epoch, offset in ((0, 0), (3, 12))
    ]


def test_without_the_file_or_with_a_damaged_one_there_are_none(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    assert table(tmp_path, "leader_epochs") == []
    (tmp_path / "orders-0" / names.LEADER_EPOCHS_NAME).write_bytes(b"0\n1\n\xff")
    assert table(tmp_path, "leader_epochs") == []


def test_the_snapshot_at_the_end_names_what_is_open(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, pid=7, count=2)
    driver.end(committed=True, pid=8, coordinator_epoch=4)
    replica(broker_dir(tmp_path), driver)
    data, marker = sorted(table(tmp_path, "producer_state"), key=lambda row: row["producer_id"])
    assert data == {
        "log_dir": str(tmp_path),
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "snapshot_offset": 3,
        "is_last": True,
        "producer_id": 7,
        "producer_epoch": 0,
        "last_sequence": 1,
        "last_offset": 1,
        "offset_delta": 1,
        "last_timestamp_ms": NOW,
        "coordinator_epoch": None,
        "open_offset": 0,
    }
    assert (marker["coordinator_epoch"], marker["open_offset"]) == (4, None)
    assert (marker["last_sequence"], marker["last_offset"], marker["offset_delta"]) == (None,) * 3


def test_every_snapshot_is_told_and_the_newest_marked(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    offsets = [offset for offset, _ in names.numbered_files(folder, names.SNAPSHOT_SUFFIX)]
    rows = table(tmp_path, "producer_state")
    assert sorted({row["snapshot_offset"] for row in rows}) == offsets
    assert {row["snapshot_offset"] for row in rows if row["is_last"]} == {offsets[-1]}


def test_a_damaged_snapshot_has_no_rows(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    offset, path = names.numbered_files(folder, names.SNAPSHOT_SUFFIX)[0]
    overwrite(path, 30, b"\xff")
    assert offset not in {row["snapshot_offset"] for row in table(tmp_path, "producer_state")}


def test_a_row_tells_what_all_the_small_files_say(tmp_path: Path) -> None:
    driver = busy_log()
    folder = replica(broker_dir(tmp_path, broker=2), driver)
    for name, offset in (
        (names.HIGH_WATERMARKS_NAME, 30),
        (names.RECOVERY_POINTS_NAME, 20),
        (names.LOG_STARTS_NAME, 10),
    ):
        (tmp_path / name).write_text(encode_offsets({ORDERS: offset}))
    (row,) = table(tmp_path, "replicas")
    assert row == {
        "log_dir": str(tmp_path),
        "broker": 2,
        "topic": "orders",
        "partition": 0,
        "directory": str(folder),
        "cluster_id": "a-cluster",
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "segments": len(driver.log.local.segments),
        "size_bytes": driver.log.local.segments.size_bytes,
        "first_segment_offset": 0,
        "last_segment_offset": tuple(driver.log.local.segments)[-1].base_offset,
        "log_start_offset": 10,
        "high_watermark": 30,
        "recovery_point": 20,
        "last_snapshot_offset": driver.log.log_end_offset,
        "is_clean": True,
    }


def test_what_is_not_told_is_null(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / names.LEADER_EPOCHS_NAME).touch()
    (row,) = table(tmp_path, "replicas")
    del row["log_dir"], row["topic"], row["directory"]
    assert row == {
        "broker": -1,
        "partition": 0,
        "cluster_id": None,
        "topic_id": None,
        "segments": 0,
        "size_bytes": 0,
        "first_segment_offset": None,
        "last_segment_offset": None,
        "log_start_offset": None,
        "high_watermark": None,
        "recovery_point": None,
        "last_snapshot_offset": None,
        "is_clean": False,
    }


def test_a_damaged_topic_id_is_null(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    (folder / names.PARTITION_METADATA_NAME).write_text("version: 9\n")
    assert table(tmp_path, "replicas")[0]["topic_id"] is None
