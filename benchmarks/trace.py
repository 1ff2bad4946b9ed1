"""``python -m benchmarks.trace``: what recording costs a running server.

One server with three brokers, one load. The level of its trace is switched through the control port
between windows, in alternation, so that what else the machine does strikes all levels alike. Only
ratios mean anything; CPU time per transaction is the steadier one of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from benchmarks import build
from benchmarks.generator import Generator
from txnsim.cli import main as cli

BROKERS: Final = 3
LEVELS: Final = ("off", "brief", "full")
LOST_MAX: Final = 0.25
"""Target: how much of the throughput brief may take."""
EVENTS_MAX: Final = 30
BYTES_MAX: Final = 4_096
_START_LIMIT_S: Final = 60
_STOP_LIMIT_S: Final = 20


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One measured window at one level."""

    per_second: float
    p99_ms: float
    cpu_ms: float
    """Of the server, per transaction."""
    events: float
    """Per transaction, those of the warm-up and their transactions left out."""
    written: float
    """Bytes per transaction."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    rounds: int
    seconds: float
    producers: int
    flow: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 also where a target is missed, which is a result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--producers", type=int, default=32)
    parser.add_argument("--flow", choices=("old", "v2"), default="v2")
    options = msgspec.convert(vars(parser.parse_args(arguments)), Options)
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    load = build.go_program("load")
    with _server() as server:
        found = measure(server, load, options)
    print(f"{options.producers} producers, flow {options.flow}, {BROKERS} brokers, medians")
    for line in table(found):
        print(line)
    return 0


def measure(server: Server, load: Path, options: Options) -> dict[str, list[Window]]:
    """The windows of each level, taken in alternation."""
    generator = Generator(binary=load, bootstrap=server.bootstrap, server_pid=server.pid)

    def run(level: str, seconds: float) -> Window:
        server.record(level)
        # The first transactions of a run are not counted, but their events are.
        generator.transactions(
            flow=options.flow, producers=options.producers, warm_up_s=0.3, measured_s=1.0
        )
        before = server.record(level)
        done = generator.transactions(
            flow=options.flow, producers=options.producers, warm_up_s=0.0, measured_s=seconds
        )
        after = server.record(level)
        return Window(
            per_second=done.per_second,
            p99_ms=done.p99_ms,
            cpu_ms=done.server_cpu_seconds / done.transactions * 1_000,
            events=(after["next"] - before["next"]) / done.transactions,
            written=(after["written"] - before["written"]) / done.transactions,
        )

    run("off", 2.0)  # everything is met for the first time
    found: dict[str, list[Window]] = {level: [] for level in LEVELS}
    for number in range(options.rounds):
        for level in LEVELS if number % 2 else reversed(LEVELS):
            found[level].append(run(level, options.seconds))
    return found


def table(found: dict[str, list[Window]]) -> Iterator[str]:
    """A line per level, ratios to ``off`` first."""
    columns = ("tps", "ratio", "CPU ms", "ratio", "p99 ms", "events", "bytes")
    yield f"{'level':6}" + "".join(f"{column:>8}" for column in columns)
    medians = {
        level: {
            name: median(getattr(window, name) for window in windows)
            for name in Window.__struct_fields__
        }
        for level, windows in found.items()
    }
    off = medians["off"]
    for level, one in medians.items():
        yield (
            f"{level:6}{one['per_second']:8,.0f}{one['per_second'] / off['per_second']:8.2f}"
            f"{one['cpu_ms']:8.3f}{off['cpu_ms'] / one['cpu_ms']:8.2f}{one['p99_ms']:8.1f}"
            f"{one['events']:8.1f}{one['written']:8,.0f}"
        )
    brief = medians["brief"]
    lost = 1 - brief["per_second"] / off["per_second"]
    yield f"throughput lost at brief: {lost:.0%} (target: at most {LOST_MAX:.0%})"
    yield (
        f"events {brief['events']:.1f} (at most {EVENTS_MAX}), "
        f"bytes {brief['written']:,.0f} (at most {BYTES_MAX:,})"
    )


class Server:
    """A server that runs, and its control port."""

    def __init__(self, *, pid: int, bootstrap: str, http: str) -> None:
        self.pid = pid
        self.bootstrap = bootstrap
        self._http = http

    def record(self, level: str) -> dict[str, Any]:
        """Record so much from now on; answers with the state of the trace."""
        request = urllib.request.Request(
            f"{self._http}/api/v1/trace", data=json.dumps({"level": level}).encode()
        )
        with urllib.request.urlopen(request) as answer:
            state: dict[str, Any] = json.load(answer)
            return state


@contextmanager
def _server() -> Iterator[Server]:
    """Start this tree's server, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="txnsim-bench-trace-") as home:
        ready = Path(home) / "ready.json"
        command = (
            *(sys.executable, "-m", cli.__name__, "serve", "--port", "0", "--http", "0"),
            *("--brokers", str(BROKERS), "--ready-file", str(ready), "--log-level", "error"),
        )
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            started = json.loads(_read(ready, process))
            yield Server(pid=process.pid, bootstrap=started["bootstrap"], http=started["http"])
        finally:
            process.terminate()
            process.wait(_STOP_LIMIT_S)


def _read(ready: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _START_LIMIT_S
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: exit status {process.returncode}")
        time.sleep(0.05)
    return ready.read_text()


if __name__ == "__main__":
    sys.exit(main())
