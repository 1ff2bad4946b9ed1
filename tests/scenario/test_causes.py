"""Why things happened: in every telling of every story each event has its cause, and what matters
leads back to a root.
"""

from __future__ import annotations

import pytest

from tests.support.trace_survey import WALKED_BACK, Survey, tellings
from txnsim.runtime.trace import TraceLevel
from txnsim.scenario import catalog
from txnsim.scenario.model import Scenario
from txnsim.scenario.runner import tell_virtual

SCENARIOS = tuple(catalog.scenarios().values())
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
