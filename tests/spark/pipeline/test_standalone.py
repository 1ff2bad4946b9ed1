"""The pipeline on a cluster: a standalone master and two worker processes, and ``spark-submit`` of
the installed package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time  # noqa: TID251 - processes on the real machine
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import txnsim_spark.cli.submit
from benchmarks.log_data import TOPIC, Scale, make_small_batches_log
from tests.support.standalone_spark import WORKERS, SparkTask, StandaloneSpark
from txnsim_spark.log_database import LogDatabase

pytestmark = [pytest.mark.spark, pytest.mark.real]

FIND = ("logs", "find-hanging", "--json", "--read-all", "--max-transaction-timeout", "1")

SCALE = Scale(
    partitions=4, segment_bytes=9_000_000, transactions=36_000, batches=20, hanging=5, alive=5
)
"""Some seventy megabytes: enough for several tasks, as a task has at least sixteen."""
LITTLE = Scale(
    partitions=4, segment_bytes=4_000_000, transactions=4_000, batches=20, hanging=5, alive=5
)
"""Eight megabytes, for a reader with tasks of one megabyte."""
TIMEOUT_S = 300.0
SUBMITTED = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "txnsim_spark.daemon",
}
"""Settings for cheap tasks; a session of txnsim has them anyway."""

READ_WHEN_RELEASED = """
import sys
from pathlib import Path
from time import sleep
from txnsim_spark.session import spark_session

master, paths, marks = sys.argv[1:]

def wait(rows):
    (worker,) = [one for one in Path.cwd().parts if one.startswith("worker-")]
    (Path(marks) / worker).touch()
    while not (Path(marks) / "released").exists():
        sleep(0.02)
    yield from rows

spark = spark_session(master)
reader = spark.read.format("kafka_log").option("table", "batches").option("taskBytes", "1000000")
rows = reader.load(paths).select("base_offset", "records")
held = rows.mapInArrow(wait, "base_offset bigint, records int")
print(*held.selectExpr("count(*)", "sum(records)", "sum(base_offset)").first())
spark.stop()
"""
"""A program whose tasks wait, so that a worker can be killed while it surely has one."""


def shared_out(tasks: list[SparkTask]) -> bool:
    """Whether there was more than one task, and each worker had some: a worker's only core makes
    one executor.
    """
    return len(tasks) > 1 and len({task.executor for task in tasks}) == WORKERS


Hanging = set[tuple[str, int, int, int]]
"""Topic, partition, producer id and start offset."""


def hanging(output: str) -> Hanging:
    """The findings in a program's output; ``spark-submit`` prints stderr in front of them."""
    findings: list[dict[str, Any]] = json.loads(output[output.index("{") :])["findings"]
    return {
        (finding["topic"], finding["partition"], finding["producer_id"], finding["start_offset"])
        for finding in findings
        if finding["verdict"] == "hanging"
    }


def test_hanging_transactions_are_found_by_both_workers(cluster: StandaloneSpark) -> None:
    generated_log = make_small_batches_log(SCALE)
    assert txnsim_spark.cli.submit.__file__ is not None
    # Its master is that of spark-submit; that one is named asks for Spark also where it is little.
    find = (Path(txnsim_spark.cli.submit.__file__), *FIND, "--master", "-", generated_log.directory)
    output = cluster.submit(*find, config=SUBMITTED)
    assert output.returncode == 3, output.stderr
    assert hanging(output.stdout) == {
        (
            TOPIC,
            stray_transaction.partition,
            stray_transaction.producer_id,
            stray_transaction.start_offset,
        )
        for stray_transaction in generated_log.strays
        if stray_transaction.is_hanging
    }
    tasks = cluster.tasks()
    assert shared_out(tasks), tasks


def test_a_worker_that_is_killed_in_the_middle_changes_no_answer(
    cluster: StandaloneSpark, tmp_path: Path
) -> None:
    generated_log = make_small_batches_log(LITTLE)
    command = (sys.executable, "-c", READ_WHEN_RELEASED, cluster.url, generated_log.directory)
    output, ends = with_a_worker_killed(cluster, tmp_path / "marks", command)
    sums = "SELECT count(*) AS a, sum(records) AS b, sum(base_offset) AS c FROM kafka_batches"
    (expected,) = (
        tuple(row.values()) for row in LogDatabase([Path(generated_log.directory)]).rows(sums)
    )
    assert tuple(map(int, output.split())) == expected
    assert ends > {"Success"}, "the task of the worker that was killed has failed"


def with_a_worker_killed(
    cluster: StandaloneSpark, marks_file: Path, command: Sequence[str]
) -> tuple[str, set[str]]:
    """Run a program and kill a worker meanwhile; returns its output, and how its tasks ended.

    Each task notes its worker in a folder, which is the last argument, and waits there until it is
    released; a worker is killed before that.
    """
    marks_file.mkdir()
    process = cluster.begin(*command, str(marks_file))
    try:
        wait_for_both(process, marks_file)
        cluster.kill_worker(1)
        (marks_file / "released").touch()
        output, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        cluster.replace_killed()
    assert process.returncode == 0, errors
    return output, {task_end["Task End Reason"]["Reason"] for task_end in cluster.task_ends()}


def wait_for_both(process: subprocess.Popen[str], marks_file: Path) -> None:
    """Wait until each worker runs a task."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(list(marks_file.iterdir())) < WORKERS:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s, list(marks_file.iterdir())
        time.sleep(0.05)
