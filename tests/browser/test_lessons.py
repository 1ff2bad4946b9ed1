"""Lessons in the page, played to their ends by keyboard alone, from their own words."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.test_page import press_until
from tests.support.txnsim_server import TxnsimServer
from txnsim.scenario.reading import read
from txnsim.scenario.runner import Telling, tell_virtual
from txnsim.scenario.teaching.lessons import lesson, lessons
from txnsim.scenario.teaching.played import played

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

OTHERS = [name for name in lessons() if name not in ("L1", "demo")]


def test_the_first_lesson_is_played_by_keyboard_to_its_end(
    fresh_server: TxnsimServer, new_page: Any, tmp_path: Path
) -> None:
    page = new_page(fresh_server.http)
    asked = play_first_lesson(
        page, lambda: assert_story_can_be_played(fresh_server, page, tmp_path)
    )
    press(page, "#lesson-leave")
    page.wait_for_selector(".link-state.live")
    page.wait_for_selector(f"#lesson-L1:has-text('{asked} of {asked} predictions came true')")


def play_first_lesson(page: Page, see_story: Callable[[], None]) -> int:
    """By keyboard, to its end; ``see_story`` is called when the story can be saved.

    Returns:
        How many predictions came true: all.
    """
    page.wait_for_selector("#lesson-L1")
    press(page, "#lesson-L1")
    one = lesson("L1")
    answers = {number: came_to.answer for number, came_to in apart(played, one).items()}
    for number, part in enumerate(one.parts):
        page.wait_for_selector(f"#lesson:has-text('part {number + 1} of {len(one.parts)}')")
        if part.goal:
            assert page.locator("#repair").count() == 0  # the cure is the learner's own to find
            if number < len(one.parts) - 1:
                press(page, "#lesson-action-1")
                page.wait_for_selector("#lesson .wrong:has-text('Not yet.')")
        elif part.ask:
            press(page, "#lesson-hint")
            page.wait_for_selector("#lesson .hint")
            assert page.is_disabled("#lesson-answer")  # nothing goes on without a prediction
        take_part(page, "L1", number, answers[number])
        if part.ask:
            assert "You said" in page.inner_text(".predicted")
            assert "✓ Right." in page.inner_text(".predicted")
        if part.beside:
            page.wait_for_selector(f"section.compare h2:has-text('{part.beside.run}')")
        if part.saves:
            see_story()
        press(page, "#lesson-next")
    page.wait_for_selector("#lesson-end")
    asked = sum(bool(part.ask) for part in one.parts)
    assert f"{asked} of your {asked} predictions came true." in page.inner_text("#lesson-end")
    return asked


def assert_story_can_be_played(server: TxnsimServer, page: Page, folder: Path) -> None:
    link = page.get_attribute("#lesson-save", "href")
    with urllib.request.urlopen(f"{server.http}{link}", timeout=30) as answer:
        text = answer.read().decode()
    mine = read(str(folder / "my-l1.yaml"), text)
    assert apart(tell_virtual, Telling(scenario=mine, run="V-")).as_declared


def apart(doing: Callable[[Any], Any], given: object) -> Any:
    """In a thread of its own: Playwright keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(doing, given).result()


def test_a_part_of_a_lesson_has_a_link_and_is_presented(
    server: TxnsimServer, new_page: Any
) -> None:
    one = lesson("L1")
    after = next(n for n, part in enumerate(one.parts) if part.goal) + 1  # behind the first goal
    page = new_page(f"{server.http}/#lesson=L1&part={after}&present=1")
    page.wait_for_selector(f".lesson.presented:has-text('part {after + 1} of')")
    page.click("#lesson-show")
    page.wait_for_selector("#lesson .predicted:has-text('two ABORT markers')")
    assert "You said" not in page.inner_text("#lesson")
    page.click("#lesson-present")
    page.wait_for_selector(".lesson:not(.presented)")


@pytest.mark.nightly
@pytest.mark.parametrize("name", OTHERS)
def test_every_lesson_is_played_by_keyboard_to_its_end(
    name: str, fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    page.wait_for_selector(f"#lesson-{name}")
    press(page, f"#lesson-{name}")
    parts = lesson(name).parts
    for number, part in enumerate(parts):
        page.wait_for_selector(f"#lesson:has-text('part {number + 1} of {len(parts)}')")
        take_part(page, name, number, next(iter(part.choices), ""))
        assert page.get_attribute("main section.view", "aria-label") == part.view
        press(page, "#lesson-next")
    page.wait_for_selector("#lesson-end")


def take_part(page: Page, name: str, number: int, answer: str) -> None:
    """Up to the button that leads to the next part."""
    part = lesson(name).parts[number]
    for action in part.solution:
        press(page, f"#lesson-action-{action - 1}")
        page.wait_for_function("() => !__page['store.js'].busy.value")
    if part.ask:
        press_until(page, "document.activeElement.name === 'guess'")
        page.keyboard.press("Space")
        for _ in part.choices:
            if page.evaluate("document.querySelector('[name=guess]:checked')?.value") == answer:
                break
            page.keyboard.press("ArrowDown")
        press(page, "#lesson-answer")
    elif not part.goal:
        press(page, "#lesson-go")
    page.wait_for_selector("#lesson-next")


def press(page: Page, selector: str) -> None:
    """By keyboard alone."""
    page.wait_for_selector(f"{selector}:not([disabled])")
    press_until(page, f"document.activeElement === document.querySelector({selector!r})")
    page.keyboard.press("Enter")
