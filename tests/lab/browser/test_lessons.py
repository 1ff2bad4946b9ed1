"""Lessons in the page, played to their ends by keyboard alone, from their own words."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.browser.test_page import press_until
from tests.support.own_client import LessonProgram, program_of_the_lesson
from tests.support.txnsim_server import TxnsimServer, installed_txnsim
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read
from txnsim_lab.scenario.teaching.lesson_solver import solve_lesson
from txnsim_lab.scenario.teaching.lessons import lesson, lessons

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

OTHERS = [
    lesson_name
    for lesson_name, lesson in lessons().items()
    if lesson.story and lesson_name not in ("L1", "demo")
]


def test_the_first_lesson_is_played_by_keyboard_to_its_end(
    fresh_server: TxnsimServer, new_page: Any, tmp_path: Path
) -> None:
    page = new_page(fresh_server.http)
    predictions = play_first_lesson(
        page, lambda: assert_story_can_be_played(fresh_server, page, tmp_path)
    )
    press(page, "#lesson-leave")
    page.wait_for_selector(".link-state.live")
    page.wait_for_selector(
        f"#lesson-L1:has-text('{predictions} of {predictions} predictions came true')"
    )


def play_first_lesson(page: Page, see_story: Callable[[], None]) -> int:
    """By keyboard, to its end; ``see_story`` is called when the story can be saved.

    Returns:
        How many predictions came true: all.
    """
    page.wait_for_selector("#lesson-L1")
    press(page, "#lesson-L1")
    first_lesson = lesson("L1")
    answers = {
        number: came_to.answer for number, came_to in run_aside(solve_lesson, first_lesson).items()
    }
    for number, lesson_part in enumerate(first_lesson.parts):
        page.wait_for_selector(
            f"#lesson:has-text('part {number + 1} of {len(first_lesson.parts)}')"
        )
        if lesson_part.goal:
            assert page.locator("#repair").count() == 0  # the cure is the learner's own to find
            if number < len(first_lesson.parts) - 1:
                press(page, "#lesson-action-1")
                page.wait_for_selector("#lesson .wrong:has-text('Not yet.')")
        elif lesson_part.ask:
            press(page, "#lesson-hint")
            page.wait_for_selector("#lesson .hint")
            assert page.is_disabled("#lesson-answer")  # nothing goes on without a prediction
        take_part(page, "L1", number, answers[number])
        if lesson_part.ask:
            assert "You said" in page.inner_text(".predicted")
            assert "✓ Right." in page.inner_text(".predicted")
        if lesson_part.beside:
            page.wait_for_selector(f"section.compare h2[data-run='{lesson_part.beside.run}']")
        if lesson_part.saves:
            see_story()
        press(page, "#lesson-next")
    page.wait_for_selector("#lesson-end")
    prediction_count = sum(bool(lesson_part.ask) for lesson_part in first_lesson.parts)
    assert (
        f"{prediction_count} of your {prediction_count} predictions came true."
        in page.inner_text("#lesson-end")
    )
    return prediction_count


def assert_story_can_be_played(server: TxnsimServer, page: Page, folder: Path) -> None:
    link = page.get_attribute("#lesson-save", "href")
    with urllib.request.urlopen(f"{server.http}{link}", timeout=30) as answer:
        text = answer.read().decode()
    own_scenario = read(str(folder / "my-l1.yaml"), text)
    assert run_aside(run_in_virtual_time, ScenarioRun(scenario=own_scenario, run="V-")).as_declared


def run_aside(do_it: Callable[[Any], Any], argument: object) -> Any:
    """Call ``doing`` in another thread, because Playwright keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(do_it, argument).result()


def test_a_part_of_a_lesson_has_a_link_and_is_presented(
    server: TxnsimServer, new_page: Any
) -> None:
    first_lesson = lesson("L1")
    part_behind_goal = (
        next(n for n, lesson_part in enumerate(first_lesson.parts) if lesson_part.goal) + 1
    )
    page = new_page(f"{server.http}/#lesson=L1&part={part_behind_goal}&present=1")
    page.wait_for_selector(f".lesson.presented:has-text('part {part_behind_goal + 1} of')")
    page.click("#lesson-show")
    page.wait_for_selector("#lesson .predicted:has-text('two ABORT markers')")
    assert "You said" not in page.inner_text("#lesson")
    page.click("#present")
    page.wait_for_selector(".lesson:not(.presented)")


@pytest.mark.nightly
@pytest.mark.parametrize("name", OTHERS)
def test_every_lesson_is_played_by_keyboard_to_its_end(
    name: str, fresh_server: TxnsimServer, new_page: Any
) -> None:
    play_lesson(new_page(fresh_server.http), name)


def play_lesson(page: Page, lesson_id: str) -> None:
    """Play a lesson by keyboard to its end, with a first prediction that is seldom right."""
    press(page, "#all-stories")
    press(page, f"#lesson-{lesson_id}")
    lesson_parts = lesson(lesson_id).parts
    for number, lesson_part in enumerate(lesson_parts):
        page.wait_for_selector(f"#lesson:has-text('part {number + 1} of {len(lesson_parts)}')")
        take_part(page, lesson_id, number, next(iter(lesson_part.choices), ""))
        assert page.get_attribute("main section.view", "data-view") == lesson_part.view
        press(page, "#lesson-next")
    page.wait_for_selector("#lesson-end")


