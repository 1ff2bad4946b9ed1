"""The table ``findings`` of ``kafka_log``, and ``txnsim_spark.find_hanging``, on Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from txnsim_spark import find_hanging
from txnsim_spark.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
AS_OF = datetime.fromtimestamp(NOW / 1_000 + 7_200, UTC)


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Two brokers with the same hanging transaction on ``orders`` and ``payments``."""
    hanging_log_driver = LogDriver()
    hanging_log_driver.txn(0)
    for broker in (1, 2):
        broker_dir = BrokerDir(tmp_path / f"broker-{broker}", broker)
        broker_dir.coordinator(move("Empty"))
        broker_dir.replica(hanging_log_driver, "payments")
        broker_dir.replica(hanging_log_driver)
        broker_dir.stop()
    return tmp_path


def rows(frame: DataFrame) -> list[Any]:
    return sorted(tuple(row) for row in frame.collect())


def test_table_function_and_parquet_have_the_same_rows(
    spark: SparkSession, disks: Path, tmp_path: Path
) -> None:
    findings_frame = find_hanging(spark, disks, as_of=AS_OF)
    reader = spark.read.format("kafka_log").option("table", "findings")
    table = reader.option("asOf", AS_OF.isoformat()).load(str(disks))
    assert rows(table) == rows(findings_frame)
    assert findings_frame.count() == 2
    column_types = {
        field.name: (field.dataType.simpleString(), field.nullable)
        for field in findings_frame.schema
    }
    assert column_types == {
        column.name: (column.type, column.is_nullable) for column in TABLES["findings"].columns
    }
    assert [field.dataType for field in table.schema] == [
        field.dataType for field in findings_frame.schema
    ]
    hanging_frame = table.where("topic = 'orders' and verdict = 'hanging'")
    assert [row.last_written_at.timestamp() * 1_000 for row in hanging_frame.collect()] == [NOW]
    findings_frame.write.parquet(str(tmp_path / "out"))
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == rows(findings_frame)
