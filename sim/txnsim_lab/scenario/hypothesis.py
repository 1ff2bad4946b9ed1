"""A story as a hypothesis: is it so, is it not so, or can it not happen?

A hypothesis is a scenario file. What it claims is the verdict of its runs, and what its steps say
that clients get. So there are three verdicts: the story came to its end and the judges saw what it
claims; readers or judges saw something else, or a state did not come about; a broker refused a
step.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import FAILED, RunResult, ScenarioRun, run_in_virtual_time

EVENTS_MAX: Final = 12
"""Sentences of the story that a verdict carries, from its end backwards."""


class Verdict(StrEnum):
    """Of a hypothesis."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    IMPOSSIBLE = "impossible"


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the cluster, or what a client did."""

    at_ms: int
    who: str
    text: str


class RunOfIt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the hypothesis."""

    run: str
    take: str
    seed: int
    verdict: Verdict
    claimed: tuple[str, ...]
    """Anomalies; none for a healthy end."""
    seen: tuple[str, ...]
    because: tuple[str, ...]
    """Why the judges convict, or the step that failed: its place in the file, and what came
    instead."""
    answered: str
    """The error that was not expected, by Kafka's name; empty where it was none."""
    decisive: tuple[Happened, ...]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a file: that of its runs, the least favourable first."""

    hypothesis: str
    verdict: Verdict
    runs: tuple[RunOfIt, ...]


def check(scenario: Scenario, *, seeds: Sequence[int] = (1,)) -> Judged:
    """Play every run as it is declared; of several seeds the first that reproduces it counts.

    Raises:
        ConfigError: The cluster can't be what the story wants.
    """
    runs = tuple(_first(ScenarioRun(scenario=scenario, run=name), seeds) for name in scenario.runs)
    found = {one.verdict for one in runs}
    order = (Verdict.IMPOSSIBLE, Verdict.NOT_REPRODUCED, Verdict.REPRODUCED)
    verdict = next(one for one in order if one in found)
    return Judged(hypothesis=scenario.name, verdict=verdict, runs=runs)


def _first(run: ScenarioRun, seeds: Sequence[int]) -> RunOfIt:
    judged = None
    for seed in seeds:
        judged = _judged(run_in_virtual_time(run, seed=seed), seed)
        if judged.verdict is Verdict.REPRODUCED:
            break
    assert judged is not None, "at least one seed"
    return judged


def _judged(result: RunResult, seed: int) -> RunOfIt:
    last = result.verdict if result.cured is None else result.cured
    if result.answered:
        verdict = Verdict.IMPOSSIBLE
    elif result.as_declared:
        verdict = Verdict.REPRODUCED
    else:
        verdict = Verdict.NOT_REPRODUCED
    shown = result.verdict if not result.verdict.as_declared else last
    return RunOfIt(
        run=result.run,
        take=result.take,
        seed=seed,
        verdict=verdict,
        claimed=shown.expected,
        seen=tuple(one for one in shown.observed if one != FAILED),
        because=shown.because,
        answered=result.answered,
        decisive=tuple(
            Happened(at_ms=one.at_ms, who=one.who, text=one.text)
            for one in result.story[-EVENTS_MAX:]
        ),
    )
