"""The part of a query's WHERE that this data source checks itself: places and producers. So a job
reads only what the query wants.

Spark hands over conditions that must all be true. A condition by place or producer is taken, and
Spark does not check it again. A condition by offset or time only leaves out segments that can't
hold such rows, and Spark checks the rows.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from txnsim_spark.log_query import Wanted
from txnsim_spark.schemas import BY_PRODUCER, TABLES

OFFSETS: Final = frozenset(
    {
        "base_offset",
        "first_offset",
        "last_offset",
        "marker_offset",
        "offset",
        "segment_base_offset",
    }
)
"""Columns of tables of segments whose values lie between a segment's number and the next one's."""
TIMES: Final[Mapping[str, frozenset[str]]] = {
    "batches": frozenset({"max_timestamp_ms"}),
    "records": frozenset({"timestamp_ms"}),
    "endings": frozenset({"timestamp_ms"}),
    "fragments": frozenset({"last_timestamp_ms", "open_timestamp_ms", "open_last_timestamp_ms"}),
}
"""Table -> columns whose values are timestamps of the segment."""
EARLIER_TIMES: Final[Mapping[str, frozenset[str]]] = {"endings": frozenset({"first_timestamp_ms"})}
"""Table -> columns whose values may be timestamps of an earlier segment."""
BY_SEGMENT: Final = frozenset(
    {"batches", "fragments", "endings", "records", "transactions", "offsets", "segments"}
)

Values = frozenset[object] | None
"""None: any."""


def taken_over(
    table: str,
    filters: Iterable[Filter],
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
) -> tuple[Wanted, list[Filter]]:
    """What is asked for, within what was asked for before, and which conditions Spark still has to
    look at.
    """
    if table == "findings":  # judged from all replicas and the coordinators' logs together
        return wanted, list(filters)
    left: list[Filter] = []
    for one in filters:
        narrowed = _narrowed(table, wanted, one)
        if narrowed is None:
            wanted = _bounded(table, wanted, one)
            left.append(one)
        else:
            wanted = narrowed
    return wanted, left


_FIELDS: Final = {
    "log_dir": "log_dirs",
    "broker": "brokers",
    "topic": "topics",
    "partition": "partitions",
    "producer_id": "producer_ids",
}


def _narrowed(table: str, wanted: Wanted, one: Filter) -> Wanted | None:
    """The scope narrowed by a place or producer; None for another condition."""
    match one:
        case (
            EqualTo(attribute=(name,), value=value) | EqualNullSafe(attribute=(name,), value=value)
        ):
            values = frozenset({value})
        case In(attribute=(name,), value=several):
            values = frozenset(several)
        case StringStartsWith(attribute=("topic",), value=text):
            return _of_topics(wanted, f"{glob.escape(text)}*")
        case StringEndsWith(attribute=("topic",), value=text):
            return _of_topics(wanted, f"*{glob.escape(text)}")
        case StringContains(attribute=("topic",), value=text):
            return _of_topics(wanted, f"*{glob.escape(text)}*")
        case _:
            return None
    field = _FIELDS.get(name)
    if field is None or None in values or name not in TABLES[table].names:
        return None
    if name == "producer_id" and table not in BY_PRODUCER:
        return None
    before: frozenset[object] | None = getattr(wanted, field)
    both = values if before is None else values & before
    return msgspec.structs.replace(wanted, **{field: both})


def _of_topics(wanted: Wanted, pattern: str) -> Wanted:
    return msgspec.structs.replace(wanted, topic_patterns=wanted.topic_patterns | {pattern})


def _bounded(table: str, wanted: Wanted, one: Filter) -> Wanted:
    """With the bounds that a condition puts to offsets or times, if it does."""
    low = high = None
    match one:
        case EqualTo(attribute=(name,), value=int(value)):
            low = high = value
        case GreaterThan(attribute=(name,), value=int(value)):
            low = value + 1
        case GreaterThanOrEqual(attribute=(name,), value=int(value)):
            low = value
        case LessThan(attribute=(name,), value=int(value)):
            high = value - 1
        case LessThanOrEqual(attribute=(name,), value=int(value)):
            high = value
        case _:
            return wanted
    is_time = name in TIMES.get(table, ())
    if is_time or name in EARLIER_TIMES.get(table, ()):
        lows = [bound for bound in (low, wanted.time_min_ms) if bound is not None]
        highs = [bound for bound in (high, wanted.time_max_ms) if is_time and bound is not None]
        return msgspec.structs.replace(
            wanted,
            time_min_ms=max(lows, default=None),
            time_max_ms=min(highs, default=wanted.time_max_ms),
        )
    if name not in OFFSETS or table not in BY_SEGMENT:
        return wanted
    lows = [bound for bound in (low, wanted.offset_min) if bound is not None]
    highs = [bound for bound in (high, wanted.offset_max) if bound is not None]
    return msgspec.structs.replace(
        wanted, offset_min=max(lows, default=None), offset_max=min(highs, default=None)
    )
