from __future__ import annotations

import msgspec
import pytest

from tests.support.plans import leaderless_plan
from txnsim_lab.scenario.reading import read
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.simulation._plan import RUN
from txnsim_lab.simulation._story import pytest_of, story_of
from txnsim_lab.simulation.play import play


@pytest.mark.costly
def test_a_run_becomes_a_scenario_that_has_the_same_verdict() -> None:
    plan = leaderless_plan()
    story = story_of(plan, play(plan))
    assert story is not None
    assert story.steps <= 8
    scenario = read("found.yaml", story.text)
    result = run_in_virtual_time(ScenarioRun(scenario=scenario, run=RUN), seed=plan.seed)
    assert result.as_declared
    assert result.verdict.observed == story.verdict
    assert "stuck-last-stable-offset" in story.verdict
    assert "Broker 2 is killed." in [step.say for step in scenario.steps]


def test_what_steps_can_t_say_is_no_story() -> None:
    plan = leaderless_plan()
    other = msgspec.structs.replace(play(plan), findings=())
    assert story_of(plan, other) is None


def test_a_test_holds_the_plan() -> None:
    text = pytest_of(leaderless_plan(as_version="4.2"))
    names: dict[str, object] = {}
    exec(compile(text, "test_found.py", "exec"), names)
    test = names["test_the_run_is_healthy"]
    assert callable(test)
    test()
