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


def trace_lines() -> Iterator[str]:
    """A million events: transactions of 50 producers on 12 partitions, one after another."""
    node_names = [f"broker/{1 + n % 3}/log/t-{n}" for n in range(12)] + [
        "broker/1/txn/7",
        "cluster",
    ]
    header = {"k": "run", "schema": 2, "level": "brief", "scenario": "made", "seed": 1}
    yield json.dumps(header | {"nodes": node_names}, separators=(",", ":"))
    event_count = 0

    def line(
        node: int, kind: str, tx: str, payload: dict[str, Any], parent_positions: list[int]
    ) -> str:
        nonlocal event_count
        event_count += 1
        event = {
            "i": event_count - 1,
            "t": event_count * 10,
            "n": node,
            "l": event_count,
            "p": parent_positions,
            "k": kind,
        }
        return json.dumps(event | {"tx": tx, "d": payload}, separators=(",", ":"))

    for partition in range(12):
        role = {"role": "leader", "leader": 1 + partition % 3, "epoch": 0, "tp": f"t-{partition}"}
        yield line(partition, "node.role", "", role, [])
    next_offsets = [0] * 12
    transaction_number = 0
    while event_count < TRACE_EVENTS - 7:
        partition, pid = transaction_number % 12, transaction_number % 50
        tx, tp, base = f"app-{pid}/{pid}:0", f"t-{partition}", next_offsets[partition]
        entry = {"pid": pid, "epoch": 0, "partitions": [tp], "timeout_ms": 60000}
        yield line(12, "txn.complete", tx, entry | {"state": "Ongoing", "pending": None}, [])
        opening_data = {"tp": tp, "pid": pid, "epoch": 0, "first": base}
        yield line(partition, "pid.open", tx, opening_data, [event_count - 1])
        batch = {"tp": tp, "base": base, "last": base, "pid": pid, "epoch": 0, "seq": 0}
        yield line(partition, "log.append", tx, batch | {"txn": True}, [event_count - 1])
        marker = {"tp": tp, "offset": base + 1, "pid": pid, "epoch": 0, "committed": True}
        yield line(
            partition, "marker.written", tx, marker | {"coordinator_epoch": 0}, [event_count - 1]
        )
        yield line(partition, "log.lso", "", {"tp": tp, "to": base + 2}, [event_count - 1])
        completion: dict[str, Any] = {"state": "CompleteCommit", "pending": None, "partitions": []}
        yield line(12, "txn.complete", tx, entry | completion, [event_count - 2])
        next_offsets[partition] += 2
        transaction_number += 1
    trailer = {"k": "end", "events": event_count, "hash": "", "verdict": ""}
    yield json.dumps(trailer, separators=(",", ":"))


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium, and close it at the end of the block."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("TXNSIM_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def open_page(browser: Browser, url: str) -> tuple[Page, PageCpu]:
    """The page at an address, once it is ready, and its clock of CPU time."""
    page: Page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    cpu = PageCpu(page)
    page.goto(url)
    page.wait_for_function("() => globalThis.__ready > 0")
    return page, cpu


class PageCpu:
    """CPU time of a page's main thread: how much it has to do."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._before = 0.0

    def used_ms(self) -> float:
        """Milliseconds of CPU time since the last call."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        total_ms = (
            next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration") * 1e3
        )
        used_ms, self._before = total_ms - self._before, total_ms
        return float(used_ms)


def measure_long_trace(browser: Browser, figures: dict[str, list[float]]) -> None:
    """A million events in a page that has nothing else to do."""
    with tempfile.TemporaryDirectory() as folder:
        trace_file = Path(folder) / TRACE_FILE_NAME
        with trace_file.open("w") as file:
            file.writelines(f"{line}\n" for line in trace_lines())
        with serve_files(trace_file) as url:
            for _ in range(LONG_ROUNDS):
                page, cpu = open_page(browser, url)
                page.evaluate(WATCH_TASKS_SCRIPT)
                cpu.used_ms()
                open_ms = page.evaluate(OPEN_TRACE_SCRIPT, f"{url}{TRACE_FILE_NAME}")
                figures["open a trace of 1,000,000 events, ms"].append(open_ms)
                figures["open it, CPU ms"].append(cpu.used_ms())
                browser.start_tracing(page=page, categories=TRACE_CATEGORIES)
                figures["longest task while scrubbing it, ms"].append(page.evaluate(SCRUB_SCRIPT))
                figures["the same, CPU ms"].append(longest_task_ms(browser.stop_tracing()))
                figures["100 moves while scrubbing, CPU ms"].append(cpu.used_ms())
                figures["step back in it, ms"].append(page.evaluate(STEP_BACK_SCRIPT))
                page.context.close()


