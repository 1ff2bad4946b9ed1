"""A session that somebody else has made prints nothing of ours where Spark wants no more rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from benchmarks.log_data import Scale, small_batches

pytestmark = pytest.mark.spark

PROGRAM: Final = """
import sys
from pyspark.sql import SparkSession
from txnsim_spark.session import register

spark = SparkSession.builder.master("local[2]").getOrCreate()
if sys.argv[2] == "registered":
    register(spark)
log = spark.read.format("kafka_log").option("topics", "orders")
for table in ("batches", "fragments"):
    rows = log.option("table", table).load(sys.argv[1])
    rows.limit(1).show()
    print(len(rows.where("producer_id > 0").take(3)))
"""
SCALE: Final = Scale(transactions=4_000)
"""80 MB: workers are in the middle of it when Spark has its rows."""


@pytest.mark.nightly  # two sessions of Spark
@pytest.mark.parametrize("how", ["registered", "found by its name"])
def test_spark_closes_its_pipes_and_nobody_complains(how: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, small_batches(SCALE).directory, how]
    done = subprocess.run(
        program,
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.isdigit()] == ["3", "3"]
    said = done.stderr
    assert "BrokenPipeError" not in said
    assert "Traceback" not in said
