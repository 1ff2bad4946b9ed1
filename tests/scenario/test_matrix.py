"""Every scenario that comes along, in every run and take: the declared verdicts, and the same trace
for the same seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.casebook.reading import rules
from tests.support.explained import explanations
from txnsim.scenario import catalog
from txnsim.scenario.model import Scenario
from txnsim.scenario.runner import RunResult, Telling, tell_virtual

SCENARIOS = tuple(catalog.scenarios().values())
OTHER_SEED = 20
SOME = ("z01", "z05", "z12", "z16", "z21", "z26")
"""Applications, requests by hand, a reload, a cleaner, markers, positions."""


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


def unexplained(result: RunResult) -> list[dict[str, Any]]:
    """Decisions, refusals, markers and appends that name no row of docs/rules.md."""
    return [event for rule, event in explanations(result.trace) if rule not in rules()]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_every_telling_comes_to_what_is_declared_twice_with_the_same_trace(
    scenario: Scenario,
) -> None:
    first = [tell_virtual(telling) for telling in tellings(scenario)]
    assert [complaint(result) for result in first if not result.as_declared] == []
    assert [event for result in first for event in unexplained(result)] == []
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


@pytest.mark.slow
def test_traces_do_not_hang_on_the_order_of_sets_either(tmp_path: Path) -> None:
    """Python orders sets of strings anew in each process."""
    traces = []
    for hash_seed in ("1", "2"):
        directory = tmp_path / hash_seed
        done = subprocess.run(
            [sys.executable, "-m", "txnsim", "scenario", "run", *SOME, "--armed", "--quiet",
             "--trace", str(directory), "--history", str(directory)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        traces.append({path.name: path.read_bytes() for path in sorted(directory.iterdir())})
    assert len(traces[0]) > len(SOME)
    assert traces[0] == traces[1]
