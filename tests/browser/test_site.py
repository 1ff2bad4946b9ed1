"""The site of ``txnsim site build`` in Chromium: served by a plain file server below a path, then
with the server gone.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.site import built_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.nightly]  # it is built first, by npm and pip

READY_MS: Final = 120_000
EXPLAINED: Final = """() => {
  const found = __sim.explained.value;
  return found && !found.error && found.at === __sim.events[__sim.at.value].i;
}"""
NO_WASM: Final = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"


@contextmanager
def served(folder: Path, headers: dict[str, str] | None = None) -> Iterator[str]:
    """A plain file server of loopback; it is gone afterwards."""

    class Handler(SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    handler = functools.partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder above the site, which is below a path as project pages are."""
    above = tmp_path_factory.mktemp("pages")
    built_site(above / "project")
    return above


def play_z01(page: Page) -> None:
    page.get_by_role("button", name="✖ V-", exact=False).first.wait_for()
    page.locator("#stop-first").check()
    row = page.locator("tr", has=page.get_by_role("cell", name="z01", exact=True))
    row.locator("button", has_text="V-").first.click()
    page.get_by_text("Next, step 1 of").wait_for(timeout=READY_MS)


def test_a_story_is_played_driven_and_taken_back(site: Path, new_page: Callable[..., Page]) -> None:
    asked: list[str] = []
    with served(site) as url:
        page = new_page(f"{url}project/", asked=asked)
        play_z01(page)
        page.locator("#step").click()
        page.get_by_text("Next, step 2 of").wait_for(timeout=READY_MS)
        page.locator("#back").click()
        page.get_by_text("Next, step 1 of").wait_for(timeout=READY_MS)
        page.locator("#to-end").click()
        page.get_by_text("The judges found").wait_for(timeout=READY_MS)
        page.wait_for_function(EXPLAINED, timeout=READY_MS)
        assert {one.split("/")[2] for one in asked if "://" in one} == {url.split("/")[2]}
        kept(page)
    again = page.context.new_page()  # the server is gone
    again.goto(f"{url}project/")
    play_z01(again)


def kept(page: Page) -> None:
    """Wait until the files are kept for a visit without a network."""
    page.wait_for_function(
        "async () => Boolean((await navigator.serviceWorker.getRegistration())?.active)"
    )


def test_where_webassembly_is_refused_the_page_says_so(
    site: Path, new_page: Callable[..., Page]
) -> None:
    with served(site, {"Content-Security-Policy": NO_WASM}) as url:
        page = new_page(f"{url}project/", expects=("WebAssembly", "Content Security Policy"))
        page.get_by_role("alert").get_by_text("can't run in this browser").wait_for()
