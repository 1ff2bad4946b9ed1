"""The picture of the stage, and the first screen, which plays one."""

from __future__ import annotations

import io
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from PIL import Image

from tests.lab.browser.conftest import make_hang
from tests.lab.browser.test_page import PICTURES
from tests.lab.browser.test_stage import play_run
from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

TEXTS: Final = "() => [...document.querySelectorAll('.drawn text')].map((one) => one.textContent)"
OWN_TEXT: Final = "(all) => all.map((one) => one.firstChild.data)"
SIZES: Final = """() => {
  const svg = document.querySelector("svg.drawn");
  const scale = svg.getScreenCTM().a;
  const found = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const one = text.parentElement;
    if (!text.data.trim() || !one.checkVisibility()) continue;
    if (one.closest("script, option, .sr, .skip")) continue;
    const px = Number.parseFloat(getComputedStyle(one).fontSize);
    found.set(text.data.trim().slice(0, 40), svg.contains(one) ? px * scale : px);
  }
  return Object.fromEntries(found);
}"""
WHOLE: Final = """() => {
  const { top, bottom } = document.querySelector("svg.drawn").getBoundingClientRect();
  const said = document.querySelector("#verdict").getBoundingClientRect();
  const foot = document.querySelector("footer").getBoundingClientRect();
  return said.bottom <= top + 1 && bottom <= foot.top + 1;
}"""


def test_marker_and_record_are_curves_into_the_log_and_the_reader_stands_at_the_wall(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http, viewport={"width": 1280, "height": 720}, is_unfolded=False)
    play_run(page, "z01", "V-")
    assert [text for text in page.evaluate(TEXTS) if not text.startswith("step ")] == [
        *("APPLICATION", "app"),
        *("open", "asks to abort", "aborted ✓"),
        *("COORDINATOR", "broker 2 ● up"),
        *("Ongoing", "PrepareAbort", "CompleteAbort", "Empty: nothing is open"),
        "app is over: aborted; no marker is owed",
        *("PARTITION", "payments-0", "broker 1 ● up"),
        *("0", "✕ ABORT", "app/1", "1", "“late”", "open: app/1", "2"),
        *("open from here · no marker will come", "readers stop here"),
        *("“late”, was held 1.3 s", "ABORT marker"),
    ]
    assert page.locator(".drawn .flight[marker-end]").count() == 2
    assert page.locator(".drawn .batch.hanging").count() == 1
    # One axis of time: it is seen that the record came behind the marker, and after the answer.
    marker, wall, answer_box = [
        page.locator(f".drawn {selector}").bounding_box()
        for selector in (".batch.ABORT rect", ".batch.hanging rect", ".box.aborted")
    ]
    assert marker["x"] + marker["width"] < wall["x"]
    assert answer_box["x"] < wall["x"]
    reader = page.locator(".drawn .figure").bounding_box()
    assert reader["x"] + reader["width"] <= wall["x"]
    assert page.evaluate(WHOLE)
    # Details are folded, and what is unfolded once stays so.
    assert page.locator(".strip").count() == 0
    assert page.locator("#event table").count() == 0
    for fold in ("#details", "#event"):
        page.click(f"{fold} summary")
    page.locator(".strip").first.wait_for()
    page.locator("#event table").wait_for()
    # What is held has not arrived: no arrow, no batch.
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".drawn .goes.held:has-text('“late”, held 1.2 s')")
    assert page.locator(".drawn .flight[marker-end]").count() == 0
    assert page.locator(".drawn .batch").count() == 0
    assert page.locator(".drawn .figure").count() == 0


