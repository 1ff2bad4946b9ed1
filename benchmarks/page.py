"""The page in a real browser: how soon it is there, and how it bears a million events.

``python -m benchmarks.page`` needs Debian's chromium and the dependency group ``browser``. It
prints what was measured, the median of each and its range, as lines or with ``--json``.
``--only live`` looks at the page under load (Go, for the clients). ``--only streams`` measures what
ten pages that listen cost the brokers (Go), and ``--only size`` what the page adds to the wheel.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.page_flood import FLOOD
from tests.support.txnsim_server import TxnsimServer
from txnsim_lab.http.page._files import MEDIA_TYPES, served_files

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from benchmarks.trace import RecordingServer

TRACE_EVENTS: Final = 1_000_000
TRACE_FILE_NAME: Final = "million.jsonl"
LONG_ROUNDS: Final = 3
LISTENING_PAGES: Final = 10
TRACE_CATEGORIES: Final = ["disabled-by-default-devtools.timeline", "__metadata"]
"""What Chromium traces: the tasks of its threads, with their CPU time."""
TARGETS: Final = {
    "page ready, ms": 300,
    "lesson L1, first picture, ms": 500,
    "lesson L1, first picture of a new server, ms": 500,
    "open a trace of 1,000,000 events, ms": 3_000,
    "longest task while scrubbing it, ms": 100,
    "the same, CPU ms": 100,
    "step back in it, ms": 16,
    "longest task under load, ms": 100,
    "longest task under load, CPU ms": 100,
    "page in the wheel, bytes": 200_000,
    "10 pages, % more CPU": 5,
}
LISTENERS_CPU_FIGURE: Final = "10 pages, % more CPU"
LISTEN_S: Final = 4.0
FLOOD_MS: Final = 4_000
LIVE_VIEWS: Final = ("stage", "lanes", "events")
CLIENTS_PER_SECOND: Final = 500
EVENT_RATE_SCRIPT: Final = "() => __page['store.js'].eventRate.value"
LOST_EVENTS_SCRIPT: Final = "() => __page['store.js'].lostEventCount.value"
WATCH_TASKS_SCRIPT: Final = """() => {
  globalThis.__tasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) __tasks.push(entry.duration);
  }).observe({ entryTypes: ["longtask"] });
}"""
OPEN_TRACE_SCRIPT: Final = """async (address) => {
  const began = performance.now();
  const { loadTrace } = __page["api.js"];
  const answer = await fetch(address);
  const origin = { kind: "run", id: "0", name: "made", run: "up", take: "armed", seed: 1 };
  await loadTrace(answer, origin);
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  return performance.now() - began;
}"""
SCRUB_SCRIPT: Final = """async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  __tasks.length = 0;
  const { chooseView } = __page["store.js"];
  const last = __sim.events.length - 1;
  for (const view of ["stage", "coordinator", "producers", "lanes", "events"]) {
    chooseView(view);
    for (let n = 0; n < 20; n += 1) {
      __sim.go(Math.round(last * ((n * 7919) % 1000) / 1000));
      await frame();
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  return Math.max(0, ...__tasks);
}"""
STEP_BACK_SCRIPT: Final = """() => {
  const times = [];
  for (let n = 0; n < 30; n += 1) {
    const index = 999_000 - n * 17;
    const began = performance.now();
    __sim.stateAt(index);
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b)[15];
}"""


class TraceEventLines:
    """Numbers the events of a made trace, and writes each as a line."""

    def __init__(self) -> None:
        self.event_count = 0

    def write_event(
        self,
        node_index: int,
        event_kind: str,
        transaction_name: str,
        event_data: dict[str, Any],
        *,
        parent_distance: int | None = None,
    ) -> str:
        """Write the next event; its cause, if it has one, is ``parent_distance`` events before."""
        event_index = self.event_count
        self.event_count += 1
        event_fields = {
            "i": event_index,
            "t": self.event_count * 10,
            "n": node_index,
            "l": self.event_count,
            "p": [] if parent_distance is None else [event_index - parent_distance],
            "k": event_kind,
            "tx": transaction_name,
            "d": event_data,
        }
        return json.dumps(event_fields, separators=(",", ":"))


def make_trace_lines() -> Iterator[str]:
    """Write a million events: transactions of 50 producers on 12 partitions, one after another."""
    node_names = [f"broker/{1 + n % 3}/log/t-{n}" for n in range(12)] + [
        "broker/1/txn/7",
        "cluster",
    ]
    header_fields = {"k": "run", "schema": 2, "level": "brief", "scenario": "made", "seed": 1}
    yield json.dumps(header_fields | {"nodes": node_names}, separators=(",", ":"))
    event_lines = TraceEventLines()
    for partition in range(12):
        role_data = {
            "role": "leader",
            "leader": 1 + partition % 3,
            "epoch": 0,
            "tp": f"t-{partition}",
        }
        yield event_lines.write_event(partition, "node.role", "", role_data)
    next_offsets = [0] * 12
    transaction_number = 0
    while event_lines.event_count < TRACE_EVENTS - 7:
        partition, producer_id = transaction_number % 12, transaction_number % 50
        yield from _transaction_lines(
            event_lines, partition, producer_id, base_offset=next_offsets[partition]
        )
        next_offsets[partition] += 2
        transaction_number += 1
    trailer_fields = {"k": "end", "events": event_lines.event_count, "hash": "", "verdict": ""}
    yield json.dumps(trailer_fields, separators=(",", ":"))


def _transaction_lines(
    event_lines: TraceEventLines, partition: int, producer_id: int, *, base_offset: int
) -> Iterator[str]:
    """The events of a transaction of one record, from its beginning to its end."""
    transaction_name, partition_name = f"app-{producer_id}/{producer_id}:0", f"t-{partition}"
    producer_data = {"pid": producer_id, "epoch": 0}
    transaction_data = producer_data | {"partitions": [partition_name], "timeout_ms": 60000}
    begun_data = transaction_data | {"state": "Ongoing", "pending": None}
    yield event_lines.write_event(12, "txn.complete", transaction_name, begun_data)
    opening_data = {"tp": partition_name} | producer_data | {"first": base_offset}
    yield event_lines.write_event(
        partition, "pid.open", transaction_name, opening_data, parent_distance=1
    )
    batch_data = {"tp": partition_name, "base": base_offset, "last": base_offset}
    batch_data |= producer_data | {"seq": 0, "txn": True}
    yield event_lines.write_event(
        partition, "log.append", transaction_name, batch_data, parent_distance=1
    )
    marker_data = {"tp": partition_name, "offset": base_offset + 1} | producer_data
    marker_data |= {"committed": True, "coordinator_epoch": 0}
    yield event_lines.write_event(
        partition, "marker.written", transaction_name, marker_data, parent_distance=1
    )
    stable_data = {"tp": partition_name, "to": base_offset + 2}
    yield event_lines.write_event(partition, "log.lso", "", stable_data, parent_distance=1)
    ended_data = transaction_data | {"state": "CompleteCommit", "pending": None, "partitions": []}
    yield event_lines.write_event(
        12, "txn.complete", transaction_name, ended_data, parent_distance=2
    )


@contextlib.contextmanager
def run_chromium() -> Iterator[Browser]:
    """Start Debian's Chromium, and close it at the end of the block."""
    from playwright.sync_api import sync_playwright

    chromium_path = os.environ.get("TXNSIM_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path, args=["--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def open_page(browser: Browser, url: str) -> tuple[Page, PageCpu]:
    """Open the page at an address; return it once it is ready, with its clock of CPU time."""
    page: Page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page_cpu = PageCpu(page)
    page.goto(url)
    page.wait_for_function("() => globalThis.__ready > 0")
    return page, page_cpu


class PageCpu:
    """CPU time of a page's main thread: how much it has to do."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._cpu_ms_before = 0.0

    def take_used_ms(self) -> float:
        """Return the milliseconds of CPU time since the last call."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        total_ms = (
            next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration") * 1e3
        )
        used_ms, self._cpu_ms_before = total_ms - self._cpu_ms_before, total_ms
        return float(used_ms)


def measure_long_trace(browser: Browser, samples_by_figure: dict[str, list[float]]) -> None:
    """Measure a million events in a page that has nothing else to do."""
    with tempfile.TemporaryDirectory() as scratch_folder:
        trace_file = Path(scratch_folder) / TRACE_FILE_NAME
        with trace_file.open("w") as file:
            file.writelines(f"{line}\n" for line in make_trace_lines())
        with serve_files(trace_file) as page_url:
            for _ in range(LONG_ROUNDS):
                page, page_cpu = open_page(browser, page_url)
                page.evaluate(WATCH_TASKS_SCRIPT)
                page_cpu.take_used_ms()
                open_ms = page.evaluate(OPEN_TRACE_SCRIPT, f"{page_url}{TRACE_FILE_NAME}")
                samples_by_figure["open a trace of 1,000,000 events, ms"].append(open_ms)
                samples_by_figure["open it, CPU ms"].append(page_cpu.take_used_ms())
                browser.start_tracing(page=page, categories=TRACE_CATEGORIES)
                samples_by_figure["longest task while scrubbing it, ms"].append(
                    page.evaluate(SCRUB_SCRIPT)
                )
                samples_by_figure["the same, CPU ms"].append(
                    longest_task_ms(browser.stop_tracing())
                )
                samples_by_figure["100 moves while scrubbing, CPU ms"].append(
                    page_cpu.take_used_ms()
                )
                samples_by_figure["step back in it, ms"].append(page.evaluate(STEP_BACK_SCRIPT))
                page.context.close()


def measure_live(browser: Browser, samples_by_figure: dict[str, list[float]]) -> None:
    """Measure a live cluster with much to tell: what 1,000 transactions per second leave at brief,
    made in the page, and what clients leave that commit 500.
    """
    with TxnsimServer(arguments=("--ui", "--http", "0")) as server:
        page, page_cpu = open_page(browser, str(server.http))
        page.wait_for_selector(".link-state.live")
        page.evaluate(WATCH_TASKS_SCRIPT)
        for view_name in LIVE_VIEWS:
            page.evaluate(FLOOD)
            measure_view(
                browser, page, page_cpu, view_name, samples_by_figure, load_source="events made"
            )
            page.evaluate("clearInterval(__flood)")
        page.context.close()
    server_arguments = ("--ui", "--http", "0", "--topic", "orders:16")
    with TxnsimServer(arguments=server_arguments) as server, run_clients(server.bootstrap):
        page, page_cpu = open_page(browser, str(server.http))
        page.wait_for_selector(".link-state.live")
        page.evaluate(WATCH_TASKS_SCRIPT)
        for view_name in LIVE_VIEWS:
            measure_view(
                browser, page, page_cpu, view_name, samples_by_figure, load_source="clients"
            )
            samples_by_figure["events per second of clients"].append(
                page.evaluate(EVENT_RATE_SCRIPT)
            )
        samples_by_figure["events that the page missed"].append(page.evaluate(LOST_EVENTS_SCRIPT))
        page.context.close()


def measure_view(
    browser: Browser,
    page: Page,
    page_cpu: PageCpu,
    view_name: str,
    samples_by_figure: dict[str, list[float]],
    *,
    load_source: str,
) -> None:
    """Measure one view under load: let it grow, then read the times of its tasks."""
    page.evaluate("(view) => __page['store.js'].chooseView(view)", view_name)
    page.wait_for_timeout(FLOOD_MS)
    browser.start_tracing(page=page, categories=TRACE_CATEGORIES)
    page_cpu.take_used_ms()
    page.evaluate("__tasks.length = 0")
    page.wait_for_timeout(FLOOD_MS)
    samples_by_figure[f"{view_name}, {load_source}, CPU ms per s"].append(
        page_cpu.take_used_ms() / FLOOD_MS * 1e3
    )
    samples_by_figure["longest task under load, ms"].append(
        page.evaluate("Math.max(0, ...__tasks)")
    )
    samples_by_figure["longest task under load, CPU ms"].append(
        longest_task_ms(browser.stop_tracing())
    )


@contextlib.contextmanager
def run_clients(bootstrap: str) -> Iterator[None]:
    """Run programs that commit transactions until the block ends."""
    from benchmarks import build

    command = [
        str(build.build_go_program("load")),
        "soak",
        "--bootstrap",
        bootstrap,
        "--topic",
        "orders",
    ]
    options = ["--producers", "50", "--rate", str(CLIENTS_PER_SECOND)]
    process = subprocess.Popen(command + options, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "the clients have ended"
    finally:
        process.communicate()  # the end of its input ends it


def longest_task_ms(chromium_trace: bytes) -> float:
    """Return the CPU milliseconds of the main thread's longest task, from what Chromium traced."""
    trace_events = json.loads(chromium_trace)["traceEvents"]
    main_thread_ids = {
        (trace_event["pid"], trace_event["tid"])
        for trace_event in trace_events
        if trace_event["name"] == "thread_name" and trace_event["args"]["name"] == "CrRendererMain"
    }
    task_times_us = [
        trace_event["tdur"]
        for trace_event in trace_events
        if trace_event["name"] == "RunTask"
        and trace_event["ph"] == "X"
        and (trace_event["pid"], trace_event["tid"]) in main_thread_ids
    ]
    return float(max(task_times_us)) / 1e3


class _PageFileHandler(http.server.BaseHTTPRequestHandler):
    """The page's files beside one long trace, at one origin, as the policy of the page wants."""

    protocol_version = "HTTP/1.1"
    trace_file: Path

    def do_GET(self) -> None:  # the name that http.server wants
        """Serve a file of the page, or the trace."""
        file_path = self.path.partition("?")[0].removeprefix("/ui/").lstrip("/") or "index.html"
        file_content = served_files().get(file_path)
        if self.path == f"/{TRACE_FILE_NAME}":
            file_content = self.trace_file.read_bytes()
        media_type = MEDIA_TYPES.get(file_path.rpartition(".")[2], "application/x-ndjson")
        self.send_response(404 if file_content is None else 200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(file_content or b"")))
        self.end_headers()
        self.wfile.write(file_content or b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve_files(trace_file: Path) -> Iterator[str]:
    """Serve the page's files and a trace; the server's URL."""
    handler_class = type("_Files", (_PageFileHandler,), {"trace_file": trace_file})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_class)
    server_thread = threading.Thread(target=server.serve_forever, daemon=True)
    server_thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    server_thread.join()


def measure_wheel_bytes() -> int:
    """Count the bytes that the page adds to a wheel: its files, packed as a wheel packs them."""
    wheel_buffer = io.BytesIO()
    page_files = resources.files("txnsim_lab.http.page")
    with (
        resources.as_file(page_files) as page_folder,
        zipfile.ZipFile(wheel_buffer, "w", 8) as wheel,
    ):
        for file_path in sorted(page_folder.rglob("*")):
            if file_path.is_file() and "__pycache__" not in file_path.parts:
                wheel.write(file_path, file_path.relative_to(page_folder))
    return len(wheel_buffer.getvalue())


LISTENER_PROGRAM: Final = """
import selectors, socket, sys
from urllib.parse import urlsplit
address = urlsplit(sys.argv[1])
selector = selectors.DefaultSelector()
for _ in range(int(sys.argv[2])):
    connection = socket.create_connection((address.hostname, address.port))
    connection.sendall(b"GET /api/v1/events/packed HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    selector.register(connection, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if not key.fileobj.recv(1 << 20):
            sys.exit(1)
"""


def measure_streams(round_count: int) -> dict[str, list[float]]:
    """Measure the CPU time of the server per event under clients at a fixed rate, with none and
    with ten listeners, in alternation; and how much more it is with ten.
    """
    from benchmarks.trace import serve_with_recording

    samples_by_figure: dict[str, list[float]] = defaultdict(list)
    with serve_with_recording() as server:
        topic_request = urllib.request.Request(
            f"{server.http_url}/api/v1/topics", data=b'{"name": "orders", "partitions": 16}'
        )
        urllib.request.urlopen(topic_request).close()
        server.set_level("brief")
        with run_clients(server.bootstrap):
            for round_number in range(round_count + 1):  # the first warms up
                cpu_us_by_page_count = {}
                for page_count in (
                    (0, LISTENING_PAGES) if round_number % 2 else (LISTENING_PAGES, 0)
                ):
                    cpu_us_by_page_count[page_count] = measure_cpu_us_with_listeners(
                        server, page_count
                    )
                    if round_number:
                        samples_by_figure[f"{page_count} pages, CPU us per event"].append(
                            cpu_us_by_page_count[page_count]
                        )
                if round_number:
                    samples_by_figure[LISTENERS_CPU_FIGURE].append(
                        (cpu_us_by_page_count[LISTENING_PAGES] / cpu_us_by_page_count[0] - 1) * 100
                    )
    return samples_by_figure


def measure_cpu_us_with_listeners(server: RecordingServer, page_count: int) -> float:
    """Measure the server's CPU microseconds per sent event, with a listener for each page."""
    command = [sys.executable, "-c", LISTENER_PROGRAM, server.http_url, str(page_count)]
    listener_process = subprocess.Popen(command) if page_count else None
    try:
        time.sleep(LISTEN_S / 4)  # they are there
        first_event_index = server.set_level("brief")["next"]
        cpu_s_before = read_cpu_s(server.pid)
        time.sleep(LISTEN_S)
        used_cpu_s = read_cpu_s(server.pid) - cpu_s_before
        event_count = server.set_level("brief")["next"] - first_event_index
        assert listener_process is None or listener_process.poll() is None, (
            "the listeners have ended"
        )
    finally:
        if listener_process is not None:
            listener_process.kill()
            listener_process.wait()
    return float(used_cpu_s / event_count * 1e6)


def read_cpu_s(pid: int) -> float:
    """Read the CPU seconds that all threads of a running process have used so far."""
    thread_folders = Path(f"/proc/{pid}/task").iterdir()
    return (
        sum(
            int(Path(thread_folder, "schedstat").read_text().split()[0])
            for thread_folder in thread_folders
        )
        / 1e9
    )


def measure_cold_start(browser: Browser, samples_by_figure: dict[str, list[float]]) -> None:
    """Measure the first lesson of a server that has just started. The click comes as soon as there
    is a button, so it waits for what is not ready yet.
    """
    with TxnsimServer(arguments=("--ui", "--http", "0")) as server:
        page, _ = open_page(browser, str(server.http))
        samples_by_figure["lesson L1, first picture of a new server, ms"].append(
            measure_first_picture_ms(page)
        )
        page.context.close()


def measure_first_picture_ms(page: Page) -> float:
    """Measure the milliseconds from a click on lesson L1 to its first text."""
    page.wait_for_selector("#lesson-L1")
    began_s = time.perf_counter()
    page.click("#lesson-L1")
    page.wait_for_selector("#lesson p", timeout=120_000)
    return (time.perf_counter() - began_s) * 1e3


def measure_in_browser(round_count: int) -> dict[str, list[float]]:
    """Measure every figure once in each round; return the samples by figure."""
    samples_by_figure: dict[str, list[float]] = defaultdict(list)
    with run_chromium() as browser, TxnsimServer(arguments=("--ui", "--http", "0")) as server:
        for _ in range(round_count):
            measure_cold_start(browser, samples_by_figure)
        page_url = str(server.http)
        for round_number in range(round_count + 1):  # the first warms up
            page, page_cpu = open_page(browser, page_url)
            ready_ms, cpu_until_ready_ms = page.evaluate("__ready"), page_cpu.take_used_ms()
            page.wait_for_selector("#lesson-L1")
            page_cpu.take_used_ms()
            lesson_ms = measure_first_picture_ms(page)
            cpu_lesson_ms = page_cpu.take_used_ms()
            page.context.close()
            if round_number:
                samples_by_figure["page ready, CPU ms"].append(cpu_until_ready_ms)
                samples_by_figure["lesson L1, CPU ms of the page"].append(cpu_lesson_ms)
                samples_by_figure["page ready, ms"].append(ready_ms)
                samples_by_figure["lesson L1, first picture, ms"].append(lesson_ms)
        measure_long_trace(browser, samples_by_figure)
        measure_live(browser, samples_by_figure)
    return samples_by_figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("browser", "live", "streams", "size"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    samples_by_figure: dict[str, list[float]] = {}
    if args.only in (None, "size"):
        samples_by_figure["page in the wheel, bytes"] = [float(measure_wheel_bytes())]
    if args.only in (None, "browser"):
        samples_by_figure |= measure_in_browser(args.rounds)
    if args.only == "live":
        live_samples_by_figure: dict[str, list[float]] = defaultdict(list)
        with run_chromium() as browser:
            measure_live(browser, live_samples_by_figure)
        samples_by_figure |= live_samples_by_figure
    if args.only in (None, "streams"):
        samples_by_figure |= measure_streams(args.rounds)
    if args.json:
        print(json.dumps(samples_by_figure))
        return
    for figure_name, samples in samples_by_figure.items():
        median_value = statistics.median(samples)
        range_text = f"{min(samples):.1f} to {max(samples):.1f}"
        target_text = f"; target {TARGETS[figure_name]:,}" if figure_name in TARGETS else ""
        print(f"{figure_name:<40} {median_value:>10,.2f}  ({range_text}{target_text})")


if __name__ == "__main__":
    main()
