"""Views in SQL over the tables of ``kafka_log``, for Spark and for DuckDB (``embedded``).

``kafka_NAME`` is the table NAME. If several replicas of a partition are read, the views take each
row from the replica that an election would choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE_PREFIX: Final = "kafka_"
LEADERS: Final = """
-- Of each partition the replica of the newest leader epoch, and of these the longest.
SELECT topic, partition, log_dir, broker
FROM (
  SELECT
    topic, partition, log_dir, broker,
    row_number() OVER (
      PARTITION BY topic, partition
      ORDER BY max(leader_epoch) DESC, max(last_offset) DESC, broker, log_dir
    ) AS place
  FROM kafka_batches
  GROUP BY topic, partition, log_dir, broker
) AS ranked
WHERE place = 1
"""
LEADER_RECORDS: Final = """
-- Every record once, and not once for each replica.
SELECT record.*
FROM kafka_records AS record
JOIN kafka_leaders AS leader
  ON leader.log_dir = record.log_dir AND leader.topic = record.topic
  AND leader.partition = record.partition
"""
PARTITION_TRANSACTIONS: Final = """
-- Batches of a producer up to its marker, or to the last one. An emptied marker ends nothing.
WITH numbered AS (
  SELECT
    *,
    coalesce(sum(CASE WHEN is_control THEN 1 ELSE 0 END) OVER (
      PARTITION BY log_dir, topic, partition, producer_id ORDER BY base_offset
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0) AS number
  FROM kafka_batches
  WHERE is_transactional AND (NOT is_control OR control_type IN ('commit', 'abort'))
)
SELECT
  log_dir, broker, topic, partition, producer_id,
  coalesce(max(producer_epoch) FILTER (WHERE NOT is_control), max(producer_epoch))
    AS producer_epoch,
  min(base_offset) FILTER (WHERE NOT is_control) AS first_offset,
  max(last_offset) FILTER (WHERE NOT is_control) AS last_offset,
  -- An emptied batch has no first time, and a delete horizon stands in its place.
  min_by(
    CASE
      WHEN base_timestamp_ms >= 0 AND NOT has_delete_horizon THEN base_timestamp_ms
      ELSE max_timestamp_ms
    END,
    base_offset
  ) FILTER (WHERE NOT is_control) AS first_timestamp_ms,
  max_by(max_timestamp_ms, base_offset) FILTER (WHERE NOT is_control) AS last_timestamp_ms,
  cast(coalesce(sum(records) FILTER (WHERE NOT is_control), 0) AS bigint) AS records,
  max(base_offset) FILTER (WHERE is_control) AS marker_offset,
  max(producer_epoch) FILTER (WHERE is_control) AS marker_epoch,
  max(max_timestamp_ms) FILTER (WHERE is_control) AS marker_timestamp_ms,
  max(coordinator_epoch) FILTER (WHERE is_control) AS coordinator_epoch,
  bool_or(control_type = 'commit') FILTER (WHERE is_control) AS committed
FROM numbered
GROUP BY log_dir, broker, topic, partition, producer_id, number
"""
OUTCOMES: Final = """
-- The data of `leader`, each record with the first offset and the outcome of its transaction.
SELECT
  record.*,
  txn.first_offset AS transaction_offset,
  CASE
    WHEN txn.first_offset IS NULL THEN 'none'
    WHEN txn.committed IS NULL THEN 'open'
    WHEN txn.committed THEN 'committed'
    ELSE 'aborted'
  END AS outcome
FROM leader AS record
LEFT JOIN kafka_partition_transactions AS txn
  ON txn.log_dir = record.log_dir AND txn.topic = record.topic
  AND txn.partition = record.partition AND txn.producer_id = record.producer_id
  AND record.`offset` BETWEEN txn.first_offset AND txn.last_offset
WHERE NOT record.is_control
"""
DECISIONS: Final = """
-- A row per decision of a coordinator and partition that it lists.
WITH entries AS (
  SELECT
    entry.partition AS coordinator, entry.`offset` AS decision_offset,
    entry.transactional_id, entry.producer_id, entry.producer_epoch, entry.state,
    entry.partitions, entry.client_transaction_version,
    entry.last_update_timestamp_ms AS decided_ms,
    lead(entry.timestamp_ms) OVER (
      PARTITION BY entry.partition, entry.transactional_id ORDER BY entry.`offset`
    ) AS completed_ms
  FROM kafka_transactions AS entry
  JOIN kafka_leaders AS leader
    ON leader.log_dir = entry.log_dir AND leader.topic = entry.topic
    AND leader.partition = entry.partition
  WHERE entry.transactional_id IS NOT NULL
), listed AS (
  SELECT *, explode(partitions) AS place
  FROM entries
  WHERE state IN ('PrepareCommit', 'PrepareAbort')
)
SELECT
  coordinator, decision_offset, transactional_id, producer_id, producer_epoch, decided_ms,
  completed_ms, state = 'PrepareCommit' AS is_commit,
  coalesce(client_transaction_version, 0) >= 2 AS is_by_epoch,
  place.topic AS topic, place.partition AS partition
FROM listed
"""
VIEWS: Final = {
    "kafka_leaders": LEADERS,
    "kafka_partition_transactions": PARTITION_TRANSACTIONS,
    "leader": LEADER_RECORDS,
    "kafka_outcomes": OUTCOMES,
    "kafka_decisions": DECISIONS,
}
"""Name -> query, in the order of creation."""


def register_log_views(spark: SparkSession, *paths: str, **options: str) -> None:
    """Create the tables of log directories in Spark SQL, ``kafka_batches`` and so on, and the views
    over them: ``leader``, ``kafka_partition_transactions``, ``kafka_outcomes``.

    Args:
        spark: The session.
        paths: Log directories, folders of them, or replicas' folders.
        options: Options of the data source, such as ``topics`` or ``startTimestamp``; each applies
            to the tables that have it.
    """
    from txnsim_spark.schemas import TABLES

    create_views({table: log_table(spark, table, paths, options) for table in TABLES}, spark, VIEWS)


def log_table(
    spark: SparkSession,
    table: str,
    paths: Sequence[str],
    options: Mapping[str, str],
    columns: Set[str] | None = None,
) -> DataFrame:
    """A table of log directories.

    Args:
        spark: The session.
        table: Its name.
        paths: Log directories, folders of them, or replicas' folders.
        options: Options of the data source; those that the table does not have are left out.
        columns: The columns to read, the others are null; None reads all of them.
    """
    from txnsim_spark.options import tables_with

    reader = spark.read.format("kafka_log").options(
        table=table,
        **{name: value for name, value in options.items() if table in tables_with(name)},
    )
    if columns is None:
        return reader.load([*paths])
    from pyspark.sql.functions import lit
    from pyspark.sql.types import StructType

    from txnsim_spark.source import schema_of

    fields = schema_of(table).fields
    # Where rows are only counted, a column that costs little stands for them.
    read_fields = [field for field in fields if field.name in (columns or {"partition"})]
    rows = reader.schema(StructType(read_fields)).load([*paths])
    return rows.select(
        *(
            rows[field.name]
            if field.name in columns
            else lit(None).cast(field.dataType).alias(field.name)
            for field in fields
        )
    )


def create_views(
    tables: Mapping[str, DataFrame], spark: SparkSession, views: Mapping[str, str]
) -> None:
    """Create temporary views: of tables, by their names, and of queries over them."""
    for table, rows in tables.items():
        rows.createOrReplaceTempView(f"{TABLE_PREFIX}{table}")
    for view_name, query in views.items():
        spark.sql(query).createOrReplaceTempView(view_name)
