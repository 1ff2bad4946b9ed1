"""``python -m benchmarks.kafka_source``: ``kafka_log`` beside Spark's own Kafka source.

A real broker is filled by Kafka's own ``producer-perf-test``, a record in each batch. One session
of two cores reads all of it in alternation: Spark's source from the broker, ``kafka_log`` from the
broker's disk. CPU is that of the session, Java and Python; the broker's stands beside.
"""

from __future__ import annotations

import argparse
import operator
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.process_tree import read_cpu_s, read_tree_cpu_s
from tests.support.apache_kafka import ApacheKafka
from tests.support.spark_connector import connector_jars
from txnsim_spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

TOPIC: Final = "orders"
PARTITIONS: Final = 4
RECORD_BYTES: Final = 60
PERF_TOOL: Final = "org.apache.kafka.tools.ProducerPerformance"
_FILL_TIMEOUT_S: Final = 900.0
SPARK_SOURCE: Final = "Spark's own source"
SPARK_COLUMNS: Final = (
    "key binary, value binary, topic string not null, partition int not null,"
    " offset bigint not null, timestamp_ms bigint not null, timestamp_type string not null"
)
"""Of ``records``, what Spark's own source gives of a record."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_source")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with ApacheKafka(transaction_version=2) as kafka:
        _fill_topic(kafka, options.records)
        directory = kafka.homes[0] / "data"
        size_bytes = sum(
            segment_file.stat().st_size for segment_file in directory.glob(f"{TOPIC}-*/*.log")
        )
        jar_list = ",".join(map(str, connector_jars().glob("*.jar")))
        spark = spark_session("local[2]", config={"spark.jars": jar_list})
        read_by_source = _read_by_source(spark, kafka.bootstrap, str(directory))
        costs_by_source: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
        for round_number in range(1 + options.rounds):
            for source_name, read_source in read_by_source.items():
                clocks_before = _read_clocks(kafka)
                read_source()
                if round_number:  # before, workers start, and Java compiles
                    costs_by_source[source_name].append(
                        tuple(map(operator.sub, _read_clocks(kafka), clocks_before))
                    )
        spark.stop()
    print(f"{options.records:,} records, {size_bytes / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}")
    spark_source_s, spark_source_cpu_s, _ = _median_of_each(costs_by_source[SPARK_SOURCE])
    for source_name, source_costs in costs_by_source.items():
        median_s, median_cpu_s, median_broker_cpu_s = _median_of_each(source_costs)
        print(f"{source_name:28}{median_s:7.2f} s{median_cpu_s:7.2f} s of CPU,"
              f" the broker's {median_broker_cpu_s:.2f};"
              f" {spark_source_s / median_s:.1f} and"
              f" {spark_source_cpu_s / median_cpu_s:.1f} times as fast")  # fmt: skip
    return 0


def _read_clocks(kafka: ApacheKafka) -> tuple[float, float, float]:
    """Read the time now, and the CPU time so far of this session and of the broker."""
    own_cpu_s = read_tree_cpu_s(os.getpid(), excluded_pids=kafka.pids)
    return time.perf_counter(), own_cpu_s, sum(map(read_cpu_s, kafka.pids))


def _fill_topic(kafka: ApacheKafka, record_count: int) -> None:
    create_arguments = ("--create", "--topic", TOPIC, "--partitions", str(PARTITIONS))
    kafka.run_tool("org.apache.kafka.tools.TopicCommand", *create_arguments)
    tool_run = kafka.run_tool(
        PERF_TOOL,
        *("--topic", TOPIC, "--num-records", str(record_count), "--record-size", str(RECORD_BYTES)),
        *("--throughput", "-1", "--command-property", "batch.size=0"),
        timeout_s=_FILL_TIMEOUT_S,
    )
    assert not tool_run.code, tool_run.stderr


def _read_by_source(
    spark: SparkSession, bootstrap: str, directory: str
) -> dict[str, Callable[[], None]]:
    """Make a function that reads by each source, Spark's own Kafka source first."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}
    reader_by_source = {SPARK_SOURCE: spark.read.format("kafka").options(**options)}
    for table in ("fragments", "batches", "records"):
        reader_by_source[f"kafka_log, {table}"] = _make_log_reader(spark, directory, table)
    reader_by_source["kafka_log, Spark's columns"] = _make_log_reader(
        spark, directory, "records"
    ).schema(SPARK_COLUMNS)
    return {
        source_name: partial(_read_all, reader) for source_name, reader in reader_by_source.items()
    }


def _make_log_reader(spark: SparkSession, directory: str, table_name: str) -> DataFrameReader:
    options = {"table": table_name, "topics": TOPIC, "checkCrc": "false", "path": directory}
    return spark.read.format("kafka_log").options(**options)


def _read_all(reader: DataFrameReader) -> None:
    reader.load().write.format("noop").mode("overwrite").save()


def _median_of_each(costs: Sequence[tuple[float, ...]]) -> list[float]:
    return [statistics.median(samples_of_figure) for samples_of_figure in zip(*costs, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
