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

from benchmarks.process_tree import FinishedCommand, cpu_s_of, run_command
from benchmarks.store_data import LogHours, make_directories
from benchmarks.whole_command import AS_INSTALLED
from tests.support.store_servers import S3Store

LOG_HOURS: Final = LogHours(partitions=20, hours=100)
"""2,000 segments."""
STORE_WAYS: Final[tuple[tuple[str, ...], ...]] = ((), ("--read-all",))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_stores")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args(arguments).rounds
    print("| find-hanging | directory, CPU, s | store, CPU, s | ratio | directory, s | store, s |"
          " server, CPU, s | load |\n|" + 8 * " --- |")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="txnsim-stores-") as scratch:
        directory = Path(scratch) / "logs"
        segment_count = make_directories(directory, LOG_HOURS)
        (Path(scratch) / "store").mkdir()
        with S3Store(Path(scratch) / "store") as store:
            store.upload(directory, "kafka")
            for options in STORE_WAYS:
                local_runs, store_runs, server_cpu_times_s = [], [], []
                for _ in range(rounds):
                    local_runs.append(_search([*options, str(directory / "broker-0")]))
                    server_cpu_s_before = cpu_s_of(store.pid)
                    store_runs.append(
                        _search([*options, *store.settings, f"{store.uri}/kafka/broker-0"])
                    )
                    server_cpu_times_s.append(cpu_s_of(store.pid) - server_cpu_s_before)
                    assert _findings(local_runs[-1]) == _findings(store_runs[-1])
                print(
                    _line(
                        " ".join(options) or f"{segment_count:,} segments",
                        local_runs,
                        store_runs,
                        server_cpu_times_s,
                    )
                )
    return 0


def _search(options: Sequence[str]) -> FinishedCommand:
    command = ["logs", "find-hanging", "--json", *options]
    return run_command([sys.executable, "-c", AS_INSTALLED, *command])


def _findings(search: FinishedCommand) -> list[tuple[str, int, int]]:
    findings = json.loads(search.stdout)["findings"]
    assert findings, "some transactions hang there"
    return sorted(
        (finding["topic"], finding["partition"], finding["start_offset"]) for finding in findings
    )


def _line(
    title: str,
    local_runs: list[FinishedCommand],
    store_runs: list[FinishedCommand],
    server_cpu_times_s: list[float],
) -> str:
    ratios = [
        store_run.cpu_s / local_run.cpu_s
        for local_run, store_run in zip(local_runs, store_runs, strict=True)
    ]
    cells = (
        title,
        _spread([run.cpu_s for run in local_runs]),
        _spread([run.cpu_s for run in store_runs]),
        _spread(ratios),
        _spread([run.seconds for run in local_runs]),
        _spread([run.seconds for run in store_runs]),
        f"{statistics.median(server_cpu_times_s):.1f}",
        f"{os.getloadavg()[0]:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
