"""Every scenario that comes along, in every run and take: the declared verdicts; in its first run,
the same trace for the same seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from tests.support.shared_results import OTHER_SEED, tell_once
from tests.support.trace_survey import first_runs, main_runs, scenario_runs
from txnsim.runtime.trace import TraceLevel
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, run_in_virtual_time
from txnsim_lab.trace.followed_trace import FollowedTrace

ROOT = Path(__file__).parents[3]
Choice = Callable[[Iterable[Scenario]], Iterator[ScenarioRun]]
SCENARIOS = tuple(catalog.scenarios().values())
SOME = ("z01", "z05", "z12", "z16", "z21", "z26")
"""Applications, requests by hand, a reload, a cleaner, markers, positions."""

WRONG_DATA: Final = frozenset({"lost-write", "torn-transaction", "aborted-read"})
"""Anomalies of histories that leave records with another end than their transaction."""
NOT_OF_MARKERS: Final = frozenset(
    {"fetch-above-the-stable-offset", "half-cleaned-segment", "marker-lost-to-the-cleaner"}
)
"""Stories in which a reader or the cleaner goes wrong, and no marker contradicts."""


def complaint(result: RunResult) -> str:
    """What differs from the file; empty if nothing does."""
    if result.as_declared:
        return ""
    judges_results = [result.verdict, *([result.cured] if result.cured is not None else [])]
    differences = [
        f"{judges_result.observed}, declared {judges_result.expected}: {judges_result.because}"
        for judges_result in judges_results
    ]
    return f"{result.run} {result.take}: {' / '.join(differences)}"


@pytest.mark.parametrize(
    "choose_runs",
    [
        pytest.param(main_runs, marks=pytest.mark.slow),
        pytest.param(scenario_runs, marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_telling_comes_to_what_is_declared(scenario: Scenario, choose_runs: Choice) -> None:
    results = [
        tell_once(scenario_run, trace_level=TraceLevel.BRIEF).result
        for scenario_run in choose_runs([scenario])
    ]
    assert [complaint(result) for result in results if not result.as_declared] == []


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_trace_tells_wrong_data_where_histories_do(scenario: Scenario) -> None:
    if scenario.name in NOT_OF_MARKERS:
        expected_anomalies: frozenset[str] = frozenset()
    else:
        expected_anomalies = WRONG_DATA
    for scenario_run in main_runs([scenario]):
        result = tell_once(scenario_run, trace_level=TraceLevel.BRIEF).result
        recording = Recording.from_lines(str(scenario_run), result.trace.splitlines())
        wrong_data = FollowedTrace.of_recording(recording).facts().wrong_data
        is_expected = bool(expected_anomalies & set(result.verdict.observed))
        assert bool(wrong_data) == is_expected, (str(scenario_run), wrong_data)


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_told_again_it_has_the_same_trace(scenario: Scenario) -> None:
    (scenario_run,) = first_runs([scenario])
    first_result, second_result = (
        tell_once(scenario_run, trace_level=TraceLevel.BRIEF).result,
        run_in_virtual_time(scenario_run),
    )
    assert second_result.trace == first_result.trace
    assert second_result.history == first_result.history


@pytest.mark.costly
@pytest.mark.parametrize(
    "choose_runs",
    [
        pytest.param(first_runs, marks=pytest.mark.slow),
        pytest.param(scenario_runs, marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_verdicts_do_not_hang_on_the_seed(scenario: Scenario, choose_runs: Choice) -> None:
    """Other latencies, the same anomalies: nothing in a story may be a race."""
    results = [
        tell_once(scenario_run, trace_level=TraceLevel.FULL, seed=OTHER_SEED).result
        for scenario_run in choose_runs([scenario])
    ]
    assert [complaint(result) for result in results if not result.as_declared] == []


def hashes(tell: Callable[[ScenarioRun], RunResult]) -> dict[str, str]:
    """The hash of trace and history of the first run of each of ``SOME``."""
    results = map(tell, first_runs([catalog.find(name)[1] for name in SOME]))
    return {
        result.scenario: sha256(result.trace + result.history).hexdigest() for result in results
    }


@pytest.mark.costly
@pytest.mark.slow
def test_traces_do_not_depend_on_the_order_of_sets_either() -> None:
    """Python orders sets of strings anew in each process."""
    program = (
        "import json, tests.lab.catalogue.test_matrix as matrix\n"
        "print(json.dumps(matrix.hashes(matrix.run_in_virtual_time)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    hashes_here = hashes(
        lambda scenario_run: tell_once(scenario_run, trace_level=TraceLevel.BRIEF).result
    )
    assert len(hashes_here) == len(SOME)
    assert json.loads(process.stdout.splitlines()[-1]) == hashes_here
