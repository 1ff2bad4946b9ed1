"""Which conditions are taken over, and what they leave out."""

from __future__ import annotations

import msgspec
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from txnsim_spark.filters import EARLIER_TIMES, OFFSETS, TIMES, taken_over
from txnsim_spark.log_query import Wanted
from txnsim_spark.scan.segments import Replica
from txnsim_spark.schemas import TABLES

REPLICA = Replica(log_dir="/logs", broker=1, topic="orders", partition=0, path="/logs/orders-0")


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (EqualTo(("topic",), "orders"), Wanted(topics=frozenset({"orders"}))),
        (EqualNullSafe(("topic",), "orders"), Wanted(topics=frozenset({"orders"}))),
        (In(("partition",), (0, 1)), Wanted(partitions=frozenset({0, 1}))),
        (EqualTo(("broker",), 2), Wanted(brokers=frozenset({2}))),
        (EqualTo(("log_dir",), "/logs"), Wanted(log_dirs=frozenset({"/logs"}))),
        (In(("producer_id",), (7, 8)), Wanted(producer_ids=frozenset({7, 8}))),
    ],
)
def test_places_and_producers_are_taken_over(condition: Filter, wanted: Wanted) -> None:
    assert taken_over("batches", [condition]) == (wanted, [])


@pytest.mark.parametrize(
    ("condition", "fits"),
    [
        (StringStartsWith(("topic",), "pay"), {"pay", "payments"}),
        (StringEndsWith(("topic",), "s"), {"orders", "payments"}),
        (StringContains(("topic",), "ay"), {"pay", "payments"}),
        (StringStartsWith(("topic",), "p*"), set()),
    ],
)
def test_patterns_of_topics_are_taken_over(condition: Filter, fits: set[str]) -> None:
    wanted, left = taken_over("records", [condition])
    assert left == []
    replicas = [
        msgspec.structs.replace(REPLICA, topic=name) for name in ("orders", "pay", "payments")
    ]
    assert {one.topic for one in replicas if wanted.has_replica(one)} == fits


@pytest.mark.parametrize(
    ("table", "conditions", "least", "most"),
    [
        ("records", [GreaterThan(("timestamp_ms",), 5)], 6, None),
        ("batches", [GreaterThanOrEqual(("max_timestamp_ms",), 5)], 5, None),
        ("endings", [EqualTo(("timestamp_ms",), 5), GreaterThan(("first_timestamp_ms",), 1)], 5, 5),
        ("endings", [LessThan(("first_timestamp_ms",), 5)], None, None),
        ("records", [LessThan(("timestamp_ms",), 5)], None, 4),
        ("records", [LessThan(("timestamp_ms",), n) for n in (9, 5)], None, 4),
        ("batches", [GreaterThan(("base_timestamp_ms",), 5)], None, None),
        ("transactions", [GreaterThan(("last_update_timestamp_ms",), 5)], None, None),
    ],
)
def test_a_bound_of_times_leaves_out_segments_and_stays_with_spark(
    table: str, conditions: list[Filter], least: int | None, most: int | None
) -> None:
    wanted, left = taken_over(table, conditions)
    assert wanted == Wanted(time_min_ms=least, time_max_ms=most)
    assert left == conditions


def test_columns_that_bound_times_and_offsets_exist() -> None:
    assert {column for table in TABLES.values() for column in table.names} >= OFFSETS
    for table, columns in [*TIMES.items(), *EARLIER_TIMES.items()]:
        assert columns <= set(TABLES[table].names)


def test_conditions_that_all_must_hold_leave_what_they_have_in_common() -> None:
    conditions = [In(("topic",), ("a", "b")), In(("topic",), ("b", "c"))]
    assert taken_over("records", conditions) == (Wanted(topics=frozenset({"b"})), [])


@pytest.mark.parametrize(
    ("table", "condition"),
    [
        ("batches", Not(EqualTo(("topic",), "orders"))),
        ("batches", IsNotNull(("topic",))),
        ("batches", EqualNullSafe(("topic",), None)),
        ("batches", In(("topic",), ("orders", None))),
        ("batches", EqualTo(("codec",), "zstd")),
        ("batches", GreaterThan(("records",), 5)),
        ("batches", GreaterThan(("topic",), "orders")),
        ("aborted", EqualTo(("first_offset",), 5)),
        ("transactions", EqualTo(("producer_id",), 7)),
        ("leader_epochs", EqualTo(("producer_id",), 7)),
    ],
)
def test_others_are_spark_s(table: str, condition: Filter) -> None:
    assert taken_over(table, [condition]) == (Wanted(), [condition])


@pytest.mark.parametrize(
    ("conditions", "low", "high"),
    [
        ([EqualTo(("offset",), 5)], 5, 5),
        ([GreaterThan(("offset",), 5)], 6, None),
        ([GreaterThanOrEqual(("offset",), 5), GreaterThan(("offset",), 1)], 5, None),
        ([LessThan(("offset",), 5)], None, 4),
        ([LessThanOrEqual(("offset",), 5), LessThan(("offset",), 9)], None, 5),
    ],
)
def test_bounds_of_offsets_leave_out_segments_and_stay_with_spark(
    conditions: list[Filter], low: int | None, high: int | None
) -> None:
    wanted, left = taken_over("records", conditions)
    assert (wanted.offset_min, wanted.offset_max) == (low, high)
    assert left == conditions
