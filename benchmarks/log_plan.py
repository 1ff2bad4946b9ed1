"""``python -m benchmarks.log_plan``: what it takes to plan reading many small segments, in a
process of its own: as Spark plans ``kafka_log``, and as ``logs find-hanging`` does for its workers.

A folder has hundred replicas' segments per ten thousand files, 189 bytes each: a batch. Nothing is
read but names, sizes and small files, so the figures are those of any size of log. Serialized are
the tasks as they go to Spark. ``--write`` puts the table into the documentation.

``--read N`` has Spark read so many segments as tables instead, each by a command of its own; with
``--delay-ms`` from a store on this machine that takes so long for each request.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from benchmarks import slow_store
from benchmarks.log_growth import RESULTS_PAGE, replace_section
from benchmarks.process_tree import run_command
from benchmarks.worker_memory import peak_memory_kb
from tests.support.apache_kafka import accepts
from tests.support.fragment_model import act, segment_of
from tests.support.store_servers import S3Store
from txnsim.storage import names
from txnsim.storage.metadata_files import MetaProperties, encode_meta_properties
from txnsim_spark.engine import pack_task
from txnsim_spark.forensics.find_hanging import DirectoryReader, Search
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, divide_evenly, shares_of
from txnsim_spark.source import Task

SEGMENT_COUNTS: Final = (1_000, 25_000, 100_000, 500_000)
SEGMENTS_EACH: Final = 100
"""Of a replica."""
BEGIN_MARK: Final = "<!-- measured: python -m benchmarks.log_plan --write -->\n"
END_MARK: Final = "<!-- end of the plans that were measured -->\n"
CORES: Final = 16
"""That tasks are planned for by ``find-hanging``."""
_READ_PROGRAM: Final = """
import sys
from txnsim_spark.session import spark_session

