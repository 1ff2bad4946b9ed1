"""The page while events come without end: it goes on answering, and what it says is of now."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.page_flood import FLOOD
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.browser

ASKED: Final = """() => performance.getEntriesByType("resource")
  .filter(({ name }) => name.includes("/explain")).length"""


def test_under_load_there_is_a_rate_a_pause_and_only_what_hangs(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    # The server knows nothing of what is made here: it says what hangs at its own newest event.
    page.route("**/explain?*", lambda one: one.continue_(url=one.request.url.split("?")[0]))
    page.click("#practise")
    page.wait_for_selector(".cause.hanging")
    asked = page.evaluate(ASKED)
    page.evaluate(FLOOD)
    page.wait_for_function(
        "() => Number(document.querySelector('#rate')?.textContent.match(/[0-9,]+/)[0]"
        ".replace(',', '')) > 50"
    )
    # "Why" was asked once the cursor rested, and it never did: what it said was long past.
    page.wait_for_function(f"(before) => ({ASKED})() > before + 2", arg=asked)
    # In trouble first, in spite of fifty that are busy.
    assert "billing" in page.locator(".believes .strip h3").first.inner_text()
    page.check("#hangs-only")
    page.wait_for_function(
        "() => document.querySelectorAll('.believes .strip:not(.partition)').length === 1"
    )
    page.uncheck("#hangs-only")
    page.keyboard.press("5")
    page.wait_for_function(
        "() => __page['store.js'].count.value > 2000"
        " && document.querySelector('.row.now') && document.querySelectorAll('.row').length > 10"
    )
    page.click("#pause")
    where = page.inner_text(".where:not(#rate)")
    so = page.evaluate("__page['store.js'].events.length")
    page.wait_for_function(f"() => __page['store.js'].events.length > {so} + 500")
    assert page.inner_text(".where:not(#rate)").split(" / ")[0] == where.split(" / ")[0]
    page.wait_for_selector("#past")
    page.evaluate("clearInterval(__flood)")


def test_a_long_recording_is_read_and_then_nothing_says_that_it_is_read(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.wait_for_selector(".link-state.live")  # what it reads at its start is read
    page.evaluate("__page['store.js'].reading.value = 227840")
    page.wait_for_selector("text=reading, 227,840 events so far")
    page.evaluate("void __page['api.js'].listen()")
    page.wait_for_selector(".link-state.live")
    page.locator("text=events so far").wait_for(state="detached")
