from __future__ import annotations

import pytest

from tests.support.stories import call, late_produce, sentences, small, told, transaction
from txnsim.errors import ConfigError
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import (
    FAILED,
    ScenarioRun,
    casts_of,
    run_in_real_time,
    run_in_virtual_time,
)

GHOST = [
    call("init-producer-id"),
    *transaction("r1"),
    call("produce", partition="t-0", value="ghost"),
]
CURE = [call("find-hanging", "operator"), call("abort-found", "operator")]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_and_another_one_another() -> None:
    scenario_run = ScenarioRun(scenario=late_produce(), run="V-")
    one, same, other = (run_in_virtual_time(scenario_run, seed=seed) for seed in (3, 3, 4))
    assert one.trace == same.trace
    assert one.history == same.history
    assert one.trace != other.trace
    assert one.verdict == other.verdict


def test_a_verdict_is_what_judges_find_and_a_cure_has_one_of_its_own() -> None:
    runs = {
        "V-": {"mode": "V-", "verdict": "stuck-last-stable-offset", "cured": "healthy"},
        "V+": {"mode": "V+", "verdict": "healthy"},
    }
    result = told(GHOST, runs=runs, cure=CURE)
    assert "stuck-last-stable-offset" in result.verdict.observed
    assert result.cured is not None
    assert any("open since 2" in because for because in result.verdict.because)
    assert not result.verdict.as_declared or result.as_declared


def test_a_story_that_can_not_be_told_says_why_before_and_after_its_cure() -> None:
    result = told([call("init-producer-id"), call("begin"), call("commit")])
    assert result.verdict.observed == (FAILED,)
    assert result.cured is None
    assert not result.as_declared
    late = told([{"advance": "1s"}], cure=[call("find-hanging", "operator", names="t-0")])
    assert late.verdict.as_declared
    assert late.cured is not None
    assert late.cured.observed == (FAILED,)
    assert not late.as_declared


async def test_a_story_is_told_in_real_time_as_well() -> None:
    steps = [{"say": "It begins.", "advance": "1s"}, call("init-producer-id"), *transaction("r1")]
    scenario_run = ScenarioRun(scenario=small(steps), run="TV2", take="disarmed")
    assert str(scenario_run) == "small TV2 disarmed"
    result = await run_in_real_time(scenario_run)
    assert result.as_declared, result.verdict
    assert result.seed is None
    assert "scenario: It begins." in sentences(result)


def test_somebody_else_plays_only_where_there_is_something_to_play() -> None:
    nothing = ScenarioRun(scenario=small([{"advance": "1s"}]), run="V-")
    assert casts_of(nothing, Casting(player="own")) == {}
    with pytest.raises(ConfigError, match="small has no application that somebody else could play"):
        casts_of(nothing, Casting(player="kafka-python"))
    late = ScenarioRun(scenario=late_produce(), run="TV2")
    with pytest.raises(ConfigError, match="kafka-python can't play in late-produce-"):
        casts_of(late, Casting(player="kafka-python"))
