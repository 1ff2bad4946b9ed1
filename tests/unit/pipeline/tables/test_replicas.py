"""Replicas as rows."""

from __future__ import annotations

from pathlib import Path

from tests.support.log_tables import ORDERS, broker_dir, busy_log, replica, table
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets


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
