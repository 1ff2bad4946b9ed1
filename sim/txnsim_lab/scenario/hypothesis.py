"""A story as a hypothesis: is it so, is it not so, or can it not happen?

A hypothesis is a scenario file. It claims the verdict of its runs and the answers of its steps.
It is reproduced if each step was answered as it says, and the judges saw the verdict. It is not
reproduced if readers or judges saw something else, or a state did not come about. It is impossible
if a broker refused a step. Then the answer has the nearest possible story, too. It is the same
story, and it expects the refusal.
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
REFUSALS_MAX: Final = 5
"""Highest number of refusals that the nearest story expects."""


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


class Nearest(msgspec.Struct, frozen=True, kw_only=True):
    """The story that comes nearest to an impossible one."""

    expects: tuple[str, ...]
    """Refusals that were added, each with its place in the file."""
    seen: tuple[str, ...]
    """Anomalies; none for a healthy end."""
    because: tuple[str, ...]


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
    nearest: Nearest | None = None
    """Of what is impossible: what happens where the refusal is expected."""


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
        if judged.verdict is Verdict.IMPOSSIBLE:
            judged = msgspec.structs.replace(judged, nearest=_nearest(run, judged))
        if judged.verdict is Verdict.REPRODUCED:
            break
    assert judged is not None, "at least one seed"
    return judged


def _nearest(run: ScenarioRun, judged: RunOfIt) -> Nearest | None:
    """Play it again with each refusal expected; None where that comes to no end."""
    expects: list[str] = []
    scenario, seen = run.scenario, judged
    while seen.answered:
        places = {f"{one.place}:": one for one in scenario.steps if one.call and one.place}
        refused = next((one for at, one in places.items() if seen.because[0].startswith(at)), None)
        if refused is None or refused.call is None or len(expects) == REFUSALS_MAX:
            return None
        expects.append(f"{refused.place}.error: {seen.answered}")
        call = refused.call.model_copy(update={"error": seen.answered})
        changed = refused.model_copy(update={"call": call})
        steps = [changed if one is refused else one for one in scenario.steps]
        scenario = scenario.model_copy(update={"steps": type(scenario.steps)(steps)})
        again = msgspec.structs.replace(run, scenario=scenario)
        seen = _judged(run_in_virtual_time(again, seed=judged.seed), judged.seed)
    return Nearest(expects=tuple(expects), seen=seen.seen, because=seen.because)


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
