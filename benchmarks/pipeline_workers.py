"""``python -m benchmarks.pipeline_workers``: what a second worker of Spark gains, and how evenly
tasks are shared out.

A standalone cluster of this machine reads the table ``fragments`` of two gigabytes of small
batches, with one worker of one core and with two, in alternation. How long each task ran is what
Spark's event log says. On a machine that is shared, what the busier worker had to do says more than
the time that passed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.log_data import TOPIC, Scale, make_small_batches_log
from tests.support.standalone_spark import StandaloneSpark

READ_PROGRAM: Final = """
import sys
from txnsim_spark.session import spark_session

master, cores, directory, topic = sys.argv[1:]
spark = spark_session(master, config={"spark.cores.max": cores})
reader = spark.read.format("kafka_log").options(table="fragments", checkCrc="false", topics=topic)
for _ in range(2):  # the first time workers start, and Java compiles
    reader.load(directory).write.format("noop").mode("overwrite").save()
spark.stop()
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline_workers")
    parser.add_argument("--rounds", type=int, default=3)
    round_count = parser.parse_args(arguments).rounds
    directory = make_small_batches_log(Scale()).directory
    speedups = []
    with (
        tempfile.TemporaryDirectory(prefix="txnsim-workers-") as scratch,
        StandaloneSpark(Path(scratch) / "cluster") as cluster,
    ):
        for _ in range(round_count):
            one_core_s, two_cores_s = (
                _measure_busiest_s(cluster, core_count, directory) for core_count in (1, 2)
            )
            speedups.append(one_core_s / two_cores_s)
    print(f"two workers: {statistics.median(speedups):.2f} times one ({min(speedups):.2f} to"
          f" {max(speedups):.2f}); load {os.getloadavg()[0]:.1f}")  # fmt: skip
    return 0


def _measure_busiest_s(cluster: StandaloneSpark, core_count: int, directory: str) -> float:
    """Measure how long the worker with most to do was busy."""
    finished_process = cluster.run(
        sys.executable, "-c", READ_PROGRAM, cluster.url, str(core_count), directory, TOPIC
    )
    assert not finished_process.returncode, finished_process.stderr
    task_ends = cluster.task_ends()
    last_stage_id = max(task_end["Stage ID"] for task_end in task_ends)
    busy_s_by_executor: defaultdict[str, float] = defaultdict(float)
    task_times_s = []
    for task_end in task_ends:
        if task_end["Stage ID"] == last_stage_id:
            task_times_s.append(task_end["Task Metrics"]["Executor Run Time"] / 1_000)
            busy_s_by_executor[task_end["Task Info"]["Executor ID"]] += task_times_s[-1]
    median_s = statistics.median(task_times_s)
    busy_text = ", ".join(f"{busy_s:.2f}" for busy_s in busy_s_by_executor.values())
    print(f"{core_count}: {len(task_times_s)} tasks of {min(task_times_s):.2f} to"
          f" {max(task_times_s):.2f} s,"
          f" median {median_s:.2f}, largest {max(task_times_s) / median_s:.2f} times that;"
          f" busy {busy_text} s")  # fmt: skip
    return max(busy_s_by_executor.values())


if __name__ == "__main__":
    sys.exit(main())
