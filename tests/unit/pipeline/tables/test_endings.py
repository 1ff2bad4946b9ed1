"""A row per marker."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.datasource import EqualTo

from tests.support.log_tables import broker_dir, busy_log, replica, table
from tests.support.logs import NOW, LogDriver
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.schemas import TABLES

COLUMNS = {
    "producer_id": fk.ENDED_PRODUCER,
    "producer_epoch": fk.ENDED_EPOCH,
    "first_offset": fk.ENDED_FIRST_OFFSET,
    "marker_offset": fk.ENDED_MARKER,
    "coordinator_epoch": fk.ENDED_COORDINATOR_EPOCH,
    "first_timestamp_ms": fk.ENDED_FIRST_TIMESTAMP,
    "timestamp_ms": fk.ENDED_TIMESTAMP,
    "records": fk.ENDED_RECORDS,
    "is_commit": fk.ENDED_COMMITTED,
}


def test_the_columns_behind_the_place_are_those_of_the_kernel_in_its_order() -> None:
    assert TABLES["endings"].names[5:] == tuple(sorted(COLUMNS, key=COLUMNS.__getitem__))
    assert sorted(COLUMNS.values()) == list(range(fk.ENDING_COLUMNS))


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
