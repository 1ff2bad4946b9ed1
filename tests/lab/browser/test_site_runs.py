"""What the site tells is what is told here, byte by byte: its WebAssembly in Node.js.

A module that a run needs and the site lacks fails here, and is named.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from tests.support.re2j import recorded_answers
from tests.support.site import built_site, run_python_in_site
from tests.support.trace_survey import first_runs, scenario_runs
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.teaching.lesson_solver import solve_lesson
from txnsim_lab.scenario.teaching.lessons import lessons

pytestmark = pytest.mark.browser

SIZE_MAX: Final = 12_700_000
"""Size of all files of the site, in bytes. Most of it is Python itself and its libraries."""
PARTS: Final = 8
"""Tests that share all runs: no test may take many minutes."""
TELL: Final = """
import json
from hashlib import sha256
from txnsim.http.work_thread import run_in_turn
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time

def told(name, run, take):
    one = run_in_virtual_time(ScenarioRun(scenario=catalog.find(name)[1], run=run, take=take))
    return sha256(one.trace + one.history).hexdigest()

answer = json.dumps([await run_in_turn(lambda: told(*one)) for one in json.loads(given)])
"""
PLAY: Final = """
import json
from txnsim.http.work_thread import run_in_turn
from txnsim_lab.scenario.teaching.lessons import lessons
from txnsim_lab.scenario.teaching.lesson_solver import solve_lesson

def came_to(one):
    return [[part.answer, part.is_reached] for part in solve_lesson(one).values()]

answer = json.dumps({
    name: await run_in_turn(lambda: came_to(one)) for name, one in lessons().items() if one.story
})
"""
MATCH: Final = """
import json
from txnsim.errors import PatternError
from txnsim.patterns import compile_pattern

def answered(expression, names):
    try:
        pattern = compile_pattern(expression)
    except PatternError as error:
        return str(error)
    return [name for name in names if pattern.matches(name)]

answer = json.dumps([answered(*one) for one in json.loads(given)])
"""


@pytest.fixture(scope="module")
def site() -> Path:
    """The folder of the built site."""
    if shutil.which("node") is None:
        missing = "no Node.js (apt-get install nodejs npm)"
        if os.environ.get("TXNSIM_NEEDS_BROWSER"):
            pytest.fail(missing)
        pytest.skip(reason=missing)
    return built_site()


def hash_of(scenario_run: ScenarioRun) -> str:
    run_result = run_in_virtual_time(scenario_run)
    return sha256(run_result.trace + run_result.history).hexdigest()


def test_the_site_is_no_larger_than_it_may_be(site: Path) -> None:
    assert sum(file.stat().st_size for file in site.iterdir()) <= SIZE_MAX


@pytest.mark.costly
def test_one_telling_of_each_story_is_the_same_in_webassembly(site: Path, tmp_path: Path) -> None:
    assert_same(first_runs(catalog.scenarios().values()), site, tmp_path)


def test_patterns_are_taken_refused_and_matched_as_by_re2j_in_webassembly(
    site: Path, tmp_path: Path
) -> None:
    answers = recorded_answers()
    questions = [
        [answer.expression, [*answer.matched_names, *answer.unmatched_names]] for answer in answers
    ]
    expected_answers = [answer.refusal or list(answer.matched_names) for answer in answers]
    assert run_python_in_site(site, tmp_path / "site", MATCH, questions) == expected_answers


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_every_telling_is_the_same_in_webassembly(part: int, site: Path, tmp_path: Path) -> None:
    all_runs = scenario_runs(catalog.scenarios().values())
    assert_same(islice(all_runs, part, None, PARTS), site, tmp_path)


def assert_same(chosen_runs: Iterable[ScenarioRun], site_folder: Path, folder: Path) -> None:
    """Check that the site's runs have the same traces and histories, byte by byte."""
    scenario_runs = list(chosen_runs)
    assert scenario_runs
    names = [
        (scenario_run.scenario.name, scenario_run.run, scenario_run.take)
        for scenario_run in scenario_runs
    ]
    hashes_there = run_python_in_site(site_folder, folder / "site", TELL, names)
    with ThreadPoolExecutor(1) as executor:  # Playwright may keep a loop running in this thread
        hashes_here = list(executor.map(hash_of, scenario_runs))
    assert [
        name
        for name, hash_here, its in zip(names, hashes_here, hashes_there, strict=True)
        if hash_here != its
    ] == []


@pytest.mark.nightly
def test_lessons_come_to_the_same_answers_and_goals_in_webassembly(
    site: Path, tmp_path: Path
) -> None:
    outcomes_there = run_python_in_site(site, tmp_path / "site", PLAY, None)
    with ThreadPoolExecutor(1) as executor:
        for lesson_name, lesson in lessons().items():
            if lesson.cluster is not None:
                continue  # the site has none
            parts = executor.submit(solve_lesson, lesson).result().values()
            assert outcomes_there[lesson_name] == [
                [lesson_part.answer, lesson_part.is_reached] for lesson_part in parts
            ]