def test_a_share_group_that_a_hanging_transaction_starves_is_in_picture_and_sentence(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http, is_unfolded=False)
    play_run(page, "z35", "TV2")
    while not page.locator(".story .now:has-text('The worker is given nothing more')").count():
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("#why:not(.stale) .cause")
    sharer_text = "share group jobs: start offset 1, waits at 1 · no record is held"
    assert page.locator(".drawn .sharer").evaluate_all(OWN_TEXT) == [sharer_text]
    assert "waiting: share group jobs" in page.inner_text("#verdict")
    assert "Waiting now\nshare group jobs" in page.inner_text("#why")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "share-group.png")
    # The same words stand among those who read.
    page.keyboard.press("3")
    page.wait_for_selector("#readers")
    assert page.locator("#readers tbody tr").all_inner_texts() == [
        f"share group\tt-0\t{sharer_text}"
    ]
    page.keyboard.press("1")
    # A record that a member has: at the poll before.
    while not page.locator(".story .now:has-text('is given a record, and accepts it')").count():
        page.keyboard.press("ArrowLeft")
    sharer_text = "share group jobs: start offset 1, next 1 · no record is held"
    page.wait_for_selector(f".drawn .sharer:has-text('{sharer_text}')")


def test_a_transaction_on_two_partitions_is_one_picture_and_a_batch_leads_to_its_event(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http, is_unfolded=False)
    play_run(page, "z21", "TV2")
    assert page.locator(".drawn .log").count() == 2
    texts = page.evaluate(TEXTS)
    assert texts.index("✓ COMMIT") < texts.index("discarded: app/2"), "one ends each way"
    page.locator(".drawn .batch.COMMIT.wrong-data").click()
    event = page.evaluate("__sim.events[__sim.at.value]")
    assert (event["k"], event["d"]["tp"]) == ("marker.written", "t-0")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_presented_no_text_is_too_small_for_the_back_row(
    theme: str, server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(
        server.http,
        viewport={"width": 1920, "height": 1080},
        color_scheme=theme,
        is_unfolded=False,
    )
    play_run(page, "z01", "V-")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.wait_for_selector("#repair")
    page.screenshot(path=PICTURES / f"story-{theme}.png")  # README's (sheet.py)
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.click("#present")
    sizes = page.evaluate(SIZES)
    assert len(sizes) > 20
    assert {text: px for text, px in sizes.items() if px < 22} == {}
    assert page.evaluate(WHOLE)
    page.screenshot(path=PICTURES / f"presented-{theme}.png")
    page.wait_for_function("() => location.hash.includes('present=1')")


def test_the_page_has_few_sizes_of_type(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http, viewport={"width": 1280, "height": 720})
    play_run(page, "z01", "V-")
    font_sizes = page.evaluate(SIZES.replace("px * scale", "px"))
    assert {round(px) for px in font_sizes.values()} <= {14, 18, 24}


def test_a_picture_is_saved_as_svg_and_png_and_embedded(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http, color_scheme="light", is_unfolded=False)
    play_run(page, "z01", "V-")
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    svg_root = ElementTree.parse(saved.value.path()).getroot()
    texts = [
        text_element.text for text_element in svg_root.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "open from here · no marker will come" in texts
    fills = {
        rectangle.get("fill") for rectangle in svg_root.iter("{http://www.w3.org/2000/svg}rect")
    }
    assert "rgb(255, 255, 255)" in fills
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG").click()
    image = Image.open(saved.value.path()).convert("RGB")
    assert image.width >= 2 * 664
    screenshot = Image.open(io.BytesIO(page.locator("svg.drawn").screenshot())).convert("RGB")
    assert len(screenshot.resize((66, 40)).getcolors(2640) or ()) > 100
    assert len(image.resize((66, 40)).getcolors(2640) or ()) > 100
    page.wait_for_function("() => location.hash.includes('at=')")
    inside = new_page(page.url.replace("view=stage", "view=stage&embed=1"), is_unfolded=False)
    inside.wait_for_selector("#verdict.hangs")
    for selector in ("header", "nav", "aside", "#steps", ".next"):
        assert inside.locator(selector).first.is_hidden()
    assert inside.locator("svg.drawn").is_visible()
    inside.keyboard.press("ArrowLeft")
    inside.wait_for_function("() => location.hash.includes('embed=1')")


# The first screen

MADE: Final = """(number) => {
  const { events, judgedMoment, storyNotes } = __page["store.js"];
  const { pictureOf } = __page["picture.js"];
  const picture = pictureOf(judgedMoment.value, "billing", ["orders-0"]);
  const sentence = events[storyNotes()[number - 1]].d.text;
  const hidden = ["i", "n", "id", "isMarker"];
  for (const cell of picture.logs.flatMap(({ cells }) => cells)) {
    for (const name of hidden) delete cell[name];
  }
  for (const one of picture.flights) delete one.rule;
  return JSON.parse(JSON.stringify({ sentence, picture }));
}"""


def test_the_first_screen_shows_what_the_button_makes(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, is_unfolded=False)
    shown_events = page.evaluate("__page['hang.js'].HANG_STORY")
    make_hang(page)
    page.wait_for_selector("[data-verdict=hangs]")
    made_events = []
    for number in range(1, len(shown_events) + 1):
        page.evaluate("(number) => void __page['player.js'].goToStep(number)", number)
        page.wait_for_function("() => __page['store.js'].judgedMoment.value.serverExplanation")
        made_events.append(page.evaluate(MADE, number))
    if os.environ.get("TXNSIM_KEEP_STAGES"):
        keep_hang(made_events)
        shown_events = deepcopy(made_events)
    assert [without_time(event) for event in made_events] == [
        without_time(event) for event in shown_events
    ]


def keep_hang(steps: list[dict[str, Any]]) -> None:
    """Write the steps of the first screen into ``hang.js``."""
    module = resources.files("txnsim_lab") / "http/page/static/hang.js"
    text = module.read_text("utf-8")
    beginning = text[: text.index("export const")]
    rows = "".join(
        f"  {json.dumps(step, ensure_ascii=False, separators=(',', ':'))},\n" for step in steps
    )
    rows = re.sub(r"held [0-9.]+ s", "held", rows)
    Path(str(module)).write_text(f"{beginning}export const HANG_STORY = [\n{rows}];\n", "utf-8")


def without_time(step: dict[str, Any]) -> str:
    """How long the request was held is chance here, and so is the order within a step of the story:
    the answer to an abort and the coordinator's last write do not wait for each other.
    """
    picture = step["picture"]
    placed = [
        *picture["app"]["spans"],
        *picture["coordinator"]["spans"],
        *(cell for log in picture["logs"] for cell in log["cells"]),
        *picture["flights"],
    ]
    for item in placed:
        if "tick" in item:
            item["tick"] = picture["ticks"][item["tick"]]
    return re.sub(r"held [0-9.]+ s", "held", repr(step))


def test_the_first_screen_plays_until_somebody_looks_closely(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http, reduced_motion="no-preference", is_unfolded=False)
    page.wait_for_selector(".step-of:has-text('Step 2 of 6')")
    page.hover(".plays")
    sentence = page.inner_text(".says")
    page.wait_for_timeout(3_000)  # longer than a step
    assert page.inner_text(".says") == sentence
    still = new_page(server.http, is_unfolded=False)
    still.wait_for_selector(".step-of:has-text('Step 6 of 6')")  # what it comes to
    assert still.locator(".drawn .batch.hanging").count() == 1
    still.wait_for_timeout(3_000)
    assert still.inner_text(".step-of") == "Example, step 6 of 6"
    still.click("#playing")
    still.mouse.move(0, 0)
    still.evaluate("document.activeElement.blur()")
    still.wait_for_selector(".step-of:has-text('Step 1 of 6')")
    assert still.locator(".lesson-choice").count() == 0  # behind one button
    still.click("#all-stories")
    still.locator(".lesson-choice").first.wait_for()


PAUSED: Final = ".drawn * { animation-play-state: paused !important }"
PLAYED_AT: Final = """(ms) => {
  const svg = document.querySelector("svg.drawn");
  for (const animation of svg.getAnimations({ subtree: true })) animation.currentTime = ms;
  const [dot, batch, reader] = [".record.new + .traveller", ".batch.lands", ".figure"].map((one) =>
    getComputedStyle(svg.querySelector(one)));
  const way = dot.fill === "none" ? "not seen" : dot.offsetDistance;
  return [way, Number(batch.opacity), Number(reader.opacity)];
}"""
"""What is seen so many milliseconds after a step was taken: how far the record has travelled, how
opaque its batch and the reader are. The animations stand still meanwhile.
"""


def test_a_step_is_played_a_request_travels_and_then_its_record_lands(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http, reduced_motion="no-preference", bypass_csp=True, is_unfolded=False)
    page.add_style_tag(content=PAUSED)
    play_run(page, "z01", "V-")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".drawn .flight.held")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".drawn .batch.lands")
    page.wait_for_selector(".drawn .figure")
    assert page.evaluate(PLAYED_AT, 0) == ["0%", 0, 0]
    way, batch, reader = page.evaluate(PLAYED_AT, 450)
    assert 0 < float(way.removesuffix("%")) < 100
    assert (batch, reader) == (0, 0)
    assert page.evaluate(PLAYED_AT, 5_000) == ["not seen", 1, 1]
    # Event by event nothing is held back.
    page.keyboard.press(",")
    page.wait_for_selector(".drawn .log:not(.expects)")


