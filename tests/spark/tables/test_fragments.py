"""What each producer did, and a row per marker, as columns with nulls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_tables import broker_dir, busy_log, replica, segment, table
from tests.support.logs import NOW, LogDriver, batch, plain
from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.schemas import TABLES

FRAGMENTS = {
    "producer_id": fk.PRODUCER,
    "first_offset": fk.FIRST_OFFSET,
    "last_offset": fk.LAST_OFFSET,
    "batches": fk.BATCHES,
    "records": fk.RECORDS,
    "bytes": fk.BYTES,
    "first_epoch": fk.FIRST_EPOCH,
    "first_sequence": fk.FIRST_SEQUENCE,
    "last_epoch": fk.LAST_EPOCH,
    "last_sequence": fk.LAST_SEQUENCE,
    "last_timestamp_ms": fk.LAST_TIMESTAMP,
    "commits": fk.COMMITS,
    "aborts": fk.ABORTS,
    "coordinator_epoch": fk.COORDINATOR_EPOCH,
    "head_offset": fk.HEAD_OFFSET,
    "head_marker_offset": fk.HEAD_MARKER,
    "open_offset": fk.OPEN_OFFSET,
    "open_timestamp_ms": fk.OPEN_TIMESTAMP,
    "open_last_timestamp_ms": fk.OPEN_LAST_TIMESTAMP,
    "open_epoch": fk.OPEN_EPOCH,
    "open_records": fk.OPEN_RECORDS,
    "sequence_gaps": fk.SEQUENCE_GAPS,
    "epochs_back": fk.EPOCHS_BACK,
    "idle_markers": fk.IDLE_MARKERS,
    "head_is_commit": fk.HEAD_IS_COMMIT,
}


ENDINGS = {
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


@pytest.mark.parametrize(
    ("name", "columns", "told"),
    [("fragments", FRAGMENTS, fk.TOLD_COLUMNS), ("endings", ENDINGS, fk.ENDING_COLUMNS)],
)
def test_the_columns_behind_the_place_are_those_of_the_kernel_in_its_order(
    name: str, columns: dict[str, int], told: int
) -> None:
    assert TABLES[name].names[5:] == tuple(sorted(columns, key=columns.__getitem__))
    assert sorted(columns.values()) == list(range(told))


def test_an_open_transaction_is_told_with_where_it_began(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, pid=7)
    driver.end(committed=True, pid=7, coordinator_epoch=3)
    driver.txn(1, pid=7, count=2)
    driver.data(0, pid=0)
    replica(broker_dir(tmp_path), driver)
    idempotent, row = sorted(table(tmp_path, "fragments"), key=lambda one: one["producer_id"])
    assert idempotent["producer_id"] == 0
    assert idempotent["open_offset"] is None
    assert row["open_offset"] == 2
    del row["log_dir"], row["bytes"]
    assert row == {
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "segment_base_offset": 0,
        "producer_id": 7,
        "first_offset": 0,
        "last_offset": 3,
        "batches": 2,
        "records": 3,
        "first_epoch": 0,
        "first_sequence": 0,
        "last_epoch": 0,
        "last_sequence": 2,
        "last_timestamp_ms": NOW,
        "commits": 1,
        "aborts": 0,
        "coordinator_epoch": 3,
        "head_offset": 0,
        "head_marker_offset": 1,
        "head_is_commit": True,
        "open_offset": 2,
        "open_timestamp_ms": NOW,
        "open_last_timestamp_ms": NOW,
        "open_epoch": 0,
        "open_records": 2,
        "sequence_gaps": 0,
        "epochs_back": 0,
        "idle_markers": 0,
    }


def test_a_transaction_without_marker_has_no_head_marker(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [batch(0, transactional=True)])
    (row,) = table(tmp_path, "fragments")
    assert (row["head_offset"], row["open_offset"]) == (0, 0)
    assert (row["head_marker_offset"], row["head_is_commit"]) == (None, None)


def test_batches_without_producer_are_one_fragment(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain(), plain(2)])
    (row,) = table(tmp_path, "fragments")
    assert (row["producer_id"], row["batches"], row["records"]) == (None, 2, 3)
    assert (row["first_epoch"], row["last_sequence"], row["open_offset"]) == (None, None, None)


# Endings


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
