"""``python -m benchmarks.little_logs``: what ``txnsim logs`` takes for 10 MB without Spark.

Each command runs as a process of its own, start of Python included, on 10 MB of batches of 90
bytes: the worst case, as what is looked at is headers. Printed are medians of the rounds: of the
time that passed, and of the CPU's, which other load disturbs less.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.log_data import Scale, make_small_batches_log
from benchmarks.whole_command import time_command
from txnsim_spark.log_database import LogDatabase

LOG_SCALE: Final = Scale(
    partitions=2, segment_bytes=5_000_000, transactions=500, hanging=5, alive=8
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each command, and print a line for it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.little_logs")
    parser.add_argument("--rounds", type=int, default=5)
    round_count = parser.parse_args(arguments).rounds
    log_directory = Path(make_small_batches_log(LOG_SCALE).directory)
    query = "SELECT transactional_id AS name FROM kafka_transactions LIMIT 1"
    (transactional_id,) = (row["name"] for row in LogDatabase([log_directory]).rows(query))
    for command in (
        "find-hanging --read-all",
        "describe",
        "verify",
        f"timeline {transactional_id}",
    ):
        command_words = ["logs", *command.split(), str(log_directory)]
        time_command(command_words)  # the walk is compiled once, and kept
        timed_runs = [time_command(command_words) for _ in range(round_count)]
        wall_s = statistics.median(timed_run.seconds for timed_run in timed_runs)
        cpu_s = statistics.median(timed_run.cpu_s for timed_run in timed_runs)
        print(f"{command:24}{wall_s:6.2f} s, CPU {cpu_s:.2f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
