"""Views of log directories have the same rows in Spark and in DuckDB."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.growing_dirs import PIDS, GrowingDir
from txnsim_spark import register_log_views
from txnsim_spark.log_database import LogDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_both_engines_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    growing_dir = GrowingDir(tmp_path / "broker-1")
    growing_dir.grow(20)
    growing_dir.stop()
    options = {"producerIds": ",".join(map(str, PIDS))}
    register_log_views(spark, str(growing_dir.path), **options)
    database = LogDatabase([growing_dir.path], options)
    for view in ("kafka_leaders", "kafka_partition_transactions", "leader", "kafka_outcomes"):
        embedded_rows = database.rows(f"SELECT * FROM {view}")
        spark_rows = [row.asDict(recursive=True) for row in spark.table(view).collect()]
        assert embedded_rows, view
        assert sorted(map(text_of, embedded_rows)) == sorted(map(text_of, spark_rows)), view


def test_a_view_in_sql_has_options_and_comments(spark: SparkSession, tmp_path: Path) -> None:
    growing_dir = GrowingDir(tmp_path / "broker-1")
    growing_dir.grow()
    growing_dir.stop()
    options = f"OPTIONS (path '{growing_dir.path}', table 'records', topics 'orders')"
    spark.sql(f"CREATE TEMPORARY VIEW shot USING kafka_log {options}")
    try:
        frame = spark.read.format("kafka_log").options(table="records", topics="orders")
        assert spark.table("shot").count() == frame.load(str(growing_dir.path)).count() > 0
        comment_by_column = {
            row.col_name: row.comment for row in spark.sql("DESCRIBE shot").collect()
        }
        assert comment_by_column["topic"] == "Of the replica."
    finally:
        spark.sql("DROP VIEW shot")


def text_of(row: dict[str, object]) -> str:
    return repr({name: plain(value) for name, value in row.items()})


def plain(value: object) -> object:
    """A value for comparison: bytes have two types, and Spark's times are in this machine's time
    zone.
    """
    match value:
        case bytes() | bytearray():
            return bytes(value)
        case datetime():
            return value.astimezone(UTC)
    return value