def test_nothing_moves_where_motion_is_unwanted(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http, is_unfolded=False)
    play_run(page, "z01", "V-")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".drawn .flight.held")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".drawn .batch.lands")
    page.wait_for_selector(".drawn .figure")
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate(PLAYED_AT, 0) == ["not seen", 1, 1]


def test_where_motion_is_wanted_the_hang_begins_at_step_1_and_goes_on(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, reduced_motion="no-preference", is_unfolded=False)
    page.click("#practise")
    for number in range(1, 7):
        page.wait_for_selector(f".step-of:has-text('step {number} of 6')")
    page.wait_for_selector("[data-verdict=hangs]")
    page.wait_for_selector("#play[aria-pressed=false]")
    page.click("#prevent")
    page.wait_for_selector("#difference:has-text('With verification:')")


# Lessons

HIDDEN: Final = (
    *("[data-verdict]", ".cause", ".drawn .open-from", ".drawn .figure", "#details"),
    *(".drawn .batch.hanging", "#repair"),
)


@pytest.mark.parametrize(
    ("name", "part"), [("L1", 1), ("L1", 4), ("L1", 7), ("L3", 1), ("L4", 1), ("quiz", 2)]
)
def test_while_a_question_is_open_nothing_on_the_stage_answers_it(
    server: TxnsimServer, new_page: Any, name: str, part: int
) -> None:
    page = new_page(f"{server.http}/#lesson={name}&part={part}")
    page.wait_for_selector("[name=guess]")
    page.wait_for_function("() => !__page['store.js'].isRunBusy.value")
    assert hidden_parts(page) == []
    # "Its marker is owed" stood there as the answer has it.
    assert page.locator(".drawn text.coordinator").text_content() in ("", "?")
    assert page.locator(".left > .lesson").count() == 1  # beside the picture
    page.check("[name=guess] >> nth=0")
    page.click("#lesson-answer")
    page.wait_for_selector("#lesson-next")
    page.wait_for_selector("[data-verdict]")
    page.wait_for_selector(".cause")


def hidden_parts(page: Page) -> list[str]:
    return [hidden_part for hidden_part in HIDDEN if page.locator(hidden_part).count()]


def test_what_leads_to_a_question_is_played_before_it(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(f"{server.http}/#lesson=L1&part=1")
    page.wait_for_selector(".drawn .batch.ABORT")
    assert page.locator("[name=guess]").count() == 3
    assert hidden_parts(page) == []
