"""What ``logs timeline`` reads: the coordinators' log and the batches of the id's producers, by
Spark.

A query of the coordinators' log names the producer ids; a query of batches, which reads headers
only and leaves out other producers on the spot, cuts what each producer wrote at its markers. A row
per record of the coordinator and per transaction and partition comes back. Replicas that tell the
same are listed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from txnsim.pipeline.forensics.timeline import (
    CoordinatorRecord,
    Stay,
    Timeline,
    producer_ids_of,
    timeline_of,
)
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_timeline(
    spark: SparkSession,
    paths: Sequence[Path],
    transactional_id: str,
    topics: frozenset[str] = frozenset(),
) -> Timeline:
    """All that log directories tell of a transactional id.

    Args:
        spark: With ``kafka_log`` registered.
        paths: Log directories, folders of them, or replicas' folders.
        transactional_id: Whose.
        topics: Only these, beside the coordinators' log; all where empty.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    return told_by(
        transactional_id,
        _rows_of(_coordinator_frame(spark, paths, transactional_id)),
        lambda producer_ids: _rows_of(stays_frame(spark, paths, producer_ids, topics)),
    )


def told_by(
    transactional_id: str,
    records_read: Iterable[dict[str, Any]],
    read_stays: Callable[[Sequence[int]], Iterable[dict[str, Any]]],
) -> Timeline:
    """The timeline of rows that were read, with Spark or without.

    Args:
        transactional_id: Whose.
        records_read: Sound rows of the table ``transactions`` about the id.
        read_stays: Producer ids -> a row per transaction on each replica, as ``stays_frame`` has
            them.
    """
    records, apart = merged_records(records_read)
    producer_ids = producer_ids_of(records)
    if not producer_ids:
        return timeline_of(transactional_id, records, ())
    stays, behind = merged_stays(read_stays(producer_ids))
    timeline = timeline_of(transactional_id, records, stays)
    disagreements = (*apart, *behind, *timeline.disagreements)
    return msgspec.structs.replace(timeline, disagreements=disagreements)


# Spark


def _coordinator_frame(
    spark: SparkSession, paths: Sequence[Path], transactional_id: str
) -> DataFrame:
    from pyspark.sql import functions as sql

    rows = _table(spark, paths, "transactions", frozenset({TRANSACTION_STATE_TOPIC}))
    return rows.where(
        (sql.col("transactional_id") == transactional_id) & sql.col("problem").isNull()
    )


