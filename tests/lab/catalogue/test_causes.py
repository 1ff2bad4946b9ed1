"""Why things happened: in every run of every story each event has its cause, and what matters
leads back to a root. And what a reader makes of the trace alone is what the brokers hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.shared_results import OTHER_SEED, tell_once
from tests.support.trace_state_check import compare_states
from tests.support.trace_survey import (
    RULED,
    WALKED_BACK,
    Survey,
    data,
    events_of,
    first_runs,
    main_runs,
    scenario_runs,
)
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.trace_kinds import KINDS
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import SEED_DEFAULT, ScenarioRun, run_in_virtual_time

RULES_MIN = 55
"""Different rows of docs/rules.md in the first take of each run of all stories, at brief."""
SCENARIOS = tuple(catalog.scenarios().values())
ROOT = Path(__file__).parents[3]
STREAMS = (
    "tests/broker/coordinators/group/test_streams_membership.py::"
    "test_the_trace_tells_what_members_have_where_somebody_is_told"
)
METADATA = "tests/broker/server/test_metadata_trace.py::"
ELSEWHERE = {
    "goal": "",  # the page's
    "conn.refuse": "tests/broker/server/test_connection.py::"
    "test_why_a_connection_is_closed_is_in_the_trace",
    "snapshot": "tests/broker/runtime/test_trace.py::"
    "test_a_ring_that_has_dropped_its_head_opens_with_a_snapshot",
    "msg.dup": "tests/broker/runtime/test_peer_links.py::test_a_copy_is_traced_before_it_arrives",
    "share.start": "tests/broker/broker/test_share_trace.py::"
    "test_a_share_partition_begins_later_with_its_log",
    "topic.deleted": f"{METADATA}test_a_deleted_topic_and_one_that_is_made_again_are_told",
    **dict.fromkeys(
        ("cluster.reset", "trace.off"),
        f"{METADATA}test_a_reset_and_the_end_of_a_recording_are_told",
    ),
    **dict.fromkeys(
        ("reader.wait", "reader.end"),
        f"{METADATA}test_a_reader_that_waits_behind_an_open_transaction_is_told_with_its_end",
    ),
    **dict.fromkeys(("streams.member", "streams.left", "streams.unload"), STREAMS),
}
"""Kinds that no story has, and the test in which they occur."""
Choice = Callable[[Iterable[Scenario]], Iterator[ScenarioRun]]
LEVELS = (TraceLevel.BRIEF, TraceLevel.FULL)


def survey_runs(
    scenario_runs: Iterable[ScenarioRun], trace_level: TraceLevel
) -> tuple[Survey, list[str]]:
    """The counts of these runs, and where their traces tell another state than the live one."""
    survey = Survey()
    differences = []
    seed = OTHER_SEED if trace_level is TraceLevel.FULL else SEED_DEFAULT
    for scenario_run in scenario_runs:
        story_outcome = tell_once(scenario_run, trace_level=trace_level, seed=seed)
        survey.take(str(scenario_run), story_outcome.result.trace)
        differences += story_outcome.differences
    return survey, differences


@pytest.mark.parametrize(
    ("trace_level", "choose_runs"),
    [
        pytest.param(TraceLevel.BRIEF, main_runs, marks=pytest.mark.slow),
        pytest.param(TraceLevel.BRIEF, scenario_runs, marks=pytest.mark.thorough),
        pytest.param(TraceLevel.FULL, first_runs, marks=pytest.mark.costly),
        pytest.param(TraceLevel.FULL, scenario_runs, marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_event_has_a_cause_and_a_reader_knows_the_state(
    scenario: Scenario, trace_level: TraceLevel, choose_runs: Choice
) -> None:
    survey, differences = survey_runs(choose_runs([scenario]), trace_level)
    assert differences == []
    assert dict(survey.orphans) == {}, survey.examples
    assert dict(survey.strays) == {}
    assert dict(survey.unruled) == {}
    assert dict(survey.misspelt) == {}
    kinds_seen = {name.partition(" ")[0] for name in survey.kinds}
    assert sorted(kinds_seen & ELSEWHERE.keys()) == [], "take it out of ELSEWHERE"


@pytest.mark.costly
@pytest.mark.slow
def test_every_kind_of_event_occurs_in_some_story_or_in_a_test_that_is_named() -> None:
    unseen_kinds = KINDS.keys() - ELSEWHERE.keys()
    full_runs = (
        (scenario_run, TraceLevel.FULL, OTHER_SEED) for scenario_run in first_runs(SCENARIOS)
    )
    brief = (
        (scenario_run, TraceLevel.BRIEF, SEED_DEFAULT) for scenario_run in main_runs(SCENARIOS)
    )
    for scenario_run, level, seed in (*full_runs, *brief):
        trace = tell_once(scenario_run, trace_level=level, seed=seed).result.trace
        unseen_kinds -= {
            event_kind for event_kind in unseen_kinds if f'"k":"{event_kind}"'.encode() in trace
        }
        if not unseen_kinds:
            break
    assert sorted(unseen_kinds) == []
    for test in filter(None, ELSEWHERE.values()):
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), test


@pytest.mark.costly
@pytest.mark.slow
def test_the_stories_show_many_rules() -> None:
    rules_seen = set()
    for scenario in SCENARIOS:
        for run_name in scenario.runs:
            scenario_run = ScenarioRun(scenario=scenario, run=run_name, take=scenario.takes[0])
            trace = tell_once(scenario_run, trace_level=TraceLevel.BRIEF).result.trace
            rules_seen |= {data(event)["rule"] for event in events_of(trace)[1] if event.k in RULED}
    assert len(rules_seen) >= RULES_MIN, rules_seen


def test_kinds_that_are_explained_have_a_place_for_the_rule() -> None:
    assert [
        event_kind for event_kind in sorted(RULED) if "rule" not in KINDS[event_kind].fields
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("trace_level", LEVELS)
def test_one_telling_leads_from_markers_and_bounds_to_requests(trace_level: TraceLevel) -> None:
    scenario = catalog.find("z01")[1]
    scenario_run = next(scenario_runs([scenario]))
    survey = Survey()
    with compare_states(trace_level) as differences:
        survey.take(
            str(scenario_run), run_in_virtual_time(scenario_run, trace_level=trace_level).trace
        )
    assert differences == []
    assert dict(survey.orphans) == {}, survey.examples
    assert dict(survey.strays) == {}
    assert dict(survey.unruled) == {}
    assert dict(survey.misspelt) == {}
    assert {root_name.partition(" ")[0] for root_name in survey.roots} == set(WALKED_BACK)
