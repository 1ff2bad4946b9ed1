"""Spark's classes, found and verified once for all JVMs of the tests: Java's class data sharing.

A JVM of Spark looks each of its some ten thousand classes up in 277 jars and verifies it, five
seconds of CPU. An archive, made once below the ignored ``.cache/``, spares it that. A JVM whose
class path is another one, or that finds no archive, works as without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyspark

from tests.support.apache_kafka import CACHE, hold_lock
from txnsim_spark.session import SHORT_SESSION_CONFIG, spark_session
from txnsim_spark.traces.tables import traces_as_views

_LINE: Final = """{"k":"run","schema":2,"nodes":["broker/1"]}\n{"k":"end","events":0}\n"""


def shared_classes() -> Path:
    """The archive of shared classes, made on first use. If Java can't make one, the file
    is empty.
    """
    directory = CACHE / "spark" / "classes"
    archive_file = directory / f"{_digest()}.jsa"
    with hold_lock(CACHE / "spark-classes.lock"):
        if not archive_file.is_file():
            directory.mkdir(parents=True, exist_ok=True)
            partial_file = directory / f"partial-{os.getpid()}.jsa"
            command = [sys.executable, "-m", "tests.support.spark_classes", str(partial_file)]
            subprocess.run(command, check=True, capture_output=True)
            partial_file.touch()
            partial_file.rename(archive_file)
    return archive_file


def reading(archive_file: Path) -> str:
    """JVM options that use the archive. Logging is off, as Java would print complaints about it
    among a program's output.
    """
    return f"-XX:SharedArchiveFile={archive_file} -Xshare:auto -Xlog:disable"


def _digest() -> str:
    """A digest of what the archive depends on: Java, Spark's jars, and this file."""
    java_program = Path(shutil.which("java") or "").resolve()
    facts = (java_program, pyspark.__path__, pyspark.__version__, java_program.stat().st_mtime)
    return hashlib.sha256(repr(facts).encode() + Path(__file__).read_bytes()).hexdigest()[:12]


def _use_spark(archive_file: Path, scratch_folder: Path) -> None:
    """Run a JVM that loads what tests load: SQL, Parquet, JSON, Python, a stream."""
    options = f"{SHORT_SESSION_CONFIG['spark.driver.defaultJavaOptions']} -Xlog:disable"
    spark = spark_session(
        "local[2]",
        config={
            "spark.driver.memory": "1g",
            "spark.driver.defaultJavaOptions": f"{options} -XX:ArchiveClassesAtExit={archive_file}",
        },
    )
    trace_file = scratch_folder / "trace.jsonl"
    trace_file.write_text(_LINE, "utf-8")
    with traces_as_views(spark, [str(trace_file)]):
        spark.sql("SELECT run, count(*) FROM trace_events GROUP BY run ORDER BY run").collect()
    rows = spark.createDataFrame([(1, "a")], "number int, name string")
    rows.mapInArrow(lambda batches: batches, rows.schema).write.parquet(f"{scratch_folder}/rows")
    query = (
        spark.readStream.schema(rows.schema)
        .parquet(f"{scratch_folder}/rows")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{scratch_folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{scratch_folder}/copied")
    )
    query.awaitTermination()
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    # The archive is made as the JVM ends. It stays a child, so that the watch over hangs sees work.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        _use_spark(Path(sys.argv[1]), Path(directory))
