"""Every decision, refusal, marker and append of every scenario names a row of docs/rules.md."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance.casebook.reading import rules
from tests.support.explained import EXPLAINED, explanations
from txnsim.runtime.trace_kinds import KINDS
from txnsim.scenario import catalog
from txnsim.scenario.runner import Telling, tell_virtual

RULES_MIN = 60
"""Different rules in the first take of each run of all scenarios; 62 when this was written."""


@pytest.mark.slow
def test_the_scenarios_show_many_rules_and_no_event_without_one() -> None:
    seen: Counter[str] = Counter()
    unexplained = []
    for scenario in catalog.scenarios().values():
        for run in scenario.runs:
            telling = Telling(scenario=scenario, run=run, take=scenario.takes[0])
            for rule, event in explanations(tell_virtual(telling).trace):
                seen[rule] += 1
                if rule not in rules():
                    unexplained.append(f"{telling}: {event}")
    assert unexplained == []
    assert len(seen) >= RULES_MIN, seen


def test_kinds_that_are_explained_have_a_place_for_the_rule() -> None:
    assert [kind for kind in sorted(EXPLAINED) if "rule" not in KINDS[kind].fields] == []
