"""``python -m benchmarks.large_logs``: into how many tasks ``kafka_log`` divides a large log for
two cores, and what it leaves out: tasks, segments, and megabytes of them. Nothing is read, unless
``--read`` has Spark answer the questions by ``batches`` of such a day of more bytes.

The first log is half a gigabyte in batches of 90 bytes, the second one a day of ``orders`` in
segments of an hour.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.log_data import Scale, make_small_batches_log
from benchmarks.store_data import BEGAN_MS, HOUR_MS, LogHours, make_directories
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import Division, KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, shares_of
from txnsim_spark.session import spark_session

SPARK_DIVISION: Final = Division(
    max_partition_bytes=128 << 20, open_cost_bytes=4 << 20, parallelism=2
)
"""What a session says of itself on two cores."""
HALF_GIGABYTE_SCALE: Final = Scale(transactions=25_000)
ONE_DAY_LOG: Final = LogHours(brokers=1, partitions=20, transactions=100)
BUSY_DAY_LOG: Final = msgspec.structs.replace(ONE_DAY_LOG, transactions=1_500)
"""What Spark reads. To start a job takes it longer than to read ``DAY``."""
LAST_HOUR_MS: Final = BEGAN_MS + 23 * HOUR_MS
FILTERS: Final[Mapping[str, Mapping[str, str]]] = {
    "everything": {},
    "the last hour": {"startTimestamp": str(LAST_HOUR_MS)},
    "one partition": {"partitions": "7"},
    "one producer": {"producerIds": "1201"},
}
"""What a plan is asked for, by options."""
ROUNDS: Final = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan reads of half a gigabyte and of a day's log; print a line for each read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_logs")
    parser.add_argument("--read", action="store_true", help="have Spark read the day instead")
    if parser.parse_args(arguments).read:
        return _read_with_spark()
    half_gigabyte_directory = make_small_batches_log(HALF_GIGABYTE_SCALE).directory
    for table in ("fragments", "batches", "records"):
        print(_plan_line(f"500 MB, {table}", half_gigabyte_directory, table))
    with tempfile.TemporaryDirectory(prefix="txnsim-large-") as scratch:
        make_directories(Path(scratch) / "day", ONE_DAY_LOG)
        for plan_title, filter_options in FILTERS.items():
            print(_plan_line(f"a day, {plan_title}", f"{scratch}/day", "batches", **filter_options))
    return 0


def _read_with_spark() -> int:
    spark = spark_session("local[2]")
    with tempfile.TemporaryDirectory(prefix="txnsim-large-") as scratch:
        make_directories(Path(scratch) / "day", BUSY_DAY_LOG)
        for plan_title, filter_options in {"started": FILTERS["everything"], **FILTERS}.items():
            times_s = []
            for _ in range(ROUNDS):
                began_s = time.perf_counter()
                reader = spark.read.format("kafka_log").options(table="batches", **filter_options)
                log_frame = reader.load(f"{scratch}/day")
                log_frame.write.format("noop").mode("overwrite").save()
                times_s.append(time.perf_counter() - began_s)
            range_text = f"({min(times_s):.2f} to {max(times_s):.2f})"
            print(f"{plan_title:24} {statistics.median(times_s):5.2f} s {range_text}", flush=True)
    return 0


def _plan_line(plan_title: str, directory: str, table_name: str, **filters: str) -> str:
    options = KafkaLogOptions.of({"path": directory, "table": table_name, **filters})
    options = msgspec.structs.replace(options, division=SPARK_DIVISION)
    task_shares = shares_of(options, RowScope.of(options), FILES_OF_TABLE[table_name])
    size_by_path = {
        segment.path: segment.size for task_share in task_shares for segment in task_share.segments
    }
    megabytes = sum(size_by_path.values()) / 1e6
    return (
        f"{plan_title:24} {len(task_shares):3} tasks, {len(size_by_path):3} segments,"
        f" {megabytes:6.1f} MB"
    )


if __name__ == "__main__":
    sys.exit(main())
