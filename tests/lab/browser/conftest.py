"""A browser and a server with the page, for every test of it.

``python -m pytest -m browser`` needs Chromium (apt: chromium) and the dependency group ``browser``.
Where there is none, the tests are skipped with one line; with ``TXNSIM_NEEDS_BROWSER`` set, as in
CI, that is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import httpx
import msgspec
import pytest

from tests.support.apache_kafka import make_once
from tests.support.traces import recording_of_run
from tests.support.txnsim_server import TxnsimServer
from txnsim_lab.trace.explained_moments import moments

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

    from txnsim.trace.trace_file import Recording

CHROMIUM: Final = (
    os.environ.get("TXNSIM_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
)
FIREFOX: Final = os.environ.get("TXNSIM_FIREFOX")
"""Debian's Firefox ESR over WebDriver BiDi instead (test_firefox.py)."""
LEAVING: Final = ("Error in input stream",) if FIREFOX else ()
"""What it says of the stream of a page that goes away."""
STILL: Final = {"ui.prefersReducedMotion": 1}
PATIENCE_MS: Final = 120_000
"""So long a page is waited for: what a busy machine needs is no failure."""
AXE: Final = "axe-core@4.14.1"
SHOW: Final = """async ([text, moments]) => {
  const { loadTrace } = __page["api.js"];
  await loadTrace(new Response(text), { kind: "file", index: 0, title: "a test", moments });
}"""
UNFOLDED: Final = """
try {
  sessionStorage["txnsim-details"] =
    "details details-shown details-other steps why-more at-work event";
} catch {}
"""
"""Details are there: most tests read them."""
CACHE: Final = Path(__file__).parents[3] / ".cache" / "browser"
LOCK: Final = CACHE.with_name("browser.lock")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium under Playwright: its own download is not wanted."""
    missing = "no Chromium (apt-get install chromium)" if CHROMIUM is None else ""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "no Playwright (pip install --group browser)"
    if missing:
        if os.environ.get("TXNSIM_NEEDS_BROWSER"):
            pytest.fail(missing)
        pytest.skip(reason=missing)
    with sync_playwright() as playwright:
        if FIREFOX:
            launched_browser = playwright.firefox.launch(
                channel="moz-firefox", executable_path=FIREFOX, firefox_user_prefs=STILL
            )
        else:
            launched_browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--disable-gpu", "--disable-dev-shm-usage"]
            )
        yield launched_browser
        launched_browser.close()


@pytest.fixture(scope="session")
def server(browser: Browser) -> Iterator[TxnsimServer]:
    """A server with the page, shared by the tests that do not disturb each other."""
    with TxnsimServer(arguments=("--ui", "--http", "0")) as txnsim_server:
        yield txnsim_server


@pytest.fixture
def fresh_server(browser: Browser) -> Iterator[TxnsimServer]:
    """A server that this test does not share."""
    with TxnsimServer(arguments=("--ui", "--http", "0")) as txnsim_server:
        yield txnsim_server


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Any]:
    """Opens pages at an address; at the end none of them has complained."""
    complaints: list[str] = []
    contexts = []

    def open_at(
        url: str,
        *,
        expects: tuple[str, ...] = (),
        urls: list[str] | None = None,
        script: str = "",
        is_unfolded: bool = True,
        **options: Any,
    ) -> Page:
        def where(console_message: Any) -> str:
            return f"{console_message.text} {console_message.location['url']}"

        def hear(text: str) -> None:
            if text and not any(expected_text in text for expected_text in (*expects, *LEAVING)):
                complaints.append(text)

        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **options}
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(script + (UNFOLDED if is_unfolded else ""))
        page.on(
            "console",
            lambda console_message: hear(
                where(console_message) if console_message.type == "error" else ""
            ),
        )
        page.on("request", lambda request: None if urls is None else urls.append(request.url))
        page.on("pageerror", lambda error: hear(str(error)))
        page.goto(url)
        # A function is read once. A bare expression is read at every look, and from the second one
        # on the page's own policy forbids that.
        page.wait_for_function("() => globalThis.__ready > 0")
        return page

    yield open_at
    for context in contexts:
        for page in context.pages:
            page.goto("about:blank")  # it asks nothing any more
            page.unroute_all(behavior="ignoreErrors")
        context.close()
    assert complaints == []


def show(page: Page, recording: Recording) -> None:
    """Show a recording as a page in a file has it."""
    explained = msgspec.json.decode(msgspec.json.encode(list(moments(recording))))
    page.evaluate(SHOW, [recording.to_lines().decode(), explained])


def until_judged(page: Page) -> None:
    """Wait until the page shows the verdict on the shown event."""
    page.wait_for_function("() => __page['store.js'].judgedMoment.value.serverExplanation")


def make_hang(page: Page) -> None:
    """Make a transaction hang by the page's button, and go to the last event."""
    page.click("#practise")
    page.wait_for_selector("#past")  # its first step
    page.keyboard.press("l")
    page.wait_for_function("() => !location.hash.includes('at=')")  # a reload stays there


def judge_what_is_made(page: Page) -> None:
    """Events that are made in the page are unknown to its server: let what that says of its own
    newest event be said of the one that was asked about.
    """

    def answer(route: Route) -> None:
        path, _, query = route.request.url.partition("?")
        # Not by the browser: it throws an answer away that its page waits for no longer.
        response = httpx.get(path)
        position = int(parse_qs(query)["at"][0])
        route.fulfill(status=response.status_code, json={**response.json(), "at": position})

    page.route("**/explain?*", answer)


def from_npm(package: str, member: str) -> str:
    """The text of a file of a package, fetched once by npm: ``NAME@VERSION``, its path in it."""

    def pack(folder: Path) -> None:
        folder.mkdir(parents=True)
        subprocess.run(["npm", "pack", package, "--silent"], cwd=folder, check=True, timeout=120)
        (archive_file,) = folder.glob("*.tgz")
        subprocess.run(["tar", "xzf", archive_file.name], cwd=folder, check=True)

    folder = make_once(CACHE / package.replace("@", "-"), pack, lock_file=LOCK)
    return (folder / "package" / member).read_text("utf-8")


def installed_from_npm(package: str) -> Path:
    """A folder where Node.js finds a package, ``NAME@VERSION``, with what that needs."""

    def install(folder: Path) -> None:
        folder.mkdir(parents=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", package]
        subprocess.run([*command, "--prefix", str(folder)], check=True, timeout=300)

    return make_once(CACHE / re.sub(r"\W+", "-", package).strip("-"), install, lock_file=LOCK)


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core."""
    return from_npm(AXE, "axe.min.js")


def recorded(change: str, run_name: str) -> Recording:
    """A run of a story, recorded aside: once a browser is there, Playwright has a loop running in
    this thread.
    """
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(recording_of_run, change, run_name).result()