def measure_live(browser: Browser, figures: dict[str, list[float]]) -> None:
    """A live cluster with much to tell: what 1,000 transactions per second leave at brief, made in
    the page, and what clients leave that commit 500.
    """
    with TxnsimServer(arguments=("--ui", "--http", "0")) as server:
        page, cpu = open_page(browser, str(server.http))
        page.wait_for_selector(".link-state.live")
        page.evaluate(WATCH_TASKS_SCRIPT)
        for view in LIVE_VIEWS:
            page.evaluate(FLOOD)
            measure_view(browser, page, cpu, view, figures, load_source="events made")
            page.evaluate("clearInterval(__flood)")
        page.context.close()
    arguments = ("--ui", "--http", "0", "--topic", "orders:16")
    with TxnsimServer(arguments=arguments) as server, run_clients(server.bootstrap):
        page, cpu = open_page(browser, str(server.http))
        page.wait_for_selector(".link-state.live")
        page.evaluate(WATCH_TASKS_SCRIPT)
        for view in LIVE_VIEWS:
            measure_view(browser, page, cpu, view, figures, load_source="clients")
            figures["events per second of clients"].append(page.evaluate(EVENT_RATE_SCRIPT))
        figures["events that the page missed"].append(page.evaluate(LOST_EVENTS_SCRIPT))
        page.context.close()


def measure_view(
    browser: Browser,
    page: Page,
    cpu: PageCpu,
    view: str,
    figures: dict[str, list[float]],
    *,
    load_source: str,
) -> None:
    """Measure one view under load: let it grow, then read the times of its tasks."""
    page.evaluate("(view) => __page['store.js'].chooseView(view)", view)
    page.wait_for_timeout(FLOOD_MS)
    browser.start_tracing(page=page, categories=TRACE_CATEGORIES)
    cpu.used_ms()
    page.evaluate("__tasks.length = 0")
    page.wait_for_timeout(FLOOD_MS)
    figures[f"{view}, {load_source}, CPU ms per s"].append(cpu.used_ms() / FLOOD_MS * 1e3)
    figures["longest task under load, ms"].append(page.evaluate("Math.max(0, ...__tasks)"))
    figures["longest task under load, CPU ms"].append(longest_task_ms(browser.stop_tracing()))


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
    """CPU milliseconds of the longest task of a page's main thread, from what Chromium traced."""
    events = json.loads(chromium_trace)["traceEvents"]
    main_threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    task_us = [
        event["tdur"]
        for event in events
        if event["name"] == "RunTask"
        and event["ph"] == "X"
        and (event["pid"], event["tid"]) in main_threads
    ]
    return float(max(task_us)) / 1e3


class _PageFiles(http.server.BaseHTTPRequestHandler):
    """The page's files beside one long trace, at one origin, as the policy of the page wants."""

    protocol_version = "HTTP/1.1"
    trace_file: Path

    def do_GET(self) -> None:  # the name that http.server wants
        """Serve a file of the page, or the trace."""
        path = self.path.partition("?")[0].removeprefix("/ui/").lstrip("/") or "index.html"
        content = served_files().get(path)
        if self.path == f"/{TRACE_FILE_NAME}":
            content = self.trace_file.read_bytes()
        media_type = MEDIA_TYPES.get(path.rpartition(".")[2], "application/x-ndjson")
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve_files(trace_file: Path) -> Iterator[str]:
    """Serve the page's files and a trace; the server's URL."""
    handler = type("_Files", (_PageFiles,), {"trace_file": trace_file})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def wheel_bytes() -> int:
    """Bytes that the page adds to a wheel: its files, packed as a wheel packs them."""
    archive = io.BytesIO()
    root = resources.files("txnsim_lab.http.page")
    with resources.as_file(root) as folder, zipfile.ZipFile(archive, "w", 8) as wheel:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                wheel.write(path, path.relative_to(folder))
    return len(archive.getvalue())


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
    """CPU time of the server per event under clients at a fixed rate, with none and with ten
    listeners, in alternation; and how much more it is with ten.
    """
    from benchmarks.trace import serve_with_recording

    figures: dict[str, list[float]] = defaultdict(list)
    with serve_with_recording() as server:
        request = urllib.request.Request(
            f"{server.http_url}/api/v1/topics", data=b'{"name": "orders", "partitions": 16}'
        )
        urllib.request.urlopen(request).close()
        server.set_level("brief")
        with run_clients(server.bootstrap):
            for round_number in range(round_count + 1):  # the first warms up
                cpu_us = {}
                for pages in (0, LISTENING_PAGES) if round_number % 2 else (LISTENING_PAGES, 0):
                    cpu_us[pages] = cpu_us_with_listeners(server, pages)
                    if round_number:
                        figures[f"{pages} pages, CPU us per event"].append(cpu_us[pages])
                if round_number:
                    figures[LISTENERS_CPU_FIGURE].append(
                        (cpu_us[LISTENING_PAGES] / cpu_us[0] - 1) * 100
                    )
    return figures


