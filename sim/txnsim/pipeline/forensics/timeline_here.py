"""What ``logs timeline`` reads, in this process: the tables of ``timeline_sql`` without Spark, for
what is little. The walk over headers is the same compiled one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txnsim.pipeline.forensics.timeline import Timeline, producer_ids_of
from txnsim.pipeline.forensics.timeline_sql import merged_records, told_by
from txnsim.pipeline.tables.arrays import numbers_in, of_numbers, of_values
from txnsim.pipeline.tables.read_here import read_here
from txnsim.pipeline.wanted import Wanted
from txnsim.types import TRANSACTION_STATE_TOPIC

_PLACE: Final = ("log_dir", "broker", "topic", "partition", "producer_id")
_NUMBERS: Final = (
    *("base_offset", "last_offset", "base_timestamp_ms", "max_timestamp_ms"),
    *("producer_epoch", "records", "coordinator_epoch"),
)
_COLUMNS: Final = (
    *_PLACE,
    *_NUMBERS,
    *("has_delete_horizon", "is_transactional", "is_control", "control_type"),
)


def read_timeline_here(
    paths: Sequence[Path], transactional_id: str, topics: frozenset[str] = frozenset()
) -> Timeline:
    """All that log directories tell of a transactional id.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        transactional_id: Whose.
        topics: Only these, beside the coordinators' log; all where empty.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    return told_by(
        transactional_id,
        _coordinator_rows(paths, transactional_id),
        lambda producer_ids: stay_rows(paths, producer_ids, topics),
    )


def producer_ids_here(paths: Sequence[Path], transactional_id: str) -> tuple[int, ...]:
    """Every producer id that coordinators ever gave to a transactional id.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    records, _ = merged_records(_coordinator_rows(paths, transactional_id))
    return producer_ids_of(records)


def _coordinator_rows(paths: Sequence[Path], transactional_id: str) -> Iterator[dict[str, Any]]:
    own = of_values([transactional_id], pa.string())[0]
    for batch in read_here("transactions", paths, topics=frozenset({TRANSACTION_STATE_TOPIC})):
        is_wanted = pc.and_(pc.equal(batch["transactional_id"], own), pc.is_null(batch["problem"]))
        yield from batch.filter(is_wanted).to_pylist()


def stay_rows(
    paths: Sequence[Path], producer_ids: Sequence[int], topics: frozenset[str] = frozenset()
) -> Iterator[dict[str, Any]]:
    """A row per transaction of some producers on each replica, cut at markers; as
    ``timeline_sql.stays_frame`` has them.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        producer_ids: Whose.
        topics: Only these; all where empty.
    """
    wanted = Wanted(producer_ids=frozenset(producer_ids))
    found = [
        batch.filter(_counts(batch))
        for batch in read_here("batches", paths, columns=_COLUMNS, topics=topics, wanted=wanted)
    ]
    if not found:
        return
    table = pa.Table.from_batches(found).sort_by(
        [(name, "ascending") for name in (*_PLACE, "base_offset")]
    )
    if table.num_rows:
        yield from _cut(table)


def _counts(batch: pa.RecordBatch) -> Any:
    """Which batches are of a transaction. An emptied marker has no type, and ends nothing."""
    is_marker = pc.is_in(
        batch["control_type"], value_set=of_values(["commit", "abort"], pa.string())
    )
    return pc.and_(batch["is_transactional"], pc.or_(pc.invert(batch["is_control"]), is_marker))


def _cut(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Each transaction: batches of data up to a marker, or to the producer's last one."""
    numbers = {name: numbers_in(table[name], absent=-1) for name in _NUMBERS}
    is_marker = numbers_in(table["is_control"], absent=0) != 0
    begins = np.ones(table.num_rows, dtype=np.bool_)
    begins[1:] = is_marker[:-1]
    for name in _PLACE:
        column = table[name].combine_chunks()
        begins[1:] |= numbers_in(pc.not_equal(column[1:], column[:-1]), absent=0) != 0
    starts = np.flatnonzero(begins)
    ends = [*starts[1:], table.num_rows]
    has_horizon = numbers_in(table["has_delete_horizon"], absent=0) != 0
    places = table.select(_PLACE).take(of_numbers(starts, pa.int64())).to_pylist()
    for place, start, end in zip(places, starts, ends, strict=True):
        marker = end - 1 if is_marker[end - 1] else None
        yield {
            **place,
            **_data(numbers, has_horizon, int(start), end if marker is None else marker),
            **_marker(numbers, table, marker),
        }


def _data(numbers: dict[str, Any], has_horizon: Any, start: int, end: int) -> dict[str, int | None]:
    names = ("first_offset", "last_offset", "first_timestamp_ms", "last_timestamp_ms")
    if start == end:
        return {**dict.fromkeys((*names, "data_epoch")), "records": 0}
    base_ms = int(numbers["base_timestamp_ms"][start])
    # An emptied batch has none, and a delete horizon stands in its place.
    has_start = base_ms >= 0 and not has_horizon[start]
    return {
        "first_offset": int(numbers["base_offset"][start]),
        "last_offset": int(numbers["last_offset"][start:end].max()),
        "first_timestamp_ms": base_ms if has_start else int(numbers["max_timestamp_ms"][start]),
        "last_timestamp_ms": int(numbers["max_timestamp_ms"][end - 1]),
        "data_epoch": int(numbers["producer_epoch"][start:end].max()),
        "records": int(numbers["records"][start:end].sum()),
    }


def _marker(numbers: dict[str, Any], table: pa.Table, at: int | None) -> dict[str, Any]:
    def number(name: str) -> int | None:
        return None if at is None else int(numbers[name][at])

    return {
        "marker_offset": number("base_offset"),
        "marker_epoch": number("producer_epoch"),
        "marker_timestamp_ms": number("max_timestamp_ms"),
        "coordinator_epoch": number("coordinator_epoch"),
        "control_type": None if at is None else table["control_type"][at].as_py(),
    }