table, location, *settings = sys.argv[1:]
session = spark_session("local[2]", config=dict(setting.split("=", 1) for setting in settings))
reader = session.read.format("kafka_log").option("table", table)
reader.load(location).write.format("noop").mode("overwrite").save()
"""


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How Spark or the search divided one folder into tasks, and what planning cost."""

    segments: int
    way: str
    tasks: int
    megabytes: float
    """Of all tasks, serialized."""
    largest_kb: float
    seconds: float
    cpu_s: float
    peak_mb: float
    load: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_plan")
    parser.add_argument("--most", type=int, default=SEGMENT_COUNTS[-1], help="segments")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    parser.add_argument("--read", type=int, help="segments to read on two cores by Spark")
    parser.add_argument("--delay-ms", type=float, help="of a store that they are read from")
    parser.add_argument("--plan", nargs=2, metavar=("WAY", "DIRECTORY"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.plan is not None:
        planner_name, directory = options.plan
        print(msgspec.json.encode(_measure_plan(planner_name, Path(directory))).decode())
        return 0
    if options.read is not None:
        return _read_with_spark(options.read, options.delay_ms)
    read_plans = []
    for segment_count in (
        candidate_count for candidate_count in SEGMENT_COUNTS if candidate_count <= options.most
    ):
        with tempfile.TemporaryDirectory(prefix="txnsim-plan-") as scratch:
            directory = make_segments(Path(scratch) / "broker-1", segment_count)
            for planner_name in PLAN_FUNCTION_BY_PLANNER:
                read_plans.append(_measure_plan_in_process(planner_name, directory))
                print(_table_row(read_plans[-1]), file=sys.stderr, flush=True)
    table = "\n".join([_HEAD, *map(_table_row, read_plans)]) + "\n"
    print(table, end="")
    if options.write:
        RESULTS_PAGE.write_text(
            replace_section(RESULTS_PAGE.read_text("utf-8"), table, BEGIN_MARK, END_MARK), "utf-8"
        )
    return 0


_HEAD: Final = (
    "| segments | planned by | tasks | all tasks, MB | largest, kB | seconds | CPU, s |"
    " memory, MB | load |\n|" + 9 * " --- |"
)


def _table_row(read_plan: ReadPlan) -> str:
    row_cells = (
        f"{read_plan.segments:,}",
        read_plan.way,
        f"{read_plan.tasks:,}",
        f"{read_plan.megabytes:.2f}",
        f"{read_plan.largest_kb:.1f}",
        f"{read_plan.seconds:.1f}",
        f"{read_plan.cpu_s:.1f}",
        f"{read_plan.peak_mb:.0f}",
        f"{read_plan.load:.0f}",
    )
    return f"| {' | '.join(row_cells)} |"


def make_segments(directory: Path, segment_count: int) -> Path:
    """Make a log directory of a killed broker, with this number of segments."""
    segment_content = segment_of([act(value_bytes=60)])
    directory.mkdir()
    meta_properties = MetaProperties(cluster_id="benchmarks", node_id=1)
    (directory / names.FileName.META_PROPERTIES).write_text(encode_meta_properties(meta_properties))
    for first_segment_number in range(0, segment_count, SEGMENTS_EACH):
        replica_folder = directory / f"orders-{first_segment_number // SEGMENTS_EACH}"
        replica_folder.mkdir()
        for segment_number in range(min(SEGMENTS_EACH, segment_count - first_segment_number)):
            segment_path = replica_folder / names.Suffix.LOG.file_name(2 * segment_number)
            segment_path.write_bytes((2 * segment_number).to_bytes(8) + segment_content[8:])
    return directory


def _read_with_spark(segment_count: int, delay_ms: float | None) -> int:
    with tempfile.TemporaryDirectory(prefix="txnsim-plan-") as scratch, ExitStack() as stack:
        directory = make_segments(Path(scratch) / "broker-1", segment_count)
        log_location, hadoop_settings = str(directory), tuple[str, ...]()
        if delay_ms is not None:
            store = stack.enter_context(SlowStore(directory, delay_ms))
            log_location, hadoop_settings = f"{store.uri}/{directory.name}", store.hadoop
        for table_name in ("fragments", "batches", "records"):
            finished_read = run_command(
                [sys.executable, "-c", _READ_PROGRAM, table_name, log_location, *hadoop_settings]
            )
            assert not finished_read.status, table_name
            print(
                f"{table_name:9} {finished_read.seconds:6.1f} s,"
                f" {finished_read.cpu_s:6.1f} s of CPU,"
                f" Java's memory {finished_read.java_mb:.0f} MB,"
                f" load {finished_read.load_average:.0f}",
                flush=True,
            )
    return 0


class SlowStore(S3Store):
    """A store with the folder of a directory, as a context manager.

    Args:
        directory: The folder.
        delay_ms: What each request takes longer.
    """

    def __init__(self, directory: Path, delay_ms: float) -> None:
        super().__init__(directory.parent)
        self._store_arguments = [str(directory.parent), str(self._port), str(delay_ms / 1_000)]

    def _command(self) -> list[str]:
        return [sys.executable, slow_store.__file__, *self._store_arguments]

    def _accepts_connections(self) -> bool:
        return accepts(self._port)


def _measure_plan_in_process(planner_name: str, directory: Path) -> ReadPlan:
    command = [sys.executable, "-m", "benchmarks.log_plan", "--plan", planner_name, str(directory)]
    finished_process = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(finished_process.stdout, type=ReadPlan)


def _measure_plan(planner_name: str, directory: Path) -> ReadPlan:
    load_average = os.getloadavg()[0]
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    segment_count, task_sizes = PLAN_FUNCTION_BY_PLANNER[planner_name](directory)
    return ReadPlan(
        segments=segment_count,
        way=planner_name,
        tasks=len(task_sizes),
        megabytes=sum(task_sizes) / 1e6,
        largest_kb=max(task_sizes) / 1e3,
        seconds=time.perf_counter() - began_s,
        cpu_s=time.process_time() - began_cpu_s,
        peak_mb=peak_memory_kb(os.getpid()) / 1_000,
        load=load_average,
    )


SegmentCountAndTaskSizes = tuple[int, list[int]]
"""How many segments, and the bytes of each task."""


def _plan_by_source(directory: Path) -> SegmentCountAndTaskSizes:
    options = KafkaLogOptions.of({"path": str(directory), "table": "fragments"})
    task_shares = shares_of(options, RowScope(), FILES_OF_TABLE[options.table], is_user_read=True)
    return sum(len(task_share.segments) for task_share in task_shares), [
        len(Task(task_share).value) for task_share in task_shares
    ]


def _plan_by_search(directory: Path) -> SegmentCountAndTaskSizes:
    directory_reader = DirectoryReader(Search(paths=(directory,)), _refuse_session, lambda _: None)
    replica_states = directory_reader.states()
    tasks = divide_evenly(
        [state.unread_segments for state in replica_states], core_count=CORES, may_divide=True
    )
    return sum(map(len, tasks)), [len(pack_task(task)) for task in tasks]


def _refuse_session() -> NoReturn:
    raise AssertionError("a plan starts no Spark")


PLAN_FUNCTION_BY_PLANNER: Final[dict[str, Callable[[Path], SegmentCountAndTaskSizes]]] = {
    "`kafka_log`": _plan_by_source,
    "`find-hanging`": _plan_by_search,
}

if __name__ == "__main__":
    sys.exit(main())
