"""The story of the first screen as somebody sees it: one sentence at a time, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.browser.conftest import make_hang
from tests.lab.browser.test_picture import OWN_TEXT, SIZES
from tests.lab.browser.test_stage import PLAY
from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

SCREENS: Final = {
    "desk": {"viewport": {"width": 1280, "height": 720}},
    "telephone": {"viewport": {"width": 390, "height": 844}},
}
BATCHES: Final = "(all) => all.map((one) => one.getBoundingClientRect())"
TOUCHED: Final = """() => [...document.querySelectorAll("button, select, summary, a.link")]
  .filter((one) => one.checkVisibility() && !one.closest(".skip, svg"))
  .map((one) => [one.textContent.trim().slice(0, 30), one.getBoundingClientRect()])
  .filter(([, { width, height }]) => width > 1 && Math.min(width, height) < 39.5)
  .map(([text, { width, height }]) => `${text}: ${width} by ${height}`)"""
TOUCH_MIN_VIEWS: Final = ("1", "2", "3", "4", "5", "6", "7", "8", "9")
SMALLEST_PX: Final = 12
OPEN_FOLDS: Final = "(n) => document.querySelectorAll('details.folded[open]').length === n"
WATCH_STEPS: Final = """() => {
  globalThis.__steps = [];
  new MutationObserver(() => {
    const shown = document.querySelector(".story .step-of")?.textContent;
    if (shown && __steps.at(-1) !== shown) __steps.push(shown);
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""
LESSON: Final = "() => void (location.hash = 'lesson=L1&part=0')"
PINNED: Final = """() => {
  const box = document.querySelector(".drawing");
  const left = box.getBoundingClientRect().left;
  return box.scrollLeft > 0 && [...box.querySelectorAll(".cap, .app, .coordinator")]
    .every((name) => Math.abs(name.getBoundingClientRect().left - left) < 4);
}"""


def reader_x(page: Page) -> float:
    return float(page.locator(".drawn .figure").bounding_box()["x"])


@pytest.mark.parametrize("screen", SCREENS)
def test_once_it_is_ended_the_reader_goes_on_and_no_record_is_lost_from_sight(
    screen: str, fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, is_unfolded=False, **SCREENS[screen])
    make_hang(page)
    page.wait_for_selector(".drawn .batch:has-text('withheld')")
    wall = reader_x(page)
    page.click("#repair")
    page.wait_for_selector("#verdict.healthy")
    page.wait_for_selector(".drawn .reader:text-is('readers get everything')")
    batches = page.locator(".drawn .batch")
    # The late record is discarded, the other one can be read, and the reader stands behind them.
    owners = page.locator(".drawn .batch .whose").evaluate_all(OWN_TEXT)
    late = "discarded" if screen == "telephone" else "discarded: billing/1"
    assert owners == ["billing/1", late, "readable ✓", "billing/1"]
    assert reader_x(page) > wall
    rectangles = batches.locator("rect").evaluate_all(BATCHES)
    assert reader_x(page) > rectangles[2]["right"]
    width = page.viewport_size["width"]
    assert all(one["left"] >= 0 and one["right"] <= width for one in rectangles)
    assert page.inner_text(".story .now").endswith("Readers discard its records.")
    assert page.inner_text(".step-of") == "After step 6"


def test_one_sentence_at_a_time_stands_below_the_picture_above_its_buttons(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, is_unfolded=False, **SCREENS["desk"])
    make_hang(page)
    page.wait_for_selector("#verdict.hangs")
    sentence = page.locator(".story .now")
    sentences = set()
    button_places = set()
    for number in range(6, 0, -1):
        page.wait_for_selector(f".step-of:text-is('Step {number} of 6')")
        sentences.add(sentence.inner_text())
        places = [
            page.locator(one).bounding_box() for one in ("svg.drawn", ".story .now", "#step-on")
        ]
        picture, said, button = places
        assert picture["y"] + picture["height"] <= said["y"]
        button_places.add((button["x"], button["y"]))
        assert said["y"] + said["height"] <= button["y"]
        assert said["y"] + said["height"] <= page.locator("footer").bounding_box()["y"] + 1
        page.click("#step-back")
    assert len(sentences) == 6
    assert len(button_places) == 1
    # Beside it stand facts: a label and a value each, and no paragraph.
    page.keyboard.press("l")
    page.wait_for_selector("dl.facts .term:text-is('Open here')")
    facts = dict(
        zip(
            page.locator("dl.facts dt").all_inner_texts(),
            page.locator("dl.facts dd").all_inner_texts(),
            strict=True,
        )
    )
    assert facts["Readers"] == "stand at offset 1"
    assert facts["Withheld"] == "2 offsets"
    assert facts["Coordinator has"] == "Empty: nothing is open"
    assert max(map(len, facts.values())) < 30
    shown_paragraphs = page.locator("#why > p:visible").all_inner_texts()
    assert [text for text in shown_paragraphs if len(text) > 60] == []


def test_the_words_of_the_story_do_not_contradict_each_other(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    make_hang(page)
    page.wait_for_selector("#verdict.hangs")
    assert "no consumer waits at this moment" in page.inner_text("#verdict")
    assert "It leaves without “paid”" in page.inner_text(".story .now")
    page.wait_for_selector("#why:not(.stale) .cause")
    assert "stamped 1 h ago" in page.inner_text("#why")
    assert "its first record is 1 h old by its timestamp" in page.inner_text("#verdict")
    assert "stand at offset 1" in page.inner_text("[data-partition='orders-0']")
    tabs = page.locator("nav button").all_inner_texts()
    assert tabs[:4] == ["Picture", "Coordinator", "Producers and groups", "Timeline"]
    page.keyboard.press("2")
    page.wait_for_selector("th:text-is('state') + td:text-is('Empty: nothing is open')")


def test_it_is_ended_only_at_the_present_moment(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http)
    make_hang(page)
    page.wait_for_selector("#repair:enabled")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#repair:disabled:has-text('first go back to now')")
    assert "earlier moment" in page.get_attribute("#repair", "title")
    page.keyboard.press("l")
    page.wait_for_selector("#repair:enabled:not(:has-text('first go back to now'))")


def test_a_fold_opens_alone_and_the_page_itself_never_scrolls(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, is_unfolded=False, **SCREENS["desk"])
    make_hang(page)
    page.wait_for_selector("#why:not(.stale) .cause")
    folds = page.locator("details.folded")
    for n in range(folds.count()):
        assert page.locator("details.folded[open]").count() == n
        folds.nth(n).locator("summary").click()
        page.wait_for_function(OPEN_FOLDS, arg=n + 1)
    assert folds.count() == 5
    for key in TOUCH_MIN_VIEWS:
        page.keyboard.press(key)
        assert page.evaluate("document.scrollingElement.scrollHeight") == 720, key


def test_a_step_by_hand_pauses_play_and_the_last_one_moves_nothing(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, is_unfolded=False, **SCREENS["desk"])
    make_hang(page)
    page.wait_for_selector("#why:not(.stale) .cause")
    place = page.locator(".drawing").bounding_box()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".step-of:text-is('Step 6 of 6')")
    assert page.locator("#said").count() == 0
    assert page.locator(".drawing").bounding_box() == place
    page.keyboard.press("Space")
    page.wait_for_selector("#play[aria-pressed=true]")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#play[aria-pressed=false]")
    page.wait_for_selector(".step-of:text-is('Step 2 of 6')")
    page.click("#present")
    page.wait_for_selector("body.presented")
    page.keyboard.press("Escape")
    page.wait_for_selector("body:not(.presented)")


def test_the_story_begins_with_its_first_step(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http, is_unfolded=False, **SCREENS["desk"])
    page.evaluate(WATCH_STEPS)
    page.click("#practise")
    page.wait_for_selector("#past")
    assert page.evaluate("() => __steps") == ["Step 1 of 6"]


def test_an_open_sheet_closes_when_something_else_is_shown(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, is_unfolded=False, **SCREENS["telephone"])
    make_hang(page)
    for way in ("() => __page['store.js'].chooseView('coordinator')", LESSON):
        page.click("#sheet[aria-expanded=false]")
        page.wait_for_selector("#sheet[aria-expanded=true]")
        page.evaluate(way)
        page.wait_for_selector("aside.up", state="detached")
        page.evaluate("() => __page['store.js'].chooseView('stage')")
        page.wait_for_selector("#sheet[aria-expanded=false]")


def test_the_names_of_the_rows_stay_in_sight(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http, is_unfolded=False, **SCREENS["telephone"])
    page.evaluate(PLAY, ["z21", "TV2"])
    page.wait_for_selector("#verdict[data-verdict]")
    for left in (10_000, 40):
        page.evaluate("(left) => (document.querySelector('.drawing').scrollLeft = left)", left)
        page.wait_for_function(PINNED)


def test_the_focus_returns_when_the_help_closes(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http, is_unfolded=False)
    make_hang(page)
    page.wait_for_selector("#verdict.hangs")
    focused = "() => document.activeElement.id || document.activeElement.ariaLabel"
    for key, overlay in (("?", "Help: keys and words"), ("s", "Share")):
        page.focus("#step-on")
        page.keyboard.press(key)
        page.wait_for_function(f"() => ({focused})() === {overlay!r}")
        assert page.locator(".story").is_hidden()
        page.keyboard.press("Escape")
        page.wait_for_function(f"() => ({focused})() === 'step-on'")
        assert page.locator(".story").is_visible()
    page.keyboard.press("Tab")
    outline = "() => getComputedStyle(document.activeElement).outlineWidth"
    assert page.evaluate(outline) == "3px"


def test_on_a_telephone_everything_is_large_enough_for_a_finger(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, is_unfolded=False, **SCREENS["telephone"])
    page.wait_for_selector("#lesson-L1")
    assert page.evaluate(TOUCHED) == []
    make_hang(page)
    page.wait_for_selector("#verdict.hangs")
    verdict, views = (page.locator(one).bounding_box() for one in ("#verdict", "nav"))
    assert verdict["y"] < views["y"]
    for key in TOUCH_MIN_VIEWS:
        page.keyboard.press(key)
        if key == "8":
            page.wait_for_selector("table.zoo")
        assert page.evaluate(TOUCHED) == [], key


@pytest.mark.parametrize("screen", SCREENS)
def test_no_text_is_too_small(screen: str, server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http, **SCREENS[screen])
    for story, run in (("z01", "V-"), ("z21", "TV2")):
        page.evaluate(PLAY, [story, run])
        page.wait_for_selector("#verdict[data-verdict]")
        sizes = page.evaluate(SIZES)
        assert {text: px for text, px in sizes.items() if px < SMALLEST_PX} == {}
