"""Snapshots as rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.datasource import EqualTo

from tests.support.log_tables import broker_dir, busy_log, overwrite, replica, table
from tests.support.logs import NOW, LogDriver
from txnsim.storage import names


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


def test_only_producers_that_are_wanted_have_rows(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    rows = table(tmp_path, "producer_state", where=[EqualTo(("producer_id",), 7)])
    assert {row["producer_id"] for row in rows} == {7}
