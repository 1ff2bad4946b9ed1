"""``python -m benchmarks.trace``: what recording costs a running server.

One server with three brokers, one load. The level of its trace is switched through the control port
between short windows, in alternation; ``stream`` is brief with a listener of the event stream. The
speed of a machine changes by a third from one minute to the next. So each round compares its own
windows with each other. What is printed is the median of these ratios, with the lower and the upper
quartile. The ratio of CPU time per transaction varies less than the one of throughput.

At the end the events of the server fill a ring of default size in this process, and each step of
GET /trace is timed: it holds up the loop for so long.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import msgspec

from benchmarks import build
from benchmarks.generator import Generator
from txnsim.cli import main as cli
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.settings import DEFAULTS
from txnsim.trace.trace_file import Recording

BROKERS: Final = 3
LEVELS: Final = ("off", "brief", "stream", "full")
STEP_MS_MAX: Final = 5.0
"""Target: how long GET /trace may hold up the loop."""
LOST_MAX: Final = 0.25
"""Target: how much of the throughput brief may take."""
EVENTS_MAX: Final = 30
BYTES_MAX: Final = 4_096
_START_LIMIT_S: Final = 60
_STOP_LIMIT_S: Final = 20


class MeasuredWindow(msgspec.Struct, frozen=True, kw_only=True):
    """One measured window at one level."""

    per_second: float
    p99_ms: float
    cpu_ms: float
    """Of the server, per transaction."""
    events_per_transaction: float
    """Per transaction, those of the warm-up and their transactions left out."""
    bytes_per_transaction: float
    """Bytes of their lines per transaction."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    rounds: int
    seconds: float
    producers: int
    protocol: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 also where a target is missed, which is a result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace", description=__doc__)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--producers", type=int, default=32)
    parser.add_argument("--flow", dest="protocol", choices=("old", "v2"), default="v2")
    options = msgspec.convert(vars(parser.parse_args(arguments)), Options)
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    load = build.go_program("load")
    with serve() as server:
        windows_by_level = measure(server, load, options)
        server.record("brief")
        trace_lines = server.trace()
    print(f"{options.producers} producers, flow {options.protocol}, {BROKERS} brokers, medians")
    for line in table(windows_by_level):
        print(line)
    print(time_steps(trace_lines))
    return 0


def measure(
    server: RecordingServer, load: Path, options: Options
) -> dict[str, list[MeasuredWindow]]:
    """The windows of each level, taken in alternation."""
    generator = Generator(binary=load, bootstrap=server.bootstrap, server_pid=server.pid)

    def run(level: str, seconds: float) -> MeasuredWindow:
        with server.listener() if level == "stream" else nullcontext():
            return measure_window("brief" if level == "stream" else level, seconds)

    def measure_window(level: str, seconds: float) -> MeasuredWindow:
        server.record(level)
        # The first transactions of a run are not counted, but their events are.
        generator.transactions(
            protocol=options.protocol,
            producer_count=options.producers,
            warm_up_s=0.3,
            measured_s=0.3,
        )
        state_before = server.record(level)
        load_figures = generator.transactions(
            protocol=options.protocol,
            producer_count=options.producers,
            warm_up_s=0.0,
            measured_s=seconds,
        )
        state_after = server.record(level)
        events_per_transaction = (
            state_after["next"] - state_before["next"]
        ) / load_figures.transactions
        return MeasuredWindow(
            per_second=load_figures.per_second,
            p99_ms=load_figures.p99_ms,
            cpu_ms=load_figures.server_cpu_seconds / load_figures.transactions * 1_000,
            events_per_transaction=events_per_transaction,
            bytes_per_transaction=events_per_transaction * mean_line_bytes(server.trace())
            if events_per_transaction
            else 0.0,
        )

    run("off", 2.0)  # everything is met for the first time
    windows_by_level: dict[str, list[MeasuredWindow]] = {level: [] for level in LEVELS}
    for round_number in range(options.rounds):
        for level in LEVELS if round_number % 2 else reversed(LEVELS):
            windows_by_level[level].append(run(level, options.seconds))
    return windows_by_level


def table(windows_by_level: dict[str, list[MeasuredWindow]]) -> Iterator[str]:
    """A line per level: medians, and the medians of each round's ratio to its own ``off``."""
    columns = ("tps", "ratio", "CPU ms", "ratio", "p99 ms", "events", "bytes")
    yield f"{'level':6}" + "".join(f"{column:>8}" for column in columns)
    for level, windows in windows_by_level.items():
        medians = {
            name: median(getattr(window, name) for window in windows)
            for name in MeasuredWindow.__struct_fields__
        }
        speed_ratio = median(speed_ratios(windows_by_level, level))
        cost_ratio = median(cost_ratios(windows_by_level, level))
        yield (
            f"{level:6}{medians['per_second']:8,.0f}{speed_ratio:8.2f}"
            f"{medians['cpu_ms']:8.3f}{cost_ratio:8.2f}{medians['p99_ms']:8.1f}"
            f"{medians['events_per_transaction']:8.1f}{medians['bytes_per_transaction']:8,.0f}"
        )
    lost_share = quartiles([1 - ratio for ratio in speed_ratios(windows_by_level, "brief")])
    more_cpu_share = quartiles([1 - ratio for ratio in cost_ratios(windows_by_level, "brief")])
    yield (
        f"throughput lost at brief: {lost_share} (target: at most {LOST_MAX:.0%}); "
        f"by CPU: {more_cpu_share}"
    )
    events_per_transaction = median(
        window.events_per_transaction for window in windows_by_level["brief"]
    )
    bytes_per_transaction = median(
        window.bytes_per_transaction for window in windows_by_level["brief"]
    )
    yield (
        f"events {events_per_transaction:.1f} (at most {EVENTS_MAX}), "
        f"bytes {bytes_per_transaction:,.0f} (at most {BYTES_MAX:,})"
    )


