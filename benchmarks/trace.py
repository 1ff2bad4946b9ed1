"""``python -m benchmarks.read_trace_lines``: what recording costs a running server.

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


class TraceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    rounds: int
    seconds: float
    producers: int
    txn_flow: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 also where a target is missed, which is a result."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.read_trace_lines", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--producers", type=int, default=32)
    parser.add_argument("--flow", dest="txn_flow", choices=("old", "v2"), default="v2")
    options = msgspec.convert(vars(parser.parse_args(arguments)), TraceOptions)
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    load_program = build.build_go_program("load")
    with serve_with_recording() as server:
        windows_by_level = measure_levels(server, load_program, options)
        server.set_level("brief")
        recorded_lines = server.read_trace_lines()
    print(f"{options.producers} producers, flow {options.txn_flow}, {BROKERS} brokers, medians")
    for table_line in table_lines(windows_by_level):
        print(table_line)
    print(time_steps(recorded_lines))
    return 0


def measure_levels(
    server: RecordingServer, load_program: Path, options: TraceOptions
) -> dict[str, list[MeasuredWindow]]:
    """Measure windows of each level, in alternation."""
    generator = Generator(
        load_program=load_program, bootstrap=server.bootstrap, server_pid=server.pid
    )

    def measure_at_level(level_name: str, measured_s: float) -> MeasuredWindow:
        with server.listen_to_events() if level_name == "stream" else nullcontext():
            return measure_window("brief" if level_name == "stream" else level_name, measured_s)

    def measure_window(level_name: str, measured_s: float) -> MeasuredWindow:
        server.set_level(level_name)
        # The first transactions of a run are not counted, but their events are.
        generator.run_transactions(
            txn_flow=options.txn_flow,
            producer_count=options.producers,
            warm_up_s=0.3,
            measured_s=0.3,
        )
        trace_state_before = server.set_level(level_name)
        transaction_figures = generator.run_transactions(
            txn_flow=options.txn_flow,
            producer_count=options.producers,
            warm_up_s=0.0,
            measured_s=measured_s,
        )
        trace_state_after = server.set_level(level_name)
        events_per_transaction = (
            trace_state_after["next"] - trace_state_before["next"]
        ) / transaction_figures.transactions
        return MeasuredWindow(
            per_second=transaction_figures.per_second,
            p99_ms=transaction_figures.p99_ms,
            cpu_ms=transaction_figures.server_cpu_seconds
            / transaction_figures.transactions
            * 1_000,
            events_per_transaction=events_per_transaction,
            bytes_per_transaction=events_per_transaction
            * mean_line_bytes(server.read_trace_lines())
            if events_per_transaction
            else 0.0,
        )

    measure_at_level("off", 2.0)  # everything is met for the first time
    windows_by_level: dict[str, list[MeasuredWindow]] = {level_name: [] for level_name in LEVELS}
    for round_number in range(options.rounds):
        for level_name in LEVELS if round_number % 2 else reversed(LEVELS):
            windows_by_level[level_name].append(measure_at_level(level_name, options.seconds))
    return windows_by_level


def table_lines(windows_by_level: dict[str, list[MeasuredWindow]]) -> Iterator[str]:
    """Write a line per level: medians, and those of each round's ratio to its own ``off``."""
    column_titles = ("tps", "ratio", "CPU ms", "ratio", "p99 ms", "events", "bytes")
    yield f"{'level':6}" + "".join(f"{column_title:>8}" for column_title in column_titles)
    for level_name, windows in windows_by_level.items():
        median_by_name = {
            field_name: median(getattr(window, field_name) for window in windows)
            for field_name in MeasuredWindow.__struct_fields__
        }
        speed_ratio = median(speed_ratios(windows_by_level, level_name))
        cost_ratio = median(cost_ratios(windows_by_level, level_name))
        yield (
            f"{level_name:6}{median_by_name['per_second']:8,.0f}{speed_ratio:8.2f}"
            f"{median_by_name['cpu_ms']:8.3f}{cost_ratio:8.2f}{median_by_name['p99_ms']:8.1f}"
            f"{median_by_name['events_per_transaction']:8.1f}{median_by_name['bytes_per_transaction']:8,.0f}"
        )
    lost_share_text = describe_quartiles(
        [1 - round_ratio for round_ratio in speed_ratios(windows_by_level, "brief")]
    )
    more_cpu_text = describe_quartiles(
        [1 - round_ratio for round_ratio in cost_ratios(windows_by_level, "brief")]
    )
    yield (
        f"throughput lost at brief: {lost_share_text} (target: at most {LOST_MAX:.0%}); "
        f"by CPU: {more_cpu_text}"
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


def speed_ratios(windows_by_level: dict[str, list[MeasuredWindow]], level_name: str) -> list[float]:
    """Compute the throughput of each window as a share of that without a trace in its round."""
    window_pairs = zip(windows_by_level[level_name], windows_by_level["off"], strict=True)
    return [
        window.per_second / window_without_trace.per_second
        for window, window_without_trace in window_pairs
    ]


def cost_ratios(windows_by_level: dict[str, list[MeasuredWindow]], level_name: str) -> list[float]:
    """Compute the same share by CPU time, as if the server had nothing else to wait for."""
    return [
        window_without_trace.cpu_ms / window.cpu_ms
        for window, window_without_trace in zip(
            windows_by_level[level_name], windows_by_level["off"], strict=True
        )
    ]


def describe_quartiles(ratios: list[float]) -> str:
    """Write the median with the lower and the upper quartile."""
    lower_quartile, median_ratio, upper_quartile = (
        quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    )
    return f"{median_ratio:.0%} ({lower_quartile:.0%} to {upper_quartile:.0%})"


def mean_line_bytes(trace_lines: list[bytes]) -> float:
    """Compute the bytes of an event's line on average, with its line end."""
    _, *line_lengths, _ = map(len, trace_lines)
    return sum(line_lengths) / len(line_lengths)


def time_steps(trace_lines: list[bytes]) -> str:
    """Measure how long the steps of GET /trace take, where a ring is full of such events."""
    events = Recording.from_lines("the server's trace", trace_lines).events
    tracer = Tracer(time.monotonic_ns, level=TraceLevel.FULL, ring_bytes=DEFAULTS.trace_ring_bytes)
    while not tracer.first_index:
        for event in events:
            event_data = event.d if isinstance(event.d, dict) else None
            tracer.emit(
                event.k, str(event.n), parents=(len(tracer) - 1,), tx=event.tx, data=event_data
            )
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

    def __init__(self, *, pid: int, bootstrap: str, http_url: str) -> None:
        self.pid = pid
        self.bootstrap = bootstrap
        self.http_url = http_url

    def set_level(self, level_name: str) -> dict[str, Any]:
        """Set the level of recording; return the state of the trace."""
        request = urllib.request.Request(
            f"{self.http_url}/api/v1/trace", data=json.dumps({"level": level_name}).encode()
        )
        with urllib.request.urlopen(request) as response:
            trace_state: dict[str, Any] = json.load(response)
            return trace_state

    def read_trace_lines(self) -> list[bytes]:
        """Read the lines of the trace that the server keeps."""
        with urllib.request.urlopen(f"{self.http_url}/api/v1/trace") as response:
            return list(response)

    @contextmanager
    def listen_to_events(self) -> Iterator[None]:
        """Let a process read the event stream while the block runs."""
        self.set_level("brief")
        curl_command = ("curl", "-sN", f"{self.http_url}/api/v1/events")
        curl_process = subprocess.Popen(curl_command, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            curl_process.terminate()
            curl_process.wait(_STOP_LIMIT_S)


@contextmanager
def serve_with_recording() -> Iterator[RecordingServer]:
    """Start this tree's server, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="txnsim-bench-trace-") as home_directory:
        ready_file = Path(home_directory) / "ready.json"
        command = (
            *(sys.executable, "-m", cli.__name__, "serve", "--port", "0", "--http", "0"),
            *("--brokers", str(BROKERS), "--ready-file", str(ready_file), "--log-level", "error"),
        )
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            address_by_name = json.loads(_wait_and_read(ready_file, process))
            yield RecordingServer(
                pid=process.pid,
                bootstrap=address_by_name["bootstrap"],
                http_url=address_by_name["http"],
            )
        finally:
            process.terminate()
            process.wait(_STOP_LIMIT_S)


def _wait_and_read(ready_file: Path, process: subprocess.Popen[bytes]) -> str:
    deadline_s = time.monotonic() + _START_LIMIT_S
    while not ready_file.exists():
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"the server did not start: exit status {process.returncode}")
        time.sleep(0.05)
    return ready_file.read_text()


if __name__ == "__main__":
    sys.exit(main())
