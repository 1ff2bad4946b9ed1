"""No table is collected in the driver: commands work with one megabyte for results, over a
directory whose batches alone would need many.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.log_data import GeneratedLog, Scale, make_small_batches_log
from tests.support.quick_spark import quick_environment
from txnsim.storage import names

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

SCALE = Scale(
    partitions=4, segment_bytes=4_000_000, transactions=4_000, batches=20, hanging=5, alive=5
)
PROGRAM = """
import sys
from txnsim.cli.main import main
from txnsim_spark.session import spark_session

directory, out = sys.argv[1:]
spark = spark_session("local[2]", config={"spark.driver.maxResultSize": "1m"})
try:
    spark.read.format("kafka_log").load(directory).collect()
except Exception as refused:
    assert "maxResultSize" in str(refused), refused
    print("a table is refused", file=sys.stderr)
codes = [
    main(["logs", "find-hanging", "--json", "--read-all", "--master", "-", directory]),
    main(["logs", "verify", "--json", directory]),
]
for table in ("batches", "records"):
    rows = spark.read.format("kafka_log").option("table", table).load(directory)
    rows.write.partitionBy("topic").parquet(f"{out}/{table}")
print("exit statuses", codes, file=sys.stderr)
spark.stop()
"""
"""A program with one session for all commands: they use the running one."""


@pytest.fixture(scope="module")
def log() -> GeneratedLog:
    """Finished, hanging and live transactions in small batches."""
    return make_small_batches_log(SCALE)


def test_what_comes_to_the_driver_is_only_what_was_found(log: GeneratedLog, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, log.directory, str(tmp_path / "out")],
        env=quick_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "a table is refused" in process.stderr
    assert "exit statuses [3, 0]" in process.stderr, process.stderr
    report, _ = json.JSONDecoder().raw_decode(process.stdout)
    producers_found = {
        (finding["partition"], finding["producer_id"], finding["start_offset"])
        for finding in report["findings"]
        if finding["verdict"] == "hanging"
    }
    hanging_transactions = [finding for finding in log.strays if finding.is_hanging]
    assert producers_found == {
        (finding.partition, finding.producer_id, finding.start_offset)
        for finding in hanging_transactions
    }
    assert len(hanging_transactions) == SCALE.hanging
    written_files = list((tmp_path / "out").rglob("*.parquet"))
    assert written_files
    segments = Path(log.directory).rglob(f"*{names.Suffix.LOG}")
    assert sum(path.stat().st_size for path in segments) > 5_000_000
