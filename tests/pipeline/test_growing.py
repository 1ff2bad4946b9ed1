"""``readStream`` over a directory that grows, with Spark's own bookkeeping."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.growing_dirs import GrowingDir
from txnsim.pipeline.following import LOGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = pytest.mark.spark


def follow(spark: SparkSession, directory: str, name: str, out: str) -> DataStreamWriter:
    """A query that keeps a table as Parquet below ``out``."""
    rows = spark.readStream.format("kafka_log").option("table", name).load(directory)
    writer = rows.writeStream.option("checkpointLocation", f"{out}/checkpoints/{name}")
    if name in LOGS:
        return writer.format("parquet").option("path", f"{out}/{name}")
    return writer.foreachBatch(
        lambda found, _: found.write.mode("overwrite").parquet(f"{out}/{name}")
    )


def check(spark: SparkSession, growing: GrowingDir, name: str, out: Path) -> None:
    """Take what is left, and compare it with what a batch reads."""
    query = follow(spark, str(growing.path), name, str(out)).trigger(availableNow=True).start()
    query.awaitTermination()
    batch = spark.read.format("kafka_log").option("table", name).load(str(growing.path))
    found = counted(spark.read.parquet(str(out / name)).select(*batch.columns))
    assert found
    assert found == counted(batch)


def counted(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


@pytest.mark.parametrize("name", ["records", "findings"])
def test_a_stream_has_the_rows_of_a_batch(spark: SparkSession, tmp_path: Path, name: str) -> None:
    growing = GrowingDir(tmp_path / "broker-1")
    for _ in range(2):
        growing.grow()
        check(spark, growing, name, tmp_path / "out")
