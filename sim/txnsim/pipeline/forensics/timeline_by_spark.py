"""What ``logs timeline`` reads (``timeline_here``), by Spark: where it is much.

A query of the coordinators' log finds the producer ids. A query of batches reads headers only and
drops other producers at once. What a producer wrote on a replica goes to one task, which cuts it at
its markers. A row per record of the coordinator and per transaction and partition comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from txnsim.pipeline.forensics.timeline import Timeline
from txnsim.pipeline.forensics.timeline_here import (
    COLUMNS,
    PLACE,
    in_transactions,
    stays_in,
    timeline_identities,
    told_by,
)
from txnsim.pipeline.options import FORMAT
from txnsim.pipeline.tasks import arrow_schema
from txnsim.types import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAYS: Final = (
    "log_dir string, broker int, topic string, partition int, producer_id bigint,"
    " producer_epoch int, first_offset bigint, last_offset bigint, first_timestamp_ms bigint,"
    " last_timestamp_ms bigint, records bigint, marker_offset bigint, marker_epoch int,"
    " marker_timestamp_ms bigint, committed boolean, coordinator_epoch int"
)


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
    from pyspark.sql import functions as sql

    def read_stays(producer_ids: Sequence[int]) -> Iterator[dict[str, Any]]:
        batches = _table(spark, paths, "batches", topics).select(*COLUMNS)
        mine = batches.where(sql.col("producer_id").isin(*producer_ids))
        return _rows_of(mine.groupBy(*PLACE).applyInArrow(_cut, STAYS))

    records = _table(spark, paths, "transactions", frozenset({TRANSACTION_STATE_TOPIC})).where(
        (sql.col("transactional_id") == transactional_id) & sql.col("problem").isNull()
    )
    identities = timeline_identities(paths, topics)
    return told_by(transactional_id, _rows_of(records), read_stays, identities)


def _cut(rows: pa.Table) -> pa.Table:
    """The transactions of one producer on one replica."""
    stays = stays_in(rows.filter(in_transactions(rows)))
    return pa.Table.from_pylist(list(stays), schema=arrow_schema(STAYS))


def _table(
    spark: SparkSession, paths: Sequence[Path], table: str, topics: frozenset[str]
) -> DataFrame:
    named = ",".join(str(path.absolute()) for path in paths)  # the session began in any folder
    read = spark.read.format(FORMAT).option("path", named)
    if topics:
        read = read.option("topics", ",".join(sorted(topics)))
    return read.option("table", table).load()


def _rows_of(frame: DataFrame) -> Iterator[dict[str, Any]]:
    return (row.asDict(recursive=True) for row in frame.toLocalIterator())
