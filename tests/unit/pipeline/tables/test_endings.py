"""A row per marker."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.datasource import EqualTo

from tests.support.log_tables import broker_dir, busy_log, replica, table
from tests.support.logs import NOW, LogDriver
from txnsim.pipeline.schemas import TABLES
from txnsim.pipeline.tables.endings import COLUMNS


def test_every_column_of_the_table_is_filled() -> None:
    places = {"log_dir", "broker", "topic", "partition", "segment_base_offset"}
    assert {*COLUMNS, "is_commit"} == {*TABLES["endings"].names} - places


def test_a_marker_tells_of_the_transaction_that_it_ends(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, pid=7, count=2)
    driver.txn(2, pid=7)
    driver.end(committed=False, pid=7, coordinator_epoch=3)
    driver.end(committed=True, pid=7, coordinator_epoch=4)
    replica(broker_dir(tmp_path), driver)
    first, second = table(tmp_path, "endings")
    del first["log_dir"]
    assert first == {
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "segment_base_offset": 0,
        "producer_id": 7,
        "producer_epoch": 0,
        "first_offset": 0,
        "marker_offset": 3,
        "is_commit": False,
        "coordinator_epoch": 3,
        "first_timestamp_ms": NOW,
        "timestamp_ms": NOW,
        "records": 3,
    }
    assert (second["is_commit"], second["first_offset"], second["records"]) == (True, None, 0)


def test_one_that_began_in_an_older_segment_has_no_beginning_here(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    rows = table(tmp_path, "endings")
    assert len(rows) == 30
    assert any(row["first_offset"] is None for row in rows)
    assert all((row["first_offset"] or 0) < row["marker_offset"] for row in rows)


def test_endings_are_of_the_producers_that_are_wanted(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    rows = table(tmp_path, "endings", where=[EqualTo(("producer_id",), 9)])
    assert {row["producer_id"] for row in rows} == {9}
    assert table(tmp_path, "endings", where=[EqualTo(("producer_id",), 99)]) == []
