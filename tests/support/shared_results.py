"""Results that several tests use, mostly plays of stories, are made once per run of pytest.

The first test that asks makes it. The others, in other processes as well, read it from a folder
that ``tests/conftest.py`` makes.
"""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from tests.support.shared_folder import FOLDER
from tests.support.trace_state_check import compare_states
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.scenario.runner import SEED_DEFAULT, RunResult, ScenarioRun, run_in_virtual_time

OTHER_SEED: Final = 20
"""Whole traces are recorded with this seed, so that verdicts are seen with two."""


Made = TypeVar("Made")


class StoryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one run of a story."""

    result: RunResult
    differences: list[str]
    """Differences between the state told by the trace and the brokers' state, before or after the
    cure.
    """


def tell_once(
    scenario_run: ScenarioRun, *, trace_level: TraceLevel, seed: int = SEED_DEFAULT
) -> StoryOutcome:
    """Play a story of the catalogue in virtual time, unless a test of this run has done so."""

    def tell() -> StoryOutcome:
        with compare_states(trace_level) as differences:
            result = run_in_virtual_time(scenario_run, seed=seed, trace_level=trace_level)
        return StoryOutcome(result=result, differences=differences)

    run_name = f"{scenario_run.scenario.name} {scenario_run.run} {scenario_run.take}"
    name = f"{run_name} {trace_level.name} {seed}"
    return make_once(name, tell)


def make_once(name: str, make: Callable[[], Made]) -> Made:
    """The value of ``make``, made once per run. It must be picklable, and ``name`` unique."""
    path = Path(os.environ[FOLDER], sha256(name.encode()).hexdigest())
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # others that ask meanwhile wait
        if path.exists():
            stored_made: Made = pickle.loads(path.read_bytes())
            return stored_made
        value = make()
        path.write_bytes(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
    return value
