"""Transactions cut at markers, without Spark; tests/pipeline/test_timeline has whole timelines."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker_dirs import BrokerDir
from tests.support.logs import NOW, PID, LogDriver
from txnsim.pipeline.forensics.timeline_here import stay_rows

PLACE = ("log_dir", "broker", "topic", "partition", "producer_id")


def test_a_row_per_transaction_of_each_replica(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.txn(0, pid=99)
    driver.end(committed=True)
    driver.end(committed=True)
    driver.txn(2)
    driver.txn(3)
    for broker in (1, 2):
        made = BrokerDir(tmp_path / f"broker-{broker}", broker)
        made.replica(driver)
        made.stop()
    rows = list(stay_rows([tmp_path], [PID]))
    assert [tuple(row[name] for name in PLACE) for row in rows] == [
        (str(tmp_path / f"broker-{broker}"), broker, "orders", 0, PID)
        for broker in (1, 2)
        for _ in range(3)
    ]
    ended, repeated, opened = rows[:3]
    assert (ended["first_offset"], ended["last_offset"], ended["records"]) == (0, 1, 2)
    assert (ended["marker_offset"], ended["control_type"], ended["coordinator_epoch"]) == (
        3,
        "commit",
        0,
    )
    assert (ended["first_timestamp_ms"], ended["data_epoch"]) == (NOW, 0)
    assert (repeated["first_offset"], repeated["records"], repeated["marker_offset"]) == (
        None,
        0,
        4,
    )
    assert (opened["first_offset"], opened["last_offset"], opened["marker_offset"]) == (5, 6, None)
    assert opened["control_type"] is None


def test_nothing_of_a_producer_that_is_not_there(tmp_path: Path) -> None:
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.replica(LogDriver())
    made.stop()
    assert list(stay_rows([tmp_path], [12345])) == []
