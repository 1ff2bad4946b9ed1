"""Why things happened: in every telling of every story each event has its cause, and what matters
leads back to a root.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.trace_survey import WALKED_BACK, Survey, tellings
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.trace_kinds import KINDS
from txnsim.scenario import catalog
from txnsim.scenario.model import Scenario
from txnsim.scenario.runner import tell_virtual

SCENARIOS = tuple(catalog.scenarios().values())
ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "goal": "",  # the page's
    "log.truncate": "tests/unit/node/test_log_trace.py::"
    "test_a_log_that_loses_an_end_says_where_it_ends_and_begins",
    "snapshot": "tests/unit/runtime/test_trace.py::"
    "test_a_ring_that_has_dropped_its_head_opens_with_a_snapshot",
    "msg.dup": "tests/unit/runtime/test_peer_links.py::test_a_copy_is_told_before_it_arrives",
}
"""Kinds that no story has, and the test in which they occur."""
LEVELS = (TraceLevel.BRIEF, TraceLevel.FULL)


def surveyed(scenario: Scenario, level: TraceLevel) -> Survey:
    survey = Survey()
    for telling in tellings([scenario]):
        survey.take(str(telling), tell_virtual(telling, trace_level=level).trace)
    return survey


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_every_event_has_a_cause_and_chains_end_at_roots(
    scenario: Scenario, level: TraceLevel
) -> None:
    survey = surveyed(scenario, level)
    assert dict(survey.orphans) == {}, survey.examples
    assert dict(survey.strays) == {}


@pytest.mark.slow
def test_every_kind_of_event_occurs_in_some_story_or_in_a_test_that_is_named() -> None:
    seen = {
        name.partition(" ")[0]
        for scenario in SCENARIOS
        for name in surveyed(scenario, TraceLevel.FULL).kinds
    }
    assert sorted(KINDS.keys() - seen) == sorted(ELSEWHERE)
    for test in filter(None, ELSEWHERE.values()):
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), test


@pytest.mark.parametrize("level", LEVELS)
def test_one_telling_leads_from_markers_and_bounds_to_requests(level: TraceLevel) -> None:
    """The same for one run, quickly; and what is walked back from does occur."""
    scenario = catalog.find("z01")[1]
    telling = next(tellings([scenario]))
    survey = Survey()
    survey.take(str(telling), tell_virtual(telling, trace_level=level).trace)
    assert dict(survey.orphans) == {}, survey.examples
    assert dict(survey.strays) == {}
    assert {name.partition(" ")[0] for name in survey.roots} == set(WALKED_BACK)
