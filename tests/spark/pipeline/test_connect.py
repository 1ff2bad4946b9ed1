"""Everything that works on a session works on one of Spark Connect, whose client has no JVM. It
runs in a process of its own, because a process has sessions of one kind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.log_tables import broker_dir, busy_log, replica
from tests.support.quick_spark import quick_environment
from txnsim.cli.main import main

pytestmark = [
    pytest.mark.spark,
    pytest.mark.nightly,  # a JVM of its own
    pytest.mark.skipif(find_spec("grpc") is None, reason="pyspark[connect] is not installed"),
]

PROGRAM: Final = """
import json, sys
from pathlib import Path

from pyspark.sql import SparkSession

from txnsim_spark import find_hanging, register_log_views, spark_session, traces_as_views
from txnsim_spark.campaign_engine import SparkEngine
from txnsim_spark.engine import Engine
from txnsim_spark.tables.replica_jobs import kept_rows
from txnsim_spark.traces.schemas import view_of

logs, trace, out = sys.argv[1:]
SparkSession.builder.remote("local[2]").getOrCreate()
spark = spark_session()
found = {"kind": type(spark).__module__}
frame = spark.read.format("kafka_log").load(logs)
found["counts"] = [frame.count(), frame.where("producer_id = 7").count(), frame.count()]
found["verdicts"] = sorted({row.verdict for row in find_hanging(spark, logs).collect()})
register_log_views(spark, logs)
found["leader"] = spark.table("leader").count()
spark.sql(f"create temporary view some using kafka_log options (path '{logs}', table 'endings')")
found["endings"] = spark.table("some").count()
engine = Engine(lambda: spark, with_spark=True)
kept = kept_rows(engine, "batches", [Path(logs)], lambda batch: batch)
found["by_spark"] = [sum(map(len, kept)), engine.has_used_spark]
found["each"] = list(SparkEngine(spark).run_each(lambda number: number * 2, [1, 2, 3]))
rows = spark.readStream.format("kafka_log").option("table", "records").load(logs)
query = (
    rows.writeStream.format("parquet")
    .option("checkpointLocation", f"{out}/checkpoint")
    .trigger(availableNow=True)
    .start(f"{out}/records")
)
query.awaitTermination()
found["streamed"] = spark.read.parquet(f"{out}/records").count()
with traces_as_views(spark, [trace], out):
    found["events"] = spark.table(view_of("events")).count() > 0
print(json.dumps(found))
spark.stop()
"""


def test_a_session_without_a_jvm_has_the_same_answers(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    replica(broker_dir(logs), busy_log())
    trace_file = tmp_path / "traces"
    assert (
        main(["scenario", "run", "z01", "--mode", "V-", "--armed", "--trace", str(trace_file)]) == 0
    )
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(logs), str(trace_file), str(tmp_path / "out")],
        env={**quick_environment(), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    answers: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    assert answers.pop("kind").startswith("pyspark.sql.connect")
    assert answers == {
        "counts": [90, 30, 90],
        "verdicts": ["unknown"],
        "leader": 150,
        "endings": 30,
        "by_spark": [90, True],
        "each": [2, 4, 6],
        "streamed": 150,
        "events": True,
    }
