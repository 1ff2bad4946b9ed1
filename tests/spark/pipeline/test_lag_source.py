"""The streaming source ``kafka_lso_lag``, with real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.hanging_transaction import make_hanging
from tests.support.kafka_targets import KafkaTarget, kafka_target
from txnsim.client.admin import Admin
from txnsim.types import TopicPartition
from txnsim_spark.streaming.lag_source import LAG_TABLE, LagDataSource, lag_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

GHOSTLY = TopicPartition("ghostly", 1)


@pytest.fixture(scope="module")
def cluster_with_hanging() -> Iterator[KafkaTarget]:
    """A cluster with two partitions, one of which has a hanging transaction."""

    async def haunt(admin: Admin) -> None:
        await make_hanging(admin, GHOSTLY, "ghost")

    with kafka_target("txnsim") as target:
        target.create("ghostly", 2)
        target.ask(haunt)
        yield target


def lags(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    spark.dataSource.register(LagDataSource)
    return (
        spark.readStream.format("kafka_lso_lag")
        .options(**{"kafka.bootstrap.servers": bootstrap, "intervalMs": "0", **options})
        .load()
    )


def probe_rows(stream: DataFrame, output_path: Path) -> list[Any]:
    rows_seen: list[Any] = []

    def take(rows: DataFrame, _batch: int) -> None:
        rows_seen.extend(rows.toLocalIterator())

    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(output_path))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    return rows_seen


def test_one_row_per_partition_names_who_holds_it(
    spark: SparkSession, cluster_with_hanging: KafkaTarget, tmp_path: Path
) -> None:
    stream = lags(spark, cluster_with_hanging.bootstrap, subscribe="ghostly")
    assert tuple(stream.columns) == LAG_TABLE.names
    rows = probe_rows(stream, tmp_path)
    free_lag, held_lag = sorted(map(lag_of, rows), key=lambda row: row.partition or 0)
    assert (free_lag.topic, free_lag.lag, free_lag.held_by, free_lag.error) == (
        "ghostly",
        0,
        (),
        None,
    )
    assert (held_lag.topic, held_lag.lag, len(held_lag.held_by)) == ("ghostly", 1, 1)
    assert (held_lag.held_by[0].transactional_id, held_lag.held_by[0].start_offset) == ("ghost", 0)
    assert rows[0]["probed_at_ms"] == rows[1]["probed_at_ms"] > 0


def test_a_cluster_that_does_not_answer_is_a_row_and_no_failure(
    spark: SparkSession, tmp_path: Path
) -> None:
    (row,) = map(lag_of, probe_rows(lags(spark, "127.0.0.1:1"), tmp_path))
    assert (row.topic, row.lag) == (None, None)
    assert row.error is not None
    assert "127.0.0.1:1" in row.error
