"""Transactions cut at markers; replicas that tell the same are told once. Whole timelines are in
tests/spark/pipeline/test_timeline.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.broker_dirs import BrokerDir
from tests.support.logs import NOW, PID, LogDriver
from txnsim_spark.forensics.timeline_reading import merged_records, merged_stays, stay_rows

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
    assert (ended["marker_offset"], ended["committed"], ended["coordinator_epoch"]) == (3, True, 0)
    assert (ended["first_timestamp_ms"], ended["producer_epoch"]) == (NOW, 0)
    assert (repeated["first_offset"], repeated["records"], repeated["marker_offset"]) == (
        None,
        0,
        4,
    )
    assert repeated["producer_epoch"] == repeated["marker_epoch"] == 0
    assert (opened["first_offset"], opened["last_offset"], opened["marker_offset"]) == (5, 6, None)
    assert opened["committed"] is None


def test_nothing_of_a_producer_that_is_not_there(tmp_path: Path) -> None:
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.replica(LogDriver())
    made.stop()
    assert list(stay_rows([tmp_path], [12345])) == []


def transaction(broker: int, offset: int, **changes: Any) -> dict[str, Any]:
    return {
        "broker": broker,
        "partition": 3,
        "offset": offset,
        "timestamp_ms": 50,
        "state": "Ongoing",
        "producer_id": 7,
        "producer_epoch": 1,
        "previous_producer_id": None,
        "next_producer_id": None,
        "timeout_ms": 60_000,
        "partitions": [{"topic": "orders", "partition": 0}],
        "start_timestamp_ms": 40,
        "client_transaction_version": 2,
        **changes,
    }


def stay(broker: int, **changes: Any) -> dict[str, Any]:
    return {
        "broker": broker,
        "topic": "orders",
        "partition": 0,
        "producer_id": 7,
        "producer_epoch": 1,
        "first_offset": 5,
        "last_offset": 6,
        "first_timestamp_ms": 50,
        "last_timestamp_ms": 51,
        "records": 2,
        "marker_offset": 7,
        "marker_epoch": 2,
        "marker_timestamp_ms": 52,
        "committed": True,
        "coordinator_epoch": 0,
        **changes,
    }


OPEN = {
    "marker_offset": None,
    "marker_epoch": None,
    "marker_timestamp_ms": None,
    "committed": None,
    "coordinator_epoch": None,
}


def test_a_record_of_all_replicas_is_told_once() -> None:
    merged, apart = merged_records([transaction(2, 0), transaction(1, 0), transaction(1, 1)])
    assert [(one.offset, one.brokers) for one in merged] == [(0, (1, 2)), (1, (1,))]
    assert apart == []
    (partition,) = merged[0].partitions
    assert str(partition) == "orders-0"


def test_other_records_at_one_offset_are_told() -> None:
    merged, apart = merged_records([transaction(1, 0), transaction(2, 0, state="Empty")])
    assert len(merged) == 2
    assert apart == ["__transaction_state-3: replicas hold different records at offset 0"]


def test_a_tombstone_has_nothing_but_its_place() -> None:
    nothing = dict.fromkeys(
        (
            *("state", "producer_id", "producer_epoch", "timeout_ms", "partitions"),
            *("start_timestamp_ms", "client_transaction_version"),
        )
    )
    ((record,), _) = merged_records([transaction(1, 0, **nothing)])
    assert (record.state, record.producer_id, record.partitions) == (None, -1, ())


def test_replicas_that_are_behind_are_told() -> None:
    (merged,), behind = merged_stays([stay(1), stay(2), stay(3, **OPEN)])
    assert (merged.brokers, merged.committed, merged.producer_epoch) == ((1, 2), True, 1)
    assert behind == [
        "orders-0: on broker 3 the transaction from offset 5 on is open (last record at 6); "
        "elsewhere it commits at offset 7"
    ]
