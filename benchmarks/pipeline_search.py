"""Searches for hanging transactions, in a process of their own with Spark as ``txnsim logs
find-hanging`` starts it: ``python -m benchmarks.pipeline_search --times N DIRECTORY…``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.worker_memory import forget_peaks, largest_worker_mb
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.session import SHORT_SESSION_CONFIG, spark_session

CORES: Final = 2
_LIMIT_S: Final = 560.0


class JudgedTransaction(msgspec.Struct, frozen=True, order=True):
    """A transaction with its verdict, without the fields that differ between runs."""

    partition: int
    producer_id: int
    start_offset: int
    verdict: str


class DirectorySearch(msgspec.Struct, frozen=True, kw_only=True):
    """The result of all searches of one directory."""

    seconds: tuple[float, ...]
    worker_mb: float
    """Largest memory of a Python worker."""
    transactions: tuple[JudgedTransaction, ...]


class SearchRun(msgspec.Struct, frozen=True, kw_only=True):
    """The output of the process that searches."""

    session_seconds: float
    directories: tuple[DirectorySearch, ...]


def search_in_process(directories: Sequence[Path], *, repeat_count: int) -> SearchRun:
    """Search each directory ``times`` times, one after the other, in one session."""
    command = [sys.executable, "-m", "benchmarks.pipeline_search", "--times", str(repeat_count)]
    finished_process = subprocess.run(
        [*command, *map(str, directories)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        timeout=_LIMIT_S,
    )
    return msgspec.json.decode(finished_process.stdout, type=SearchRun)


def main(arguments: Sequence[str] | None = None) -> int:
    """Search each directory, and print the results as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline_search")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("directories", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    began_s = time.perf_counter()
    spark_config = {**SHORT_SESSION_CONFIG, "spark.driver.memory": "1g"}
    spark = spark_session(f"local[{CORES}]", config=spark_config)
    session_seconds = time.perf_counter() - began_s
    directory_searches = []
    for directory in options.directories:
        forget_peaks()
        search_times_s = []
        for _ in range(options.times):
            began_s = time.perf_counter()
            report = find_hanging(
                Search(paths=(directory,), with_spark=True),
                new_session=lambda: spark,
                progress=lambda _: None,
            )
            search_times_s.append(time.perf_counter() - began_s)
        judged_transactions = sorted(
            JudgedTransaction(
                finding.partition, finding.producer_id, finding.start_offset, finding.verdict.value
            )
            for finding in report.findings
        )
        directory_searches.append(
            DirectorySearch(
                seconds=tuple(search_times_s),
                worker_mb=largest_worker_mb(),
                transactions=tuple(judged_transactions),
            )
        )
    spark.stop()
    search_run = SearchRun(session_seconds=session_seconds, directories=tuple(directory_searches))
    print(msgspec.json.encode(search_run).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
