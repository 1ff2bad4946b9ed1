"""Asks releases of Apache Kafka for the anomalies of a verdict: plays, on real brokers that are
started for it, the stories in which a design has them.

Real brokers can't play what only a simulator can order: ways of explorations and seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from msgspec.structs import replace

from txnsim_lab.referee.pairs import sightings_of_story
from txnsim_lab.referee.verdict import AnomalyLine, RealAnswer, StoryRun, Verdict
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.on_real.comparison import ComparedRun, run_on_apache, why_not
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import FAILED_VERDICT, ScenarioRun

ARMED: Final = "armed"
STORIES_PER_ANOMALY: Final = 3
"""So many stories are played for an anomaly: starting brokers for one takes half a minute."""


async def ask_release(
    version: str, verdict: Verdict, *, report_progress: Callable[[str], object]
) -> tuple[RealAnswer, ...]:
    """Play stories of each anomaly on real brokers of a release.

    Args:
        version: Such as ``4.0.2``.
        verdict: The verdict of a match.
        report_progress: Takes lines of progress.

    Returns:
        What the brokers did in each run, and why a run was not played.

    Raises:
        ConfigError: There is no Java or Maven, or a broker did not come up.
    """
    run_by_story = _plan_runs(verdict.anomalies, version)
    answers: list[RealAnswer] = []

    def keep(compared_run: ComparedRun) -> None:
        for story_run, scenario_run in run_by_story.items():
            if scenario_run is compared_run.scenario_run:
                report_progress(f"{scenario_run.scenario.name} {scenario_run.run} on {version}")
                answers.append(_answer_of(compared_run, version, story_run))

    await run_on_apache(
        version,
        [*run_by_story.values()],
        Casting(),
        report_progress=report_progress,
        on_compared_run=keep,
    )
    return tuple(answers)


def _plan_runs(anomalies: Iterable[AnomalyLine], version: str) -> dict[StoryRun, ScenarioRun]:
    """The runs to play: for each anomaly the first stories that the release can play, or else one
    that says why not.

    Returns:
        A run of the match -> the run of the same story and mode that the release plays.
    """
    run_by_story: dict[StoryRun, ScenarioRun] = {}
    for anomaly in anomalies:
        candidate_run_by_story = {
            story_run: _run_for_release(story_run, version) for story_run in anomaly.story_runs
        }
        playable_run_by_story = {
            story_run: scenario_run
            for story_run, scenario_run in candidate_run_by_story.items()
            if why_not(scenario_run, version) is None
        }
        chosen_run_by_story = playable_run_by_story or dict(
            islice(candidate_run_by_story.items(), 1)
        )
        run_by_story |= dict(islice(chosen_run_by_story.items(), STORIES_PER_ANOMALY))
    return run_by_story


def _run_for_release(story_run: StoryRun, version: str) -> ScenarioRun:
    """The run itself, or another one of its mode if the release can play only that."""
    name, run = story_run
    scenario = find(name)[1]
    mode = scenario.runs[run].mode
    names_of_same_mode = [
        other_name for other_name, other_run in scenario.runs.items() if other_run.mode == mode
    ]
    scenario_runs = [
        ScenarioRun(scenario=scenario, run=candidate, take=ARMED)
        for candidate in dict.fromkeys((run, *names_of_same_mode))
    ]
    return next(
        (candidate for candidate in scenario_runs if why_not(candidate, version) is None),
        scenario_runs[0],
    )


def _answer_of(compared_run: ComparedRun, version: str, story_run: StoryRun) -> RealAnswer:
    played_run = compared_run.scenario_run.run
    answer = RealAnswer(release=version, story_run=story_run, played_run=played_run)
    if compared_run.real is None:
        return replace(answer, why_not=compared_run.why_not)
    judges_result = compared_run.real.verdict
    if FAILED_VERDICT in judges_result.observed:
        reason = f"it did not come to its end: {judges_result.because[0]}"
        return replace(answer, why_not=reason)
    return replace(answer, kinds=tuple(sightings_of_story(judges_result)))
