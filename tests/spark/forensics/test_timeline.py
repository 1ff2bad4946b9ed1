"""Timelines of transactions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir
from tests.support.logs import NOW, PID, LogDriver
from txnsim.types import TopicPartition
from txnsim_spark.engine import lone_engine
from txnsim_spark.forensics.timeline import CoordinatorRecord, PartitionTxn, Timeline, timeline_of
from txnsim_spark.forensics.timeline_reading import merged_records, merged_txns, transactions_of

pytest.importorskip("duckdb", reason="the extra spark is not installed")

# The life of a transactional id, from what its coordinator wrote and what lies in partitions.


ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)


def record(
    offset: int,
    state: str | None,
    *partitions: TopicPartition,
    at_ms: int = 0,
    epoch: int = 0,
    producer_id: int = 7,
) -> CoordinatorRecord:
    return CoordinatorRecord(
        brokers=(1,),
        partition=3,
        offset=offset,
        timestamp_ms=at_ms or 10 * offset,
        state=state,
        producer_id=-1 if state is None else producer_id,
        producer_epoch=-1 if state is None else epoch,
        partitions=partitions,
        start_timestamp_ms=10,
    )


def stay(
    first_offset: int | None,
    marker: int | None,
    *,
    at_ms: int = 0,
    committed: bool = True,
    epoch: int = 0,
) -> PartitionTxn:
    """A transaction on orders-0 whose marker has the timestamp ``at_ms``."""
    has_marker = marker is not None
    return PartitionTxn(
        brokers=(1, 2),
        topic="orders",
        partition=0,
        producer_id=7,
        producer_epoch=epoch,
        first_offset=first_offset,
        last_offset=None if first_offset is None else first_offset + 1,
        first_timestamp_ms=None if first_offset is None else 15,
        last_timestamp_ms=None if first_offset is None else 16,
        records=0 if first_offset is None else 2,
        marker_offset=marker,
        marker_epoch=epoch if has_marker else None,
        marker_timestamp_ms=at_ms if has_marker else None,
        committed=committed if has_marker else None,
        coordinator_epoch=4 if has_marker else None,
    )


STORY = (
    record(0, "Empty"),
    record(1, "Ongoing", ORDERS),
    record(2, "PrepareCommit", ORDERS),
    record(3, "CompleteCommit"),
)


def event_lines(timeline: Timeline) -> list[tuple[str, str]]:
    return [(event.event, event.text) for event in timeline.events]


def test_both_sides_are_told_in_order_of_time() -> None:
    timeline = timeline_of("app", STORY, [stay(5, 7, at_ms=26)])
    assert event_lines(timeline) == [
        ("Empty", "InitProducerId; producer 7 epoch 0"),
        ("Ongoing", "the transaction begins; added orders-0"),
        ("first", "first record (epoch 0)"),
        ("last", "last of 2 records"),
        ("PrepareCommit", "decided to commit, 10 ms after its beginning"),
        ("marker", "COMMIT, coordinator epoch 4, 6 ms after the decision"),
        ("CompleteCommit", "every partition has its marker"),
    ]
    assert timeline.disagreements == ()
    assert (timeline.producer_ids, timeline.coordinator_partition, timeline.open) == ((7,), 3, ())
    marker = timeline.events[5]
    assert (marker.committed, marker.coordinator_epoch, marker.after_decision_ms) == (True, 4, 6)


def test_records_of_a_log_keep_its_order_whatever_time_they_bear() -> None:
    late_txn = msgspec.structs.replace(stay(5, 7, at_ms=26), first_timestamp_ms=99)
    names = [event.event for event in timeline_of("app", STORY, [late_txn]).events]
    assert names.index("first") < names.index("last") < names.index("marker")


def test_what_lies_behind_the_marker_of_the_last_decision_was_in_no_transaction() -> None:
    timeline = timeline_of("app", STORY, [stay(5, 7, at_ms=26), stay(8, None)])
    (disagreement,) = timeline.disagreements
    assert disagreement == (
        "orders-0: open since offset 8; for the coordinator it is CompleteCommit; the marker at"
        " offset 7 carried out the last decision with this partition (offset 2), so these records"
        " were in no transaction"
    )


def test_what_a_lost_marker_left_open_is_not_called_so() -> None:
    later_records = (record(4, "Ongoing", ORDERS), record(5, "PrepareCommit", ORDERS))
    timeline = timeline_of("app", (*STORY, *later_records), [stay(5, 7, at_ms=26), stay(8, None)])
    assert all("in no transaction" not in disagreement for disagreement in timeline.disagreements)


def test_partitions_epochs_and_ids_are_told_as_they_change() -> None:
    records = (
        record(0, "Empty"),
        record(1, "Ongoing", ORDERS),
        record(2, "Ongoing", ORDERS, PAYMENTS),
        record(3, "PrepareAbort", ORDERS, PAYMENTS, epoch=1),
        record(4, "CompleteAbort", epoch=1),
        record(5, "Empty", epoch=0, producer_id=8),
        record(6, "Empty", epoch=0, producer_id=8),
        record(7, None),
        record(8, "Empty", producer_id=9),
    )
    timeline = timeline_of("app", records, [])
    assert [text for _, text in event_lines(timeline)][2:] == [
        "added payments-0",
        "decided to abort, 20 ms after its beginning; epoch 0 -> 1",
        "every partition has its marker",
        "InitProducerId; producer 7 -> 8, epoch 0",
        "InitProducerId",
        "the coordinator forgets the transactional id",
        "InitProducerId; producer 9 epoch 0",
    ]
    assert timeline.producer_ids == (7, 8, 9)
    assert timeline.events[2].added == (PAYMENTS,)


def test_a_record_that_changes_nothing_was_written_again() -> None:
    records = (record(0, "Ongoing", ORDERS), record(1, "Ongoing", ORDERS))
    assert event_lines(timeline_of("app", records, []))[1] == ("Ongoing", "written again")


def test_a_marker_where_nothing_was_written_is_told() -> None:
    timeline = timeline_of("app", STORY, [stay(None, 7, at_ms=26)])
    (text,) = [event.text for event in timeline.events if event.event == "marker"]
    assert text.endswith("nothing was written here")
    assert timeline.disagreements == ()


def test_each_marker_of_an_epoch_has_its_own_decision() -> None:
    records = (
        record(0, "Empty"),
        record(1, "PrepareAbort", ORDERS, at_ms=50),
        record(2, "PrepareCommit", PAYMENTS, at_ms=50),
        record(3, "PrepareCommit", ORDERS, at_ms=50),
    )
    repeated_txn = stay(None, 8, at_ms=51)
    partition_txns = [stay(1, 3, at_ms=50, committed=False), stay(5, 7, at_ms=50), repeated_txn]
    timeline = timeline_of("app", records, partition_txns)
    assert timeline.disagreements == ()
    afters = [event.after_decision_ms for event in timeline.events if event.event == "marker"]
    assert afters == [0, 0, 1]


def test_clocks_of_brokers_may_differ_a_little() -> None:
    timeline = timeline_of("app", STORY, [stay(5, 7, at_ms=19)])
    assert timeline.disagreements == ()
    assert [event.after_decision_ms for event in timeline.events if event.event == "marker"] == [-1]


@pytest.mark.parametrize(("client_version", "after_decision_ms"), [(1, None), (2, -3_599_980)])
def test_a_transaction_of_version_2_needs_no_clocks(
    client_version: int, after_decision_ms: int | None
) -> None:
    records = [
        msgspec.structs.replace(
            entry,
            timestamp_ms=entry.timestamp_ms + 3_600_000,
            client_transaction_version=client_version,
        )
        for entry in STORY
    ]
    timeline = timeline_of("app", records, [stay(5, 7, at_ms=40)])
    assert [event.after_decision_ms for event in timeline.events if event.event == "marker"] == [
        after_decision_ms
    ]
    assert any("no marker" in text for text in timeline.disagreements) is (client_version == 1)


ONGOING = (*STORY, record(9, "Ongoing", ORDERS))
OPEN = stay(8, None)


def test_what_is_open_is_told() -> None:
    timeline = timeline_of("app", ONGOING, [OPEN])
    assert [
        (open_stay.first_offset, open_stay.state, open_stay.brokers) for open_stay in timeline.open
    ] == [(8, "Ongoing", (1, 2))]


@pytest.mark.parametrize(
    ("records", "partition_txn", "expected_lines"),
    [
        (
            STORY,
            stay(5, 7, at_ms=26, committed=False),
            ["orders-0: the marker at offset 7 aborts, the coordinator had decided to commit"],
        ),
        (
            [record(0, "Empty"), record(1, "PrepareCommit", PAYMENTS)],
            stay(5, 7, at_ms=26),
            ["the partition is not among those of the transaction"],
        ),
        # It was compacted away.
        ([record(0, "Empty", epoch=9)], stay(5, 7, at_ms=26), []),
        (
            [
                *STORY,
                record(4, "Ongoing", ORDERS, epoch=1),
                record(5, "PrepareAbort", ORDERS, epoch=1),
                record(6, "CompleteAbort", epoch=1),
            ],
            stay(5, 7, at_ms=26),
            [
                "orders-0: no marker of the transaction that the coordinator has as CompleteAbort "
                "(offset 6)"
            ],
        ),
        (ONGOING, OPEN, ["no marker of the transaction that the coordinator has as CompleteC"]),
        (STORY, OPEN, ["for the coordinator it is CompleteCommit", "no marker"]),
        ([*STORY, record(9, None)], OPEN, ["the coordinator knows nothing of it", "no marker"]),
        (
            [*STORY, record(9, "Ongoing", PAYMENTS)],
            OPEN,
            ["is not among those of the transaction (Ongoing)", "no marker"],
        ),
        (
            [*STORY, record(9, "Empty", producer_id=8)],
            OPEN,
            ["the coordinator has producer 8 epoch 0, Empty", "no marker"],
        ),
    ],
)
def test_disagreements(
    records: Sequence[CoordinatorRecord], partition_txn: PartitionTxn, expected_lines: list[str]
) -> None:
    disagreements = timeline_of("app", records, [partition_txn]).disagreements
    assert len(disagreements) == len(expected_lines)
    assert all(
        expected_line in disagreement
        for expected_line, disagreement in zip(expected_lines, disagreements, strict=True)
    )


def test_how_many_records_there_are_is_told() -> None:
    texts = [
        event_lines(
            timeline_of("app", [], [msgspec.structs.replace(stay(5, None), records=records)])
        )[1]
        for records in (0, 1, 2)
    ]
    assert [text for _, text in texts] == [
        "last record; the cleaner has taken it",
        "the only record",
        "last of 2 records",
    ]


def test_an_id_that_nobody_knows_has_no_events() -> None:
    timeline = timeline_of("app", [], [])
    assert (timeline.events, timeline.coordinator_partition, timeline.producer_ids) == (
        (),
        None,
        (),
    )


# Transactions cut at markers; replicas that tell the same are told once. Whole timelines are in
# tests/spark/pipeline/test_timeline.


PLACE = ("log_dir", "broker", "topic", "partition", "producer_id")


def test_a_row_per_transaction_of_each_replica(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.txn(0, producer_id=99)
    driver.end(committed=True)
    driver.end(committed=True)
    driver.txn(2)
    driver.txn(3)
    for broker in (1, 2):
        broker_dir = BrokerDir(tmp_path / f"broker-{broker}", broker)
        broker_dir.replica(driver)
        broker_dir.stop()
    rows = transactions_of(lone_engine(), [tmp_path], [PID])
    assert [tuple(row[name] for name in PLACE) for row in rows] == [
        (str(tmp_path / f"broker-{broker}"), broker, "orders", 0, PID)
        for broker in (1, 2)
        for _ in range(3)
    ]
    ended_row, repeated_row, open_row = rows[:3]
    assert (ended_row["first_offset"], ended_row["last_offset"], ended_row["records"]) == (0, 1, 2)
    assert (ended_row["marker_offset"], ended_row["committed"], ended_row["coordinator_epoch"]) == (
        3,
        True,
        0,
    )
    assert (ended_row["first_timestamp_ms"], ended_row["producer_epoch"]) == (NOW, 0)
    assert (
        repeated_row["first_offset"],
        repeated_row["records"],
        repeated_row["marker_offset"],
    ) == (
        None,
        0,
        4,
    )
    assert repeated_row["producer_epoch"] == repeated_row["marker_epoch"] == 0
    assert (open_row["first_offset"], open_row["last_offset"], open_row["marker_offset"]) == (
        5,
        6,
        None,
    )
    assert open_row["committed"] is None


def test_nothing_of_a_producer_that_is_not_there(tmp_path: Path) -> None:
    broker_dir = BrokerDir(tmp_path / "broker-1", 1)
    broker_dir.replica(LogDriver())
    broker_dir.stop()
    assert transactions_of(lone_engine(), [tmp_path], [12345]) == []


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


def stay_of_timeline_reading(broker: int, **changes: Any) -> dict[str, Any]:
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


TIMELINE_READING_OPEN = {
    "marker_offset": None,
    "marker_epoch": None,
    "marker_timestamp_ms": None,
    "committed": None,
    "coordinator_epoch": None,
}


def test_a_record_of_all_replicas_is_told_once() -> None:
    merged_stays, differences = merged_records(
        [transaction(2, 0), transaction(1, 0), transaction(1, 1)]
    )
    assert [(open_record.offset, open_record.brokers) for open_record in merged_stays] == [
        (0, (1, 2)),
        (1, (1,)),
    ]
    assert differences == []
    (partition,) = merged_stays[0].partitions
    assert str(partition) == "orders-0"


def test_other_records_at_one_offset_are_told() -> None:
    merged_stays, differences = merged_records(
        [transaction(1, 0), transaction(2, 0, state="Empty")]
    )
    assert len(merged_stays) == 2
    assert differences == ["__transaction_state-3: replicas hold different records at offset 0"]


def test_a_tombstone_has_nothing_but_its_place() -> None:
    null_fields = dict.fromkeys(
        (
            *("state", "producer_id", "producer_epoch", "timeout_ms", "partitions"),
            *("start_timestamp_ms", "client_transaction_version"),
        )
    )
    ((record,), _) = merged_records([transaction(1, 0, **null_fields)])
    assert (record.state, record.producer_id, record.partitions) == (None, -1, ())


def test_replicas_that_are_behind_are_told() -> None:
    (merged_txn,), lagging = merged_txns(
        [
            stay_of_timeline_reading(1),
            stay_of_timeline_reading(2),
            stay_of_timeline_reading(3, **TIMELINE_READING_OPEN),
        ]
    )
    assert (merged_txn.brokers, merged_txn.committed, merged_txn.producer_epoch) == (
        (1, 2),
        True,
        1,
    )
    assert lagging == [
        "orders-0: on broker 3 the transaction from offset 5 on is open (last record at 6); "
        "elsewhere it commits at offset 7"
    ]
