"""Replicas that tell the same are told once; the queries are judged in tests/pipeline."""

from __future__ import annotations

from typing import Any

from txnsim.pipeline.forensics.timeline_sql import merged_records, merged_stays


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
        "data_epoch": 1,
        "first_offset": 5,
        "last_offset": 6,
        "first_timestamp_ms": 50,
        "last_timestamp_ms": 51,
        "records": 2,
        "marker_offset": 7,
        "marker_epoch": 2,
        "marker_timestamp_ms": 52,
        "control_type": "commit",
        "coordinator_epoch": 0,
        **changes,
    }


OPEN = {
    "marker_offset": None,
    "marker_epoch": None,
    "marker_timestamp_ms": None,
    "control_type": None,
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


def test_a_marker_without_data_has_its_own_epoch() -> None:
    nothing = dict.fromkeys(("data_epoch", "first_offset", "last_offset", "first_timestamp_ms"))
    ((merged,), _) = merged_stays([stay(1, **nothing, records=0, control_type="abort")])
    assert (merged.producer_epoch, merged.first_offset, merged.committed) == (2, None, False)
