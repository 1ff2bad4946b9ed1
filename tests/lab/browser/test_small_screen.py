"""The page on a telephone: nothing is cut off, and the inspector comes from below."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.browser.test_page import PICTURES
from tests.lab.browser.test_stage import PLAY
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.browser

WIDTH, HEIGHT = 390, 844


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_fits_a_telephone_and_why_is_a_sheet_from_below(
    theme: str, server: TxnsimServer, new_page: Any, axe: str
) -> None:
    page = new_page(
        server.http,
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme=theme,
        bypass_csp=True,
    )
    page.evaluate(PLAY, ["z01", "V-"])
    page.wait_for_selector("#verdict.hangs")
    assert page.locator("#why").is_hidden()
    page.click("#sheet")
    reason = page.locator("#why").bounding_box()
    assert reason["y"] > HEIGHT / 4
    assert reason["width"] <= WIDTH
    page.click("#sheet")
    page.evaluate(axe)
    for number in range(1, 9):
        page.keyboard.press(str(number))
        if number == 8:
            page.wait_for_selector("table.zoo")
        assert page.evaluate("document.scrollingElement.scrollWidth") == WIDTH
        view = page.locator("main section.view").bounding_box()
        assert view["width"] <= WIDTH
        assert view["height"] > HEIGHT / 4
        if number in (1, 4, 7):
            violations = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
            assert [
                (violation["id"], violation["nodes"][0]["html"]) for violation in violations
            ] == []
    page.keyboard.press("1")
    # The picture, the sentence of the step, and one row of buttons, all in sight: it took three.
    page.wait_for_selector(".step-of:text-is('Step 6 of 9')")
    picture, button, sentence, sheet = (
        page.locator(one).bounding_box() for one in ("svg.drawn", "#play", ".story .now", "#sheet")
    )
    assert picture["y"] + picture["height"] <= sentence["y"]
    assert sentence["y"] + sentence["height"] <= sheet["y"]
    assert sheet["y"] + sheet["height"] <= button["y"]
    controls = page.locator(":is(#step-back, #play, #step-on):visible").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().y)"
    )
    assert len(controls) == 3
    assert max(controls) - min(controls) < 2
    # No curve is drawn here: what is on its way has a line of its own.
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".drawn .goes.held:has-text('“late”, held 1.2 s')")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#verdict.hangs")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"small-{theme}.png")
