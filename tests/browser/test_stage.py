"""The stage: the story, what coordinators and partitions believe, and where they disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PLAY: Final = """async ([name, run]) => {
  await __page["api.js"].play(name, run, "armed");
  const { events, at } = __page["store.js"];
  return events[at.value].i;
}"""


def opened(page: Page, name: str, run: str) -> int:
    """Play a run of the zoo; the event that it opens at."""
    at: int = page.evaluate(PLAY, [name, run])
    page.wait_for_selector("#agreement p")
    page.wait_for_selector("#why:not(.stale) .cause")
    return at


def test_a_run_opens_where_coordinator_and_partition_disagree(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    at = opened(page, "z01", "V-")
    assert at < page.evaluate("__sim.count.value") - 1
    page.wait_for_selector(".agreement.hanging")
    assert page.inner_text("#agreement") == (
        "They disagree: hanging. The coordinator has ended T1: aborted."
        " payments-0 has a transaction open since offset 1. No timeout will mend this."
    )
    assert page.inner_text(".story .now").startswith("The held request is released.")
    # The record's value, what became of it, whose it is.
    assert page.inner_text(".cell.hanging").split("\n") == ["1", "“late”", "! hanging", "T1 of app"]
    assert "stops at 1: it gets nothing from here on" in page.inner_text(".readers")
    assert page.locator(".message.released").first.inner_text().startswith("late-producer")


def test_a_late_marker_belongs_to_the_transaction_that_it_was_for(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    opened(page, "z21", "TV2")
    cells = page.locator(".partition:has-text('t-0') .cell").all_inner_texts()
    whose = [text.split("\n")[-1] for text in cells[:5]]
    assert whose == ["T1 of app", "T1 of app", "T2 of app", "T1 of app", "T2 of app"]
    assert "has ended T2 of app: aborted. On t-0 its record at 2 is committed" in (
        page.inner_text("#agreement")
    )


def test_held_messages_look_held_and_the_story_is_walked_by_its_captions(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    opened(page, "z01", "V-")
    page.get_by_role("button", name="No answer comes, and it gives up on the record.").click()
    held = page.locator(".message.held").first.inner_text()
    assert "Produce “late”" in held
    assert "held by late-produce" in held
    assert "It has T1 open." in page.inner_text(".belief")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".story .now") == "It aborts the transaction."
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".story .now").startswith("No answer comes")


def test_past_and_present_are_told_apart(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    opened(page, "z01", "V-")
    assert page.inner_text("#past").startswith("You look at step 6, event #")
    assert page.locator("main.past").count() == 1
    page.keyboard.press("l")
    page.locator("#past").wait_for(state="detached")
    assert page.locator("main.past").count() == 0


def test_a_run_plays_by_itself_and_stands_still_when_told(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    opened(page, "z01", "V-")
    page.keyboard.press("Home")
    page.select_option("#speed", "4")
    page.locator("main section.view").focus()
    page.keyboard.press("Space")
    page.wait_for_function("() => __sim.at.value > 8")
    page.keyboard.press("Space")
    assert page.get_attribute("#play", "aria-pressed") == "false"


def test_the_hang_of_the_button_tells_its_story_and_is_made_again(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    page.click("#practise")
    page.wait_for_selector(".agreement.hanging")
    page.wait_for_selector(".story li:nth-child(5)")
    page.click("#practise")
    page.wait_for_selector(".story li:nth-child(10)")
    page.click("#repair")
    page.wait_for_selector(".agreement.nothing")


def test_the_address_brings_back_what_was_shown(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    at = opened(page, "z01", "V-")
    page.wait_for_function(f"() => location.hash.includes('at={at}')")
    page.keyboard.press("2")
    page.wait_for_function("() => location.hash.includes('view=coordinator')")
    page.reload()
    page.wait_for_selector("svg.machine")
    assert page.evaluate("__page['store.js'].events[__sim.at.value].i") == at
    page.go_back()
    page.wait_for_selector(".agreement.hanging")
    page.go_back()
    page.wait_for_function("() => __page['store.js'].source.value.kind === 'live'")


def test_another_cluster_at_the_same_address_is_noticed(new_page: Any) -> None:
    with TxnsimServer(arguments=("--ui", "--http", "0")) as first:
        page = new_page(first.http, expects=("net::ERR_", "503"))
        page.click("#practise")
        page.wait_for_selector(".agreement.hanging")
        port = first.http.rsplit(":", 1)[1].strip("/")
    page.wait_for_selector("#gone")
    with TxnsimServer(arguments=("--ui", "--http", port)):
        page.wait_for_selector("#replaced:has-text('Another cluster answers here now')")
        page.locator(".agreement.hanging").wait_for(state="detached")
