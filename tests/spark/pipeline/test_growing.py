"""``readStream`` over a directory that grows, with Spark's own bookkeeping."""

from __future__ import annotations

import subprocess
import sys
import time  # noqa: TID251 - processes on the real machine
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.pipeline.following import follow
from tests.support.growing_dirs import GrowingDir
from tests.support.quick_spark import quick_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

KILLS: Final = 5
PLANNED: Final = "checkpoints/records/offsets"
WRITTEN: Final = "records/_spark_metadata"
COMMITTED: Final = "checkpoints/records/commits"
"""Files in which Spark notes a batch: before it is read, when its rows are written, when it is
done.
"""
BATCH_S_MAX: Final = 240


def check(
    spark: SparkSession, growing_dir: GrowingDir, file_name: str, output_file: Path, **bound: int
) -> None:
    """Read the rest of the stream, and compare all its rows with those of a batch query."""
    writer = follow(spark, str(growing_dir.path), file_name, str(output_file), **bound)
    writer.trigger(availableNow=True).start().awaitTermination()
    batch = spark.read.format("kafka_log").option("table", file_name).load(str(growing_dir.path))
    row_counts = count_rows(spark.read.parquet(str(output_file / file_name)).select(*batch.columns))
    assert row_counts
    assert row_counts == count_rows(batch)


def count_rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


@pytest.mark.parametrize("name", [pytest.param("records", marks=pytest.mark.nightly), "findings"])
def test_a_stream_has_the_rows_of_a_batch(spark: SparkSession, tmp_path: Path, name: str) -> None:
    growing_dir = GrowingDir(tmp_path / "broker-1")
    for _ in range(2):
        growing_dir.grow()
        check(spark, growing_dir, name, tmp_path / "out")


@pytest.mark.nightly
def test_a_backlog_comes_in_batches_of_a_bound(spark: SparkSession, tmp_path: Path) -> None:
    growing_dir, output_file = GrowingDir(tmp_path / "broker-1"), tmp_path / "out"
    growing_dir.grow(20)
    growing_dir.stop()
    check(spark, growing_dir, "records", output_file, maxBytesPerTrigger=900)
    assert len(numbers_in(output_file / COMMITTED)) > 2


@pytest.mark.nightly
def test_why_a_table_has_no_bound_is_said(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("kafka_log").option("table", "errors")
    query = rows.option("maxFilesPerTrigger", 1).load(str(tmp_path)).writeStream
    with pytest.raises(StreamingQueryException, match="table errors comes whole"):
        query.format("noop").start().awaitTermination()


def test_a_stream_of_another_table_is_refused_on_a_used_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    growing_dir, output_file = GrowingDir(tmp_path / "broker-1"), tmp_path / "out"
    growing_dir.grow()
    follow(spark, str(growing_dir.path), "records", str(output_file)).trigger(
        availableNow=True
    ).start().awaitTermination()
    rows_before = spark.read.parquet(str(output_file / "records")).count()
    growing_dir.grow()
    other_stream_frame = (
        spark.readStream.format("kafka_log").option("table", "batches").load(str(growing_dir.path))
    )
    writer = other_stream_frame.writeStream.format("parquet").option(
        "path", str(output_file / "other")
    )
    query = writer.option("checkpointLocation", str(output_file / "checkpoints/records"))
    with pytest.raises(StreamingQueryException, match="table records, not batches"):
        query.trigger(availableNow=True).start().awaitTermination()
    assert not list((output_file / "other").glob("*.parquet"))
    check(spark, growing_dir, "records", output_file)
    assert spark.read.parquet(str(output_file / "records")).count() > rows_before


@pytest.mark.slow  # each kill costs the start of a JVM: minutes
@pytest.mark.parametrize("step", [PLANNED, WRITTEN])
def test_kills_lose_nothing_and_double_nothing(
    spark: SparkSession, tmp_path: Path, step: str
) -> None:
    growing_dir, output_file = GrowingDir(tmp_path / "broker-1"), tmp_path / "out"
    interrupted = 0
    for _ in range(KILLS):
        growing_dir.grow()
        kill_behind(output_file / step, str(growing_dir.path), str(output_file))
        interrupted += (
            numbers_in(output_file / PLANNED) - numbers_in(output_file / COMMITTED) != set()
        )
    assert interrupted > KILLS // 2, "kills that strike between two batches show nothing"
    check(spark, growing_dir, "records", output_file)


def kill_behind(folder: Path, *arguments: str) -> None:
    """Follow the directory in a process; kill it with its children as soon as a new batch is in a
    folder.
    """
    numbers_before = numbers_in(folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.pipeline.following", *arguments],
        env=quick_environment(),
        start_new_session=True,
    )
    try:
        wait_until(lambda: bool(numbers_in(folder) - numbers_before) or process.poll() is not None)
        assert process.poll() is None, "it ended by itself"
    finally:
        session = ["--session", str(process.pid)]
        subprocess.run(["pkill", "-KILL", *session], check=False)
        process.wait()
        pgrep_command = ["pgrep", "--runstates", "D,R,S,T", *session]  # nobody may bury the JVM
        wait_until(
            lambda: subprocess.run(pgrep_command, check=False, stdout=DEVNULL).returncode != 0
        )


def numbers_in(folder: Path) -> set[int]:
    """Numbers of the batches that have a file in the folder."""
    files = folder.iterdir() if folder.exists() else ()
    return {int(name) for path in files if (name := path.name.partition(".compact")[0]).isdigit()}


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + BATCH_S_MAX
    while not is_so():
        assert time.monotonic() < end_s, "Spark has not come so far"
        time.sleep(0.002)
