"""``python -m benchmarks.large_logs``: how ``kafka_log`` divides large logs and leaves out what is
not asked for: tasks, rows, seconds and CPU of the session, Java and Python, on two cores.

The first log is half a gigabyte in batches of 90 bytes, the second one many segments of a batch,
the third one a day of ``orders`` in segments of an hour, with their indexes and snapshots.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.log_data import TOPIC, Scale, small_batches
from benchmarks.log_plan import made_segments
from benchmarks.process_tree import cpu_below
from benchmarks.store_data import BEGAN_MS, HOUR_MS, Hours, make
from txnsim.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

HALF_GIGABYTE: Final = Scale(transactions=25_000, segment_bytes=512 << 20, partitions=1)
DAY: Final = Hours(brokers=1, partitions=20, transactions=300)
END_MS: Final = BEGAN_MS + 24 * HOUR_MS
ASKED: Final = (
    "topic is not null",
    f"max_timestamp_ms >= {END_MS - HOUR_MS}",
    "topic like 'pay%'",
    "producer_id = 1201",
)
STREAM_BYTES: Final = 64_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_logs")
    parser.add_argument("--files", type=int, default=100_000)
    files = parser.parse_args(arguments).files
    spark = spark_session("local[2]")
    half = small_batches(HALF_GIGABYTE).directory
    _load(spark, half, "batches").limit(1).collect()  # workers start, and Java compiles
    for table in ("fragments", "batches", "records"):
        _tell(f"{table}, 500 MB in one segment", _load(spark, half, table))
    with tempfile.TemporaryDirectory(prefix="txnsim-large-") as scratch:
        _stream(spark, half, Path(scratch) / "checkpoint")
        small = made_segments(Path(scratch) / "broker-1", files)
        _tell(f"fragments, {files:,} segments", _load(spark, str(small), "fragments"))
        make(Path(scratch) / "day", DAY)
        day = _load(spark, str(Path(scratch) / "day"), "batches")
        for condition in ASKED:
            _tell(f"batches, {condition}", day.where(condition))
    spark.stop()
    return 0


def _load(spark: SparkSession, directory: str, table: str) -> DataFrame:
    reader: DataFrameReader = spark.read.format("kafka_log").option("table", table)
    return reader.load(directory)


def _tell(title: str, asked: DataFrame) -> None:
    def read() -> str:
        return f"{asked.count():,} rows in {asked.rdd.getNumPartitions():,} tasks"

    _timed(title, read)


def _stream(spark: SparkSession, directory: str, checkpoint: Path) -> None:
    def read() -> str:
        follows = spark.readStream.format("kafka_log").option("table", "batches")
        bounded = follows.option("topics", TOPIC).option("maxBytesPerTrigger", STREAM_BYTES)
        written = bounded.load(directory).writeStream.format("noop").trigger(availableNow=True)
        query = written.option("checkpointLocation", str(checkpoint)).start()
        query.awaitTermination()
        rows = [one["numInputRows"] for one in query.recentProgress]
        return f"{len(rows)} batches of at most {max(rows):,} rows"

    _timed(f"a stream of batches, {STREAM_BYTES / 1e6:.0f} MB per trigger", read)


def _timed(title: str, read: Callable[[], str]) -> None:
    began_s, before_s = time.perf_counter(), cpu_below(os.getpid())
    found = read()
    took_s, cpu_s = time.perf_counter() - began_s, cpu_below(os.getpid()) - before_s
    print(f"{title:48} {found:36} {took_s:6.1f} s {cpu_s:6.1f} s of CPU; "
          f"load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