def cpu_us_with_listeners(server: RecordingServer, page_count: int) -> float:
    """CPU microseconds of the server per sent event, with ``pages`` listeners."""
    command = [sys.executable, "-c", LISTENER_PROGRAM, server.http_url, str(page_count)]
    listeners = subprocess.Popen(command) if page_count else None
    try:
        time.sleep(LISTEN_S / 4)  # they are there
        first_position, began_cpu_s = server.set_level("brief")["next"], cpu_seconds(server.pid)
        time.sleep(LISTEN_S)
        began_cpu_s = cpu_seconds(server.pid) - began_cpu_s
        first_position = server.set_level("brief")["next"] - first_position
        assert listeners is None or listeners.poll() is None, "the listeners have ended"
    finally:
        if listeners is not None:
            listeners.kill()
            listeners.wait()
    return float(began_cpu_s / first_position * 1e6)


def cpu_seconds(pid: int) -> float:
    """CPU seconds that all threads of a running process have used so far."""
    thread_folders = Path(f"/proc/{pid}/task").iterdir()
    return (
        sum(
            int(Path(thread_folder, "schedstat").read_text().split()[0])
            for thread_folder in thread_folders
        )
        / 1e9
    )


def measure_cold_start(browser: Browser, figures: dict[str, list[float]]) -> None:
    """The first lesson of a server that has just started. The click comes as soon as there is a
    button, so it waits for what is not ready yet.
    """
    with TxnsimServer(arguments=("--ui", "--http", "0")) as server:
        page, _ = open_page(browser, str(server.http))
        figures["lesson L1, first picture of a new server, ms"].append(first_picture_ms(page))
        page.context.close()


def first_picture_ms(page: Page) -> float:
    """Milliseconds from a click on lesson L1 to its first text."""
    page.wait_for_selector("#lesson-L1")
    began_s = time.perf_counter()
    page.click("#lesson-L1")
    page.wait_for_selector("#lesson p", timeout=120_000)
    return (time.perf_counter() - began_s) * 1e3


def measure(round_count: int) -> dict[str, list[float]]:
    """The samples of every figure, one for each round."""
    figures: dict[str, list[float]] = defaultdict(list)
    with chromium() as browser, TxnsimServer(arguments=("--ui", "--http", "0")) as server:
        for _ in range(round_count):
            measure_cold_start(browser, figures)
        url = str(server.http)
        for round_number in range(round_count + 1):  # the first warms up
            page, cpu = open_page(browser, url)
            ready_ms, cpu_until_ready_ms = page.evaluate("__ready"), cpu.used_ms()
            page.wait_for_selector("#lesson-L1")
            cpu.used_ms()
            lesson_ms = first_picture_ms(page)
            cpu_lesson_ms = cpu.used_ms()
            page.context.close()
            if round_number:
                figures["page ready, CPU ms"].append(cpu_until_ready_ms)
                figures["lesson L1, CPU ms of the page"].append(cpu_lesson_ms)
                figures["page ready, ms"].append(ready_ms)
                figures["lesson L1, first picture, ms"].append(lesson_ms)
        measure_long_trace(browser, figures)
        measure_live(browser, figures)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("browser", "live", "streams", "size"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    figures: dict[str, list[float]] = {}
    if args.only in (None, "size"):
        figures["page in the wheel, bytes"] = [float(wheel_bytes())]
    if args.only in (None, "browser"):
        figures |= measure(args.rounds)
    if args.only == "live":
        live_figures: dict[str, list[float]] = defaultdict(list)
        with chromium() as browser:
            measure_live(browser, live_figures)
        figures |= live_figures
    if args.only in (None, "streams"):
        figures |= measure_streams(args.rounds)
    if args.json:
        print(json.dumps(figures))
        return
    for name, samples in figures.items():
        median = statistics.median(samples)
        spread = f"{min(samples):.1f} to {max(samples):.1f}"
        target = f"; target {TARGETS[name]:,}" if name in TARGETS else ""
        print(f"{name:<40} {median:>10,.2f}  ({spread}{target})")


if __name__ == "__main__":
    main()