def stays_frame(
    spark: SparkSession,
    paths: Sequence[Path],
    producer_ids: Iterable[int],
    topics: frozenset[str] = frozenset(),
) -> DataFrame:
    """A row per transaction of these producers on each replica, cut at markers."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    batches = _table(spark, paths, "batches", topics).where(
        sql.col("producer_id").isin(*producer_ids) & sql.col("is_transactional")
    )
    # An emptied marker has no type, and ends nothing.
    batches = batches.where(
        ~sql.col("is_control") | sql.col("control_type").isin("commit", "abort")
    )
    replica = ("log_dir", "broker", "topic", "partition", "producer_id")
    before = (
        Window.partitionBy(*replica)
        .orderBy("base_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    is_marker = sql.col("is_control")
    number = sql.coalesce(sql.sum(sql.when(is_marker, 1).otherwise(0)).over(before), sql.lit(0))

    def of_data(column: Any) -> Any:
        return sql.when(~is_marker, column)

    def of_marker(column: Any) -> Any:
        return sql.max(sql.when(is_marker, column))

    # An emptied batch has none, and a delete horizon stands in its place.
    has_start = ~sql.col("has_delete_horizon") & (sql.col("base_timestamp_ms") >= 0)
    starts = sql.when(has_start, sql.col("base_timestamp_ms"))
    return (
        batches.withColumn("number", number)
        .groupBy(*replica, "number")
        .agg(
            sql.min(of_data(sql.col("base_offset"))).alias("first_offset"),
            sql.max(of_data(sql.col("last_offset"))).alias("last_offset"),
            sql.min_by(
                sql.coalesce(starts, sql.col("max_timestamp_ms")), of_data(sql.col("base_offset"))
            ).alias("first_timestamp_ms"),
            sql.max_by(sql.col("max_timestamp_ms"), of_data(sql.col("base_offset"))).alias(
                "last_timestamp_ms"
            ),
            sql.max(of_data(sql.col("producer_epoch"))).alias("data_epoch"),
            sql.coalesce(sql.sum(of_data(sql.col("records"))), sql.lit(0)).alias("records"),
            of_marker(sql.col("base_offset")).alias("marker_offset"),
            of_marker(sql.col("producer_epoch")).alias("marker_epoch"),
            of_marker(sql.col("max_timestamp_ms")).alias("marker_timestamp_ms"),
            of_marker(sql.col("control_type")).alias("control_type"),
            of_marker(sql.col("coordinator_epoch")).alias("coordinator_epoch"),
        )
    )


def _table(
    spark: SparkSession, paths: Sequence[Path], table: str, topics: frozenset[str]
) -> DataFrame:
    read = spark.read.format("kafka_log").option("path", ",".join(map(str, paths)))
    if topics:
        read = read.option("topics", ",".join(sorted(topics)))
    return read.option("table", table).load()


def _rows_of(frame: DataFrame) -> Iterator[dict[str, Any]]:
    return (row.asDict(recursive=True) for row in frame.toLocalIterator())


# Replicas


def merged_records(
    rows: Iterable[dict[str, Any]],
) -> tuple[list[CoordinatorRecord], list[str]]:
    """Each record once, by offset; and what replicas tell differently."""
    found: defaultdict[tuple[int, int], dict[CoordinatorRecord, set[int]]] = defaultdict(dict)
    for row in rows:
        record = _record_of(row)
        at = (record.partition, record.offset)
        found[at].setdefault(record, set()).add(row["broker"])
    apart = [
        f"{TRANSACTION_STATE_TOPIC}-{partition}: replicas hold different records at offset {offset}"
        for (partition, offset), held in sorted(found.items())
        if len(held) > 1
    ]
    merged = [
        msgspec.structs.replace(record, brokers=tuple(sorted(brokers)))
        for _, held in sorted(found.items())
        for record, brokers in held.items()
    ]
    return merged, apart


def _record_of(row: dict[str, Any]) -> CoordinatorRecord:
    def number(name: str) -> int:
        return -1 if row[name] is None else int(row[name])

    return CoordinatorRecord(
        brokers=(),
        partition=row["partition"],
        offset=row["offset"],
        # When it was appended: CompleteCommit bears the time at which it was prepared.
        timestamp_ms=-1 if row["timestamp_ms"] is None else row["timestamp_ms"],
        state=row["state"],
        producer_id=number("producer_id"),
        producer_epoch=number("producer_epoch"),
        previous_producer_id=number("previous_producer_id"),
        next_producer_id=number("next_producer_id"),
        timeout_ms=number("timeout_ms"),
        partitions=tuple(
            TopicPartition(one["topic"], one["partition"]) for one in row["partitions"] or ()
        ),
        start_timestamp_ms=row["start_timestamp_ms"],
        client_version=row["client_transaction_version"] or 0,
    )


def merged_stays(rows: Iterable[dict[str, Any]]) -> tuple[list[Stay], list[str]]:
    """Each transaction once per partition, as the replicas have it that have come farthest; and
    which have not.
    """
    found: defaultdict[tuple[Any, ...], dict[Stay, set[int]]] = defaultdict(dict)
    for row in rows:
        stay = _stay_of(row)
        start = stay.marker_offset if stay.first_offset is None else stay.first_offset
        found[stay.topic, stay.partition, start, stay.producer_id].setdefault(stay, set()).add(
            row["broker"]
        )
    merged: list[Stay] = []
    behind: list[str] = []
    for _, held in sorted(found.items()):
        ranked = sorted(held, key=_reach, reverse=True)
        merged.append(msgspec.structs.replace(ranked[0], brokers=tuple(sorted(held[ranked[0]]))))
        for other in ranked[1:]:
            brokers = ", ".join(f"broker {broker}" for broker in sorted(held[other]))
            behind.append(
                f"{other.topic_partition}: on {brokers} the transaction from offset "
                f"{other.first_offset} on {_ending_of(other)}; elsewhere it {_ending_of(ranked[0])}"
            )
    return merged, behind


def _reach(stay: Stay) -> tuple[int, int]:
    return (-1 if stay.marker_offset is None else stay.marker_offset, stay.last_offset or -1)


def _ending_of(stay: Stay) -> str:
    if stay.marker_offset is None:
        return f"is open (last record at {stay.last_offset})"
    return f"{'commits' if stay.committed else 'aborts'} at offset {stay.marker_offset}"


def _stay_of(row: dict[str, Any]) -> Stay:
    has_marker = row["marker_offset"] is not None
    return Stay(
        brokers=(),
        topic=row["topic"],
        partition=row["partition"],
        producer_id=row["producer_id"],
        producer_epoch=row["marker_epoch"] if row["data_epoch"] is None else row["data_epoch"],
        first_offset=row["first_offset"],
        last_offset=row["last_offset"],
        first_timestamp_ms=row["first_timestamp_ms"],
        last_timestamp_ms=row["last_timestamp_ms"],
        records=row["records"],
        marker_offset=row["marker_offset"],
        marker_epoch=row["marker_epoch"],
        marker_timestamp_ms=row["marker_timestamp_ms"],
        committed=row["control_type"] == "commit" if has_marker else None,
        coordinator_epoch=row["coordinator_epoch"],
    )
