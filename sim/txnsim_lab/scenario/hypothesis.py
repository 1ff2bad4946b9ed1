"""Checks a story as a hypothesis: is it true, is it false, or is it impossible?

A hypothesis is a scenario file. It states the verdict of its runs and the answers to its steps. It
is reproduced if each step got the stated answer and the judges reached the stated verdict. It is
not reproduced if readers or judges saw something else, or a state was not reached. It is impossible
if a broker refused a step. Then the answer also has the nearest possible story: the same one, but
expecting the refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import FAILED_VERDICT, RunResult, ScenarioRun, run_in_virtual_time

EVENTS_MAX: Final = 12
"""Number of sentences of the story in a verdict; the last ones are taken."""
REFUSALS_MAX: Final = 5
"""Highest number of refusals that the nearest story expects."""


class HypothesisVerdict(StrEnum):
    """Whether a story leads to what its hypothesis claims, or can't happen at all."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    IMPOSSIBLE = "impossible"


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a run: an event in the cluster, or an act of a client."""

    at_ms: int
    who: str
    text: str


class Nearest(msgspec.Struct, frozen=True, kw_only=True):
    """The possible story that is nearest to an impossible one."""

    expects: tuple[str, ...]
    """The refusals that it expects additionally, each with its place in the file."""
    seen: tuple[str, ...]
    """Kinds of anomalies that the judges saw; none for a healthy end."""
    because: tuple[str, ...]


class RunOfIt(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one run of the hypothesis."""

    run: str
    take: str
    seed: int
    verdict: HypothesisVerdict
    claimed: tuple[str, ...]
    """Kinds of anomalies that the file declares; none for a healthy end."""
    seen: tuple[str, ...]
    because: tuple[str, ...]
    """The judges' reasons, or the step that failed, with its place in the file and what happened
    instead.
    """
    answered: str
    """The unexpected error, by Kafka's name; empty if there was none."""
    decisive: tuple[RunEvent, ...]
    nearest: Nearest | None = None
    """For an impossible run: what happens if the refusal is expected."""


class FileVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a file: the least favourable verdict of its runs."""

    hypothesis: str
    verdict: HypothesisVerdict
    runs: tuple[RunOfIt, ...]


def check(scenario: Scenario, *, seeds: Sequence[int] = (1,)) -> FileVerdict:
    """Play every run as it is declared. With several seeds, the first one that reproduces the
    hypothesis counts.

    Raises:
        ConfigError: The cluster can't be configured as the story needs.
    """
    runs = tuple(
        _first_reproducing(ScenarioRun(scenario=scenario, run=run_name), seeds)
        for run_name in scenario.runs
    )
    verdicts = {run.verdict for run in runs}
    verdict_order = (
        HypothesisVerdict.IMPOSSIBLE,
        HypothesisVerdict.NOT_REPRODUCED,
        HypothesisVerdict.REPRODUCED,
    )
    verdict = next(
        possible_verdict for possible_verdict in verdict_order if possible_verdict in verdicts
    )
    return FileVerdict(hypothesis=scenario.name, verdict=verdict, runs=runs)


def _first_reproducing(run: ScenarioRun, seeds: Sequence[int]) -> RunOfIt:
    run_of_hypothesis = None
    for seed in seeds:
        run_of_hypothesis = _judge_run(run_in_virtual_time(run, seed=seed), seed)
        if run_of_hypothesis.verdict is HypothesisVerdict.IMPOSSIBLE:
            run_of_hypothesis = msgspec.structs.replace(
                run_of_hypothesis, nearest=_find_nearest(run, run_of_hypothesis)
            )
        if run_of_hypothesis.verdict is HypothesisVerdict.REPRODUCED:
            break
    assert run_of_hypothesis is not None, "at least one seed"
    return run_of_hypothesis


def _find_nearest(run: ScenarioRun, first_judged_run: RunOfIt) -> Nearest | None:
    """Play the run again with each refusal expected; None if no possible story is reached."""
    expected_refusals: list[str] = []
    scenario, judged_run = run.scenario, first_judged_run
    while judged_run.answered:
        step_by_prefix = {
            f"{step.place}:": step for step in scenario.steps if step.call and step.place
        }
        refused_step = next(
            (
                step
                for prefix, step in step_by_prefix.items()
                if judged_run.because[0].startswith(prefix)
            ),
            None,
        )
        if (
            refused_step is None
            or refused_step.call is None
            or len(expected_refusals) == REFUSALS_MAX
        ):
            return None
        expected_refusals.append(f"{refused_step.place}.error: {judged_run.answered}")
        call = refused_step.call.model_copy(update={"error": judged_run.answered})
        changed_step = refused_step.model_copy(update={"call": call})
        steps = [changed_step if step is refused_step else step for step in scenario.steps]
        scenario = scenario.model_copy(update={"steps": type(scenario.steps)(steps)})
        changed_run = msgspec.structs.replace(run, scenario=scenario)
        judged_run = _judge_run(
            run_in_virtual_time(changed_run, seed=first_judged_run.seed), first_judged_run.seed
        )
    return Nearest(
        expects=tuple(expected_refusals), seen=judged_run.seen, because=judged_run.because
    )


def _judge_run(run_result: RunResult, seed: int) -> RunOfIt:
    final_result = run_result.verdict if run_result.cured is None else run_result.cured
    if run_result.answered:
        verdict = HypothesisVerdict.IMPOSSIBLE
    elif run_result.as_declared:
        verdict = HypothesisVerdict.REPRODUCED
    else:
        verdict = HypothesisVerdict.NOT_REPRODUCED
    decisive_result = run_result.verdict if not run_result.verdict.as_declared else final_result
    return RunOfIt(
        run=run_result.run,
        take=run_result.take,
        seed=seed,
        verdict=verdict,
        claimed=decisive_result.expected,
        seen=tuple(
            verdict_kind
            for verdict_kind in decisive_result.observed
            if verdict_kind != FAILED_VERDICT
        ),
        because=decisive_result.because,
        answered=run_result.answered,
        decisive=tuple(
            RunEvent(at_ms=story_sentence.at_ms, who=story_sentence.who, text=story_sentence.text)
            for story_sentence in run_result.story[-EVENTS_MAX:]
        ),
    )
