"""The stage at the decisive event of six stories is what it was when somebody looked at it.

What is kept is small, and the same with any font: the stage as text (``stages/*.txt``), and a
picture of 80 by 50 grey points, which may differ a little. ``TXNSIM_KEEP_STAGES=1`` writes both
anew.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from PIL import Image, ImageChops, ImageStat

from tests.lab.browser.test_stage import PAUSED, play_run
from tests.support.txnsim_server import TxnsimServer
from txnsim_lab.scenario.teaching.lessons import lessons

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

KEPT: Final = Path(__file__).parent / "stages"
STORIES: Final = {
    "z01": "V-", "z02": "V-", "z04": "V-", "z12": "V-/before", "z21": "TV2", "z27": "V+/4.3",
}  # fmt: skip
SMALL: Final = (80, 50)
DIFFERENT: Final = 12.0
"""Of 255: other fonts differ by less, an empty section by more."""
AS_TEXT: Final = """() => {
  const text = (one) => one.innerText.replace(/\\s+/g, " ").trim();
  const all = (of, selector) => [...of.querySelectorAll(selector)];
  const cell = (one) => {
    const shape = one.querySelector(".cell")?.className.replace("cell", "").trim() ?? "more";
    const brackets = all(one, ".bracket").map((part) => part.className.split(" ")[1]);
    return `  [${shape}] ${text(one)}${brackets.length ? ` (${brackets})` : ""}${
      one.classList.contains("unread") ? " unread" : ""}`;
  };
  return [
    `step: ${text(document.querySelector(".story .now"))}`,
    `picture: ${all(document, ".drawn text").map((one) => one.textContent.trim()).join(" | ")}`,
    ...all(document, "#verdict h2, .standing span:not(.link-state)").map(
      (one) => `verdict: ${text(one)}`),
    ...all(document, ".knows").map((one) => `application: ${text(one)}`),
    ...all(document, ".strip:not(.partition)").map((one) => `coordinator: ${text(one)}`),
    ...all(document, ".message").map((one) => `${one.className}: ${text(one)}`),
    ...all(document, ".partition").flatMap((one) => [
      `partition: ${text(one.querySelector("h3"))} ${text(one.querySelector("dl"))}`,
      ...all(one, ".tape > li").map(cell), `  ${text(one.querySelector(".readers"))}`,
    ]),
    `why: ${text(document.querySelector(".cause"))}`, "",
  ].join("\\n");
}"""


@pytest.mark.parametrize("name", STORIES)
def test_the_stage_is_as_it_was_kept(name: str, server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http, color_scheme="light")
    play_run(page, name, STORIES[name])
    stage_text = page.evaluate(AS_TEXT)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("L").resize(SMALL)
    text, image_file = KEPT / f"{name}.txt", KEPT / f"{name}.png"
    if os.environ.get("TXNSIM_KEEP_STAGES"):
        KEPT.mkdir(exist_ok=True)
        text.write_text(stage_text, encoding="utf-8")
        picture.save(image_file, optimize=True)
    assert stage_text == text.read_text("utf-8")
    (off,) = ImageStat.Stat(ImageChops.difference(picture, Image.open(image_file))).mean
    assert off < DIFFERENT


def screen_reader_text(page: Page, step_count: int) -> str:
    """The roles, names and texts that a screen reader finds on the stage after some steps."""
    page.evaluate(PAUSED, ["z01", "V-", step_count])
    page.wait_for_function(
        "() => __sim.explained.value?.at === __sim.events[__sim.at.value].i"
        " && document.querySelector('#why:not(.stale)')"
    )
    return "\n".join(page.locator(part).aria_snapshot() for part in ("#verdict", "main .stage"))


def test_who_sees_nothing_can_answer_the_questions_of_the_first_lesson(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    ends = sorted(
        {lesson_part.until for lesson_part in lessons()["L1"].parts[:6] if lesson_part.until > 4}
    )
    after_abort, after_release, after_others = [screen_reader_text(page, steps) for steps in ends]
    # Where is the last stable offset after the abort? At 1, behind the marker.
    assert "0 ✕ ABORT marker app/1" in after_abort
    assert "app is over: aborted; no marker is owed." in after_abort
    assert "No transaction holds readers back" in after_abort
    # What will end the transaction? Nothing.
    assert "No timeout ends it, and no marker is on its way" in after_release
    assert "open from here · no marker will come" in after_release
    # How many offsets are withheld?
    assert "they do not get the last 3 offsets" in after_others
