"""The site of ``txnsim site build`` in a real browser: first paint, and a story's first verdict.

``python -m benchmarks.site`` needs Debian's chromium and the dependency group ``browser``, for the
build Node.js, npm and pip. A round is a new profile: a first visit, then two from the kept files,
as the browser keeps compiled WebAssembly after one. ``python -m benchmarks.site DIR DIR`` measures
built sites in alternation. CPU is that of the browser's threads: the worker, those that compile,
all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.site import built_site

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Playwright

STORY_FRAGMENT: Final = "#run=z01&label=V-&take=armed&view=stage"
PATIENCE_MS: Final = 180_000
VERDICT_PAUSE_MS: Final = 5_000
"""So long a visitor looks at the verdict. The browser keeps compiled code once it compiles no more.
"""
WARM_UP_MS: Final = 1_500
"""A new profile is made first: 0.1 to 0.8 s of a first paint would be that."""
VISIT_NAMES: Final = ("first visit", "kept visit", "second kept visit", "third kept visit")
TARGETS: Final = {
    "first visit, first paint, ms": 300,
    "first visit, verdict, ms": 4_000,
    "kept visit, verdict, ms": 2_500,
    "second kept visit, verdict, ms": 2_500,
}
HAS_VERDICT_SCRIPT: Final = """() => globalThis.__page?.["store.js"]?.violations.value.length > 0
  && (globalThis.__verdict ??= performance.now())"""
FIRST_PAINT_SCRIPT: Final = (
    "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
)
IS_KEPT_SCRIPT: Final = "() => navigator.serviceWorker.ready.then(() => null)"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_THREADS: Final = {"DedicatedWorker": "worker", "ThreadPoolForeg": "compiling"}


@contextmanager
def serve_folder_at_url(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on loopback; yields the address."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def read_browser_pids(profile_directory: str) -> set[int]:
    """Find the process that names this profile (the browser) and its descendants."""
    parent_by_pid: dict[int, int] = {}
    browser_pids: set[int] = set()
    for process_folder in Path("/proc").iterdir():
        if not process_folder.name.isdecimal():
            continue
        try:
            parent_by_pid[int(process_folder.name)] = int(
                (process_folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
            if f"--user-data-dir={profile_directory}" in (process_folder / "cmdline").read_text():
                browser_pids.add(int(process_folder.name))
        except OSError:
            continue  # it has ended
    while (
        child_pids := {
            pid for pid, parent_pid in parent_by_pid.items() if parent_pid in browser_pids
        }
        - browser_pids
    ):
        browser_pids |= child_pids
    return browser_pids


def read_thread_cpu_ms(profile_directory: str) -> dict[tuple[str, str], float]:
    """Read the CPU of each of the browser's threads, by what it does and its file in /proc."""
    cpu_ms_by_thread: dict[tuple[str, str], float] = {}
    for pid in read_browser_pids(profile_directory):
        try:
            stat_files = list(Path(f"/proc/{pid}/task").glob("*/stat"))
        except OSError:
            continue  # it has ended
        for stat_file in stat_files:
            try:
                thread_name, _, fields_text = (
                    stat_file.read_text().partition("(")[2].rpartition(")")
                )
            except OSError:
                continue  # it has ended
            cpu_ms = sum(map(int, fields_text.split()[11:13])) * 1_000 / _TICKS
            cpu_ms_by_thread[_THREADS.get(thread_name, "others"), str(stat_file)] = cpu_ms
    return cpu_ms_by_thread


def measure_visit(context: BrowserContext, url: str, profile_directory: str) -> dict[str, float]:
    """Visit the page once, up to the story's verdict; return the figures of the visit by name."""
    cpu_ms_by_thread_before = read_thread_cpu_ms(profile_directory)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url + STORY_FRAGMENT)
    verdict_ms = page.wait_for_function(HAS_VERDICT_SCRIPT).json_value()
    value_by_figure = {
        "first paint, ms": page.evaluate(FIRST_PAINT_SCRIPT),
        "verdict, ms": verdict_ms,
    }
    cpu_ms_by_kind: dict[str, float] = defaultdict(float)
    for (thread_kind_name, stat_path), cpu_ms in read_thread_cpu_ms(profile_directory).items():
        for thread_kind in (thread_kind_name, "all"):
            cpu_ms_by_kind[thread_kind] += cpu_ms - cpu_ms_by_thread_before.get(
                (thread_kind_name, stat_path), 0.0
            )
    value_by_figure |= {
        f"CPU of {thread_kind_name}, ms": cpu_ms_by_kind[thread_kind_name]
        for thread_kind_name in ("worker", "compiling", "all")
    }
    page.evaluate(IS_KEPT_SCRIPT)  # only then the next one has the files
    page.wait_for_timeout(VERDICT_PAUSE_MS)
    page.close()
    return value_by_figure


def measure_visits(
    playwright: Playwright, site_folder: Path, samples_by_figure: dict[str, list[float]]
) -> None:
    """Measure one round of visits with a new profile."""
    chromium_path = os.environ.get("TXNSIM_CHROMIUM") or shutil.which("chromium")
    with (
        tempfile.TemporaryDirectory(prefix="txnsim-site-") as profile_directory,
        serve_folder_at_url(site_folder) as url,
    ):
        context = playwright.chromium.launch_persistent_context(
            profile_directory,
            executable_path=chromium_path,
            args=["--disable-gpu", "--disable-dev-shm-usage"],
        )
        try:
            warm_up_page = context.new_page()  # a visitor's browser runs already
            warm_up_page.goto(f"{url}icon.svg")
            warm_up_page.wait_for_timeout(WARM_UP_MS)
            warm_up_page.close()
            for visit_name in VISIT_NAMES:
                for figure_name, value in measure_visit(context, url, profile_directory).items():
                    samples_by_figure[f"{visit_name}, {figure_name}"].append(value)
        finally:
            context.close()


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", nargs="*", type=Path, help="a built one; made unless given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    site_folders = args.site or [built_site()]
    samples_by_figure_by_site: dict[str, dict[str, list[float]]] = {
        str(site_folder): defaultdict(list) for site_folder in site_folders
    }
    with sync_playwright() as playwright:
        for _ in range(args.rounds):
            for site_folder in site_folders:
                measure_visits(playwright, site_folder, samples_by_figure_by_site[str(site_folder)])
    print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    if args.json:
        print(json.dumps(samples_by_figure_by_site, indent=2))
        return
    for site_path, samples_by_figure in samples_by_figure_by_site.items():
        print(site_path)
        for figure_name, samples in samples_by_figure.items():
            target_text = f"  (target {TARGETS[figure_name]:,})" if figure_name in TARGETS else ""
            least, most = min(samples), max(samples)
            print(
                f"  {figure_name}: {statistics.median(samples):,.0f}"
                f" ({least:,.0f} to {most:,.0f}){target_text}"
            )


if __name__ == "__main__":
    main()
