"""The installed Spark still lacks what docs/contributing/spark-workarounds.md works around. Where a
test fails, Spark has learnt it: the workaround can go.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class OptionsDataSource(DataSource):
    """A source whose only row says what it was given."""

    @classmethod
    def name(cls) -> str:
        return "given_options"

    def schema(self) -> str:
        return "options string, has_session boolean"

    def reader(self, schema: Any) -> DataSourceReader:
        return OptionsReader(dict(self.options))


class OptionsReader(DataSourceReader):
    """Its reader."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        from pyspark.sql import SparkSession

        return [InputPartition(SparkSession.getActiveSession() is not None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, bool]]:
        yield repr(sorted(self._options.items())), partition.value


def given(spark: SparkSession, table: str) -> dict[str, str]:
    """The options that the source was given when this table was read."""
    (row,) = spark.table(table).collect()
    return dict(ast.literal_eval(row["options"]))


@pytest.fixture
def source_name(spark: SparkSession) -> str:
    spark.dataSource.register(OptionsDataSource)
    return OptionsDataSource.name()


def test_the_options_of_a_table_are_kept_back(
    spark: SparkSession, source_name: str, tmp_path: Path
) -> None:
    options = f"OPTIONS (path '{tmp_path}', topic 'orders')"
    spark.sql(f"CREATE TEMPORARY VIEW given_view USING {source_name} {options}")
    spark.sql(f"CREATE TABLE given_table USING {source_name} {options}")
    try:
        assert given(spark, "given_view")["topic"] == "orders"
        assert "topic" not in given(spark, "given_table")
    finally:
        spark.sql("DROP TABLE given_table")
        spark.catalog.dropTempView("given_view")


def test_a_source_is_planned_without_the_session(spark: SparkSession, source_name: str) -> None:
    (row,) = spark.read.format(source_name).load().collect()
    assert row["has_session"] is False


def test_a_source_is_not_told_which_columns_are_wanted() -> None:
    assert not hasattr(DataSourceReader, "pruneColumns")


def test_rows_are_made_of_arrow_columns(spark: SparkSession, source_name: str) -> None:
    frame = spark.read.format(source_name).load()
    plan = frame._jdf.queryExecution().sparkPlan()
    assert not plan.supportsColumnar()


def test_a_source_has_no_metrics_of_its_own() -> None:
    assert not [name for name in dir(DataSourceReader) if "metric" in name.lower()]
