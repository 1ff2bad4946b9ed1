"""Every scenario that comes along, in every run and take: the declared verdicts, and the same trace
for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sim.scenario import catalog
from sim.scenario.model import Scenario
from sim.scenario.runner import RunResult, Telling, tell_virtual

SCENARIOS = tuple(catalog.scenarios().values())
OTHER_SEED = 20


def tellings(scenario: Scenario) -> Iterator[Telling]:
    for run in scenario.runs:
        for take in scenario.takes:
            yield Telling(scenario=scenario, run=run, take=take)


def complaint(result: RunResult) -> str:
    """What differs from the file; empty if nothing does."""
    if result.as_declared:
        return ""
    findings = [result.verdict, *([result.cured] if result.cured is not None else [])]
    wrong = [f"{one.observed}, declared {one.expected}: {one.because}" for one in findings]
    return f"{result.run} {result.take}: {' / '.join(wrong)}"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_every_telling_comes_to_what_is_declared_twice_with_the_same_trace(
    scenario: Scenario,
) -> None:
    first = [tell_virtual(telling) for telling in tellings(scenario)]
    assert [complaint(result) for result in first if not result.as_declared] == []
    for telling, result in zip(tellings(scenario), first, strict=True):
        again = tell_virtual(telling)
        assert again.trace == result.trace, str(telling)
        assert again.history == result.history, str(telling)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_verdicts_do_not_hang_on_the_seed(scenario: Scenario) -> None:
    """Other latencies, the same anomalies: nothing in a story may be a race."""
    results = [tell_virtual(telling, seed=OTHER_SEED) for telling in tellings(scenario)]
    assert [complaint(result) for result in results if not result.as_declared] == []