@pytest.mark.nightly
def test_the_program_of_l10_is_killed_mended_and_judged_on_the_page(
    fresh_server: TxnsimServer, new_page: Any, tmp_path: Path, axe: str
) -> None:
    page = new_page(fresh_server.http, expects=("/lessons/L11/begin",), bypass_csp=True)
    page.evaluate(axe)
    http_url = fresh_server.http or ""
    bootstrap = fresh_server.bootstrap.split(",")[0]
    shop_program = LessonProgram(
        program_of_the_lesson(tmp_path), bootstrap=bootstrap, http_url=http_url
    )
    press(page, "#all-stories")
    press(page, "#lesson-L10")
    page.wait_for_selector(f"#lesson-action-0:has-text('{bootstrap} {http_url} l10-first')")
    assert page.get_attribute("#lesson-code", "download") == "l10_shop.py"
    press(page, "#lesson-action-0")
    page.wait_for_selector("#lesson li.wrong:has-text('l10-first-0: nothing; wanted')")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        violations = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        assert [violation["id"] for violation in violations] == []
    shop_program.run("l10-first")
    press(page, "#lesson-action-0")
    page.wait_for_selector("#lesson-met")
    press(page, "#lesson-next")
    predict(page, "L10", 1)
    page.wait_for_selector("#lesson-do:has-text('kill -9')")
    shop_program.kill_and_run("l10-second")
    press(page, "#lesson-done")
    page.wait_for_selector("#lesson .predicted:has-text('✓ Right.')")
    press(page, "#lesson-next")
    predict(page, "L10", 2)
    page.wait_for_selector("#lesson .predicted:has-text('✓ Right.')")
    press(page, "#lesson-next")
    page.wait_for_function("() => location.hash.includes('part=3')")
    page.reload()  # the address names lesson and part, and the topics stay
    shop_program.mend()
    press(page, "#lesson-action-0")
    page.wait_for_selector("#lesson .wrong")
    shop_program.kill_and_run("l10-mended")
    press(page, "#lesson-action-1")
    page.wait_for_selector("#lesson-met")
    press(page, "#lesson-next")
    page.wait_for_selector("#lesson-end")
    press(page, "#lesson-leave")
    page.locator("nav button", has_text="Stories").click()
    press(page, "#lesson-L11")  # not here, and why
    page.get_by_role("alert").get_by_text("`txnsim lesson L11` starts one").wait_for()


@pytest.mark.nightly
def test_l11_is_played_on_the_page_of_the_cluster_that_its_command_starts(
    new_page: Any, tmp_path: Path
) -> None:
    command = [str(installed_txnsim()), "lesson", "L11"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        output = ""
        while (page_link := re.search(r"(http\S+#lesson=L11&part=0)", output)) is None:
            printed_line = process.stdout.readline()
            assert printed_line, output
            output += printed_line
        page = new_page(page_link[1])
        for number in range(4):
            predict(page, "L11", number)
            if lesson("L11").parts[number].do:
                press(page, "#lesson-done")
            page.wait_for_selector("#lesson .predicted:has-text('✓ Right.')")
            press(page, "#lesson-next")
        press(page, "#lesson-action-0")
        page.wait_for_selector("#lesson li.wrong")
        repair = (
            page.inner_text("#lesson pre")
            .splitlines()[0]
            .replace("find-hanging --all", "repair --yes")
        )
        subprocess.run([installed_txnsim(), *repair.split()[1:]], check=True, cwd=tmp_path)
        press(page, "#lesson-action-0")
        page.wait_for_selector("#lesson-met")
        press(page, "#lesson-next")
        page.wait_for_selector("#lesson-end")
        page.close()
        process.stdin.close()  # the lesson in the terminal is left, and its cluster ends
        assert process.wait(60) == 1


def predict(page: Page, lesson_id: str, number: int) -> None:
    """Answer a part's question by keyboard with the choice that comes true."""
    lesson_part = lesson(lesson_id).parts[number]
    page.wait_for_selector(f"#lesson:has-text('part {number + 1} of')")
    choose(page, lesson_part.choices, lesson_part.expected)


def take_part(page: Page, lesson_id: str, number: int, answer_text: str) -> None:
    """Play a part up to the button that leads to the next part."""
    lesson_part = lesson(lesson_id).parts[number]
    for action in lesson_part.solution:
        press(page, f"#lesson-action-{action - 1}")
        page.wait_for_function("() => !__page['store.js'].isRunBusy.value")
    if lesson_part.ask:
        choose(page, lesson_part.choices, answer_text)
    elif not lesson_part.goal:
        press(page, "#lesson-go")
    page.wait_for_selector("#lesson-next")


def choose(page: Page, choices: Iterable[str], answer_text: str) -> None:
    """Choose an answer by keyboard."""
    press_until(page, "document.activeElement.name === 'guess'")
    page.keyboard.press("Space")
    for _ in choices:
        if page.evaluate("document.querySelector('[name=guess]:checked')?.value") == answer_text:
            break
        page.keyboard.press("ArrowDown")
    press(page, "#lesson-answer")


def press(page: Page, selector: str) -> None:
    """Press a button by keyboard."""
    page.wait_for_selector(f"{selector}:not([disabled])")
    press_until(page, f"document.activeElement === document.querySelector({selector!r})")
    page.keyboard.press("Enter")
