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

from benchmarks.process_tree import Ran, cpu_of, ran
from benchmarks.store_data import Hours, make
from benchmarks.whole_command import AS_INSTALLED
from tests.support.store_servers import S3Store

HOURS: Final = Hours(partitions=20, hours=100)
"""2,000 segments."""
WAYS: Final[tuple[tuple[str, ...], ...]] = ((), ("--read-all",))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_stores")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args(arguments).rounds
    print("| find-hanging | directory, CPU, s | store, CPU, s | ratio | directory, s | store, s |"
          " server, CPU, s | load |\n|" + 8 * " --- |")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="txnsim-stores-") as scratch:
        place = Path(scratch) / "logs"
        segments = make(place, HOURS)
        (Path(scratch) / "store").mkdir()
        with S3Store(Path(scratch) / "store") as store:
            store.upload(place, "kafka")
            for more in WAYS:
                here, there, served_s = [], [], []
                for _ in range(rounds):
                    here.append(_searched([*more, str(place / "broker-0")]))
                    before_s = cpu_of(store.pid)
                    there.append(_searched([*more, *store.settings, f"{store.uri}/kafka/broker-0"]))
                    served_s.append(cpu_of(store.pid) - before_s)
                    assert _findings(here[-1]) == _findings(there[-1])
                print(_line(" ".join(more) or f"{segments:,} segments", here, there, served_s))
    return 0


def _searched(words: Sequence[str]) -> Ran:
    command = ["logs", "find-hanging", "--json", *words]
    return ran([sys.executable, "-c", AS_INSTALLED, *command])


def _findings(done: Ran) -> list[tuple[str, int, int]]:
    told = json.loads(done.stdout)["findings"]
    assert told, "some transactions hang there"
    return sorted((one["topic"], one["partition"], one["start_offset"]) for one in told)


def _line(title: str, here: list[Ran], there: list[Ran], served_s: list[float]) -> str:
    ratios = [other.cpu_s / one.cpu_s for one, other in zip(here, there, strict=True)]
    cells = (
        title,
        _spread([one.cpu_s for one in here]),
        _spread([one.cpu_s for one in there]),
        _spread(ratios),
        _spread([one.seconds for one in here]),
        _spread([one.seconds for one in there]),
        f"{statistics.median(served_s):.1f}",
        f"{os.getloadavg()[0]:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
