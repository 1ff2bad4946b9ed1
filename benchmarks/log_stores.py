"""``python -m benchmarks.log_stores``: what ``logs find-hanging`` takes on a directory, and on the
same directory in a store of this machine (moto's S3 server), in alternation.

CPU is the command's. The server's stands beside it, and is more. Elapsed time says little, as both
share the machine's cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.process_tree import FinishedCommand, read_cpu_s, run_command
from benchmarks.store_data import LogHours, make_directories
from benchmarks.whole_command import AS_INSTALLED
from tests.support.store_servers import S3Store

LOG_HOURS: Final = LogHours(partitions=20, hours=100)
"""2,000 segments."""
SEARCH_OPTIONS: Final[tuple[tuple[str, ...], ...]] = ((), ("--read-all",))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_stores")
    parser.add_argument("--rounds", type=int, default=5)
    round_count = parser.parse_args(arguments).rounds
    print("| find-hanging | directory, CPU, s | store, CPU, s | ratio | directory, s | store, s |"
          " server, CPU, s | load |\n|" + 8 * " --- |")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="txnsim-stores-") as scratch:
        directory = Path(scratch) / "logs"
        segment_count = make_directories(directory, LOG_HOURS)
        (Path(scratch) / "store").mkdir()
        with S3Store(Path(scratch) / "store") as store:
            store.upload(directory, "kafka")
            for search_options in SEARCH_OPTIONS:
                local_runs, store_runs, server_cpu_times_s = [], [], []
                for _ in range(round_count):
                    local_runs.append(_run_search([*search_options, str(directory / "broker-0")]))
                    server_cpu_s_before = read_cpu_s(store.pid)
                    store_runs.append(
                        _run_search(
                            [*search_options, *store.settings, f"{store.uri}/kafka/broker-0"]
                        )
                    )
                    server_cpu_times_s.append(read_cpu_s(store.pid) - server_cpu_s_before)
                    assert _findings(local_runs[-1]) == _findings(store_runs[-1])
                print(
                    _table_row(
                        " ".join(search_options) or f"{segment_count:,} segments",
                        local_runs,
                        store_runs,
                        server_cpu_times_s,
                    )
                )
    return 0


def _run_search(options: Sequence[str]) -> FinishedCommand:
    command = ["logs", "find-hanging", "--json", *options]
    return run_command([sys.executable, "-c", AS_INSTALLED, *command])


def _findings(finished_search: FinishedCommand) -> list[tuple[str, int, int]]:
    findings = json.loads(finished_search.stdout)["findings"]
    assert findings, "some transactions hang there"
    return sorted(
        (finding["topic"], finding["partition"], finding["start_offset"]) for finding in findings
    )


def _table_row(
    title: str,
    local_runs: list[FinishedCommand],
    store_runs: list[FinishedCommand],
    server_cpu_times_s: list[float],
) -> str:
    cpu_ratios = [
        store_run.cpu_s / local_run.cpu_s
        for local_run, store_run in zip(local_runs, store_runs, strict=True)
    ]
    row_cells = (
        title,
        _spread_text([search_run.cpu_s for search_run in local_runs]),
        _spread_text([search_run.cpu_s for search_run in store_runs]),
        _spread_text(cpu_ratios),
        _spread_text([search_run.seconds for search_run in local_runs]),
        _spread_text([search_run.seconds for search_run in store_runs]),
        f"{statistics.median(server_cpu_times_s):.1f}",
        f"{os.getloadavg()[0]:.1f}",
    )
    return f"| {' | '.join(row_cells)} |"


def _spread_text(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