def speed_ratios(windows_by_level: dict[str, list[MeasuredWindow]], level: str) -> list[float]:
    """Throughput of each window as a share of that without a trace in its round."""
    rounds = zip(windows_by_level[level], windows_by_level["off"], strict=True)
    return [window.per_second / baseline.per_second for window, baseline in rounds]


def cost_ratios(windows_by_level: dict[str, list[MeasuredWindow]], level: str) -> list[float]:
    """The same share by CPU time, as if the server had nothing else to wait for."""
    return [
        baseline.cpu_ms / window.cpu_ms
        for window, baseline in zip(windows_by_level[level], windows_by_level["off"], strict=True)
    ]


def quartiles(values: list[float]) -> str:
    """The median, and the quarters below and above."""
    low, middle, high = quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{middle:.0%} ({low:.0%} to {high:.0%})"


def mean_line_bytes(lines: list[bytes]) -> float:
    """Bytes of an event's line on average, with its line end."""
    _, *line_lengths, _ = map(len, lines)
    return sum(line_lengths) / len(line_lengths)


def time_steps(lines: list[bytes]) -> str:
    """How long the steps of GET /trace take, where a ring is full of such events."""
    events = Recording.from_lines("the server's trace", lines).events
    tracer = Tracer(time.monotonic_ns, level=TraceLevel.FULL, ring_bytes=DEFAULTS.trace_ring_bytes)
    while not tracer.first_index:
        for event in events:
            data = event.d if isinstance(event.d, dict) else None
            tracer.emit(event.k, str(event.n), parents=(len(tracer) - 1,), tx=event.tx, data=data)
    del events  # a server has none: the collector would go through them while a step is timed
    gc.collect()
    step_times_ms = []
    began_cpu_s = time.thread_time()
    trace_pieces = tracer.pieces()
    while next(trace_pieces, None) is not None:
        step_times_ms.append((time.thread_time() - began_cpu_s) * 1_000)
        began_cpu_s = time.thread_time()
    step_times_ms.sort()
    return (
        f"GET /trace of {len(tracer) - tracer.first_index:,} events, "
        f"{tracer.size:,} bytes of memory: "
        f"{len(step_times_ms)} steps, CPU ms: median {median(step_times_ms):.2f}, "
        f"p99 {step_times_ms[len(step_times_ms) * 99 // 100]:.2f}, longest {step_times_ms[-1]:.2f} "
        f"(target: at most {STEP_MS_MAX:.0f})"
    )


class RecordingServer:
    """A server that runs, and its control port."""

    def __init__(self, *, pid: int, bootstrap: str, http: str) -> None:
        self.pid = pid
        self.bootstrap = bootstrap
        self.http = http

    def record(self, level: str) -> dict[str, Any]:
        """Record so much from now on; answers with the state of the trace."""
        request = urllib.request.Request(
            f"{self.http}/api/v1/trace", data=json.dumps({"level": level}).encode()
        )
        with urllib.request.urlopen(request) as answer:
            state: dict[str, Any] = json.load(answer)
            return state

    def trace(self) -> list[bytes]:
        """The lines of the trace that the server keeps."""
        with urllib.request.urlopen(f"{self.http}/api/v1/trace") as answer:
            return list(answer)

    @contextmanager
    def listener(self) -> Iterator[None]:
        """Let a process read the event stream while the block runs."""
        self.record("brief")
        curl = ("curl", "-sN", f"{self.http}/api/v1/events")
        process = subprocess.Popen(curl, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait(_STOP_LIMIT_S)


@contextmanager
def serve() -> Iterator[RecordingServer]:
    """Start this tree's server, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="txnsim-bench-trace-") as home:
        ready_file = Path(home) / "ready.json"
        command = (
            *(sys.executable, "-m", cli.__name__, "serve", "--port", "0", "--http", "0"),
            *("--brokers", str(BROKERS), "--ready-file", str(ready_file), "--log-level", "error"),
        )
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            addresses = json.loads(_read(ready_file, process))
            yield RecordingServer(
                pid=process.pid, bootstrap=addresses["bootstrap"], http=addresses["http"]
            )
        finally:
            process.terminate()
            process.wait(_STOP_LIMIT_S)


def _read(ready_file: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _START_LIMIT_S
    while not ready_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: exit status {process.returncode}")
        time.sleep(0.05)
    return ready_file.read_text()


if __name__ == "__main__":
    sys.exit(main())
