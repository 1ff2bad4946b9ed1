"""Plays one exploration, story or seed on both designs, each in turn and in this process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.exploration import catalog as explorations
from txnsim_lab.exploration.deepening import ExplorationResult, explore
from txnsim_lab.exploration.search import ReplayedWay, replay
from txnsim_lab.exploration.way import Way, text_of_way
from txnsim_lab.referee.design import Design
from txnsim_lab.referee.verdict import Pair, Side, SideResult, Sighting, Source
from txnsim_lab.scenario import catalog as stories
from txnsim_lab.scenario.runner import (
    FAILED_VERDICT,
    JudgesResult,
    RunResult,
    ScenarioRun,
    run_in_virtual_time,
)
from txnsim_lab.simulation.drawing import SimulationOptions, draw
from txnsim_lab.simulation.plan import Plan
from txnsim_lab.simulation.play import OVER_LIMIT_KIND, Finding, PlayedAct, PlayedRun, play

CPU_S_MAX: Final = 60.0
"""Limit of processor time of a seed on one side; an ordinary one takes less than a second."""
ARMED: Final = "armed"
_CLIENT_ERROR: Final = re.compile(r" got ([A-Z]+(?:_[A-Z]+)+)\b")
"""The error in the reason of a finding that is about one."""


class Designs(msgspec.Struct, frozen=True):
    """The two designs of a match."""

    a: Design
    b: Design

    def side(self, side: Side) -> Design:
        return self.a if side is Side.A else self.b

    @property
    def have_plugins(self) -> bool:
        """Whether the user's own code runs in the match: it may end the process."""
        return bool(self.a.plugins or self.b.plugins)


# Seeds


def plan_of_seed(seed: int, designs: Designs, side: Side) -> Plan:
    """The plan of a seed: drawn for the release of A, and played on either side."""
    drawn_plan = draw(seed, SimulationOptions(as_version=designs.a.as_version))
    return designs.side(side).plan(drawn_plan)


def play_seed(
    seed: int, designs: Designs, side: Side, *, trace_level: TraceLevel = TraceLevel.OFF
) -> tuple[PlayedRun, tuple[str, ...]]:
    """Play a seed on one side; returns the run, and what plug-ins have raised in it."""
    with designs.side(side).in_place() as failures:
        played_run = play(
            plan_of_seed(seed, designs, side), trace_level=trace_level, cpu_s=CPU_S_MAX
        )
    return played_run, failures.texts()


def seed_pair(seed: int, designs: Designs) -> Pair:
    """Play a seed on both sides."""
    side_results = []
    for side in Side:
        played_run, failures = play_seed(seed, designs, side)
        is_over = OVER_LIMIT_KIND in played_run.kinds
        side_results.append(
            SideResult(
                sightings={} if is_over else _sighting_by_kind(played_run.findings),
                is_complete=not is_over,
                remark=played_run.findings[0].because if is_over else "",
                refusals=_refusal_counts(played_run.acts),
                commits=sum(act.error == "NONE" for act in played_run.acts if _is_commit(act)),
                failures=failures,
            )
        )
    return Pair(source=Source.SEED, name=str(seed), a=side_results[0], b=side_results[1])


def _sighting_by_kind(findings: Iterable[Finding]) -> dict[str, Sighting]:
    """The first finding of each kind."""
    sightings: dict[str, Sighting] = {}
    for finding in findings:
        sightings.setdefault(kind_of(finding), Sighting(because=finding.because))
    return sightings


def kind_of(finding: Finding) -> str:
    """The kind of a finding, with the error that a client got: a fix may cure one error and leave
    the other.
    """
    error_match = _CLIENT_ERROR.search(finding.because)
    return finding.kind if error_match is None else f"{finding.kind} ({error_match[1]})"


def _is_commit(act: PlayedAct) -> bool:
    return bool(act.step.get("call", {}).get("do") == "commit")


def _refusal_counts(acts: Iterable[PlayedAct]) -> dict[str, int]:
    error_counts = Counter(act.error for act in acts if _is_commit(act) and act.error != "NONE")
    return dict(sorted(error_counts.items()))


# Stories


def play_story(
    name: str,
    run: str,
    designs: Designs,
    side: Side,
    *,
    goes_on: bool = False,
    trace_level: TraceLevel = TraceLevel.OFF,
) -> tuple[RunResult, tuple[str, ...]]:
    """Play a run of a story on one side; returns its result, and what plug-ins have raised.

    Args:
        name: The story, as ``txnsim scenario`` finds it.
        run: Its run.
        designs: The two designs.
        side: The one that is played.
        goes_on: Whether the run goes on where something else comes than the story expects.
        trace_level: How much is traced.
    """
    design = designs.side(side)
    story_of_side = design.scenario(stories.find(name)[1], run)
    with design.in_place() as failures:
        run_result = run_in_virtual_time(
            ScenarioRun(scenario=story_of_side, run=run, take=ARMED, goes_on=goes_on),
            trace_level=trace_level,
        )
    return run_result, failures.texts()


def story_pair(name: str, run: str, designs: Designs) -> Pair:
    """Play a run of a story on both sides. Where it comes to its end on one side alone, it is
    played on the other without its expectations, and judged: a design that is answered otherwise
    may have brought an anomaly by that. Without an end on either side there is nothing to compare.
    """
    a, b = (_story_side(name, run, designs, side) for side in Side)
    if a.remark and not b.remark:
        a = _play_parted_side(name, run, designs, Side.A, a)
    elif b.remark and not a.remark:
        b = _play_parted_side(name, run, designs, Side.B, b)
    return Pair(source=Source.STORY, name=name, run=run, a=a, b=b)


def _story_side(name: str, run: str, designs: Designs, side: Side) -> SideResult:
    try:
        run_result, failures = play_story(name, run, designs, side)
    except ConfigError as error:
        return SideResult(remark=str(error))
    if FAILED_VERDICT in run_result.verdict.observed:
        return SideResult(
            remark=f"it did not come to its end: {run_result.verdict.because[0]}", failures=failures
        )
    return SideResult(sightings=sightings_of_story(run_result.verdict), failures=failures)


def _play_parted_side(
    name: str, run: str, designs: Designs, side: Side, failed_side: SideResult
) -> SideResult:
    """The side on which a story went another way, played on without its expectations."""
    try:
        run_result, failures = play_story(name, run, designs, side, goes_on=True)
    except ConfigError:
        return failed_side
    if not run_result.mismatches or FAILED_VERDICT in run_result.verdict.observed:
        return failed_side
    return SideResult(
        sightings=sightings_of_story(run_result.verdict),
        other_way=run_result.mismatches[0],
        failures=tuple(dict.fromkeys((*failed_side.failures, *failures))),
    )


def sightings_of_story(judges_result: JudgesResult) -> dict[str, Sighting]:
    """What the judges found in a run of a story: the first finding of each kind."""
    return _sighting_by_kind(_findings_of(judges_result))


def _findings_of(judges_result: JudgesResult) -> Iterator[Finding]:
    """What a story has shown: each kind with its reasons."""
    reason_parts = [reason.partition(": ") for reason in judges_result.because]
    for observed_kind in judges_result.observed:
        reason_texts = [text for kind, _, text in reason_parts if kind == observed_kind]
        yield from (Finding(observed_kind, text) for text in reason_texts or ("",))


# Explorations


def play_way(
    name: str,
    way: Way,
    designs: Designs,
    side: Side,
    *,
    trace_level: TraceLevel = TraceLevel.OFF,
) -> tuple[ReplayedWay, tuple[str, ...]]:
    """Play one way on one side; returns the run, and what plug-ins have raised in it."""
    design = designs.side(side)
    with design.in_place() as failures:
        replayed = replay(design.exploration(explorations.find(name)), way, trace_level=trace_level)
    return replayed, failures.texts()


def exploration_pair(
    name: str,
    designs: Designs,
    *,
    lane_count: int,
    deviations_max: int,
    seconds_max: float | None,
) -> Pair:
    """Search an exploration on both sides. They are compared up to the number of deviations that
    was searched to its end on both: what one search has not reached yet is no cure.

    Args:
        name: What is explored, as ``txnsim explore`` finds it.
        designs: The two designs.
        lane_count: How many processes search at once.
        deviations_max: How often something else may happen than on a quiet network.
        seconds_max: When to stop the search on each side; None for never.
    """
    exploration = explorations.find(name)
    exploration_results: list[ExplorationResult] = []
    texts_by_side: list[tuple[str, ...]] = []
    for side in Side:
        design = designs.side(side)
        with design.in_place() as side_failures:
            exploration_result = explore(
                design.exploration(exploration),
                lane_count=lane_count,
                seconds_max=seconds_max,
                deviations_max=deviations_max,
                goes_on=True,
                name_of=kind_of,
            )
        exploration_results.append(exploration_result)
        texts_by_side.append((*side_failures.texts(), *_missing_ways(exploration_result)))
    compared_deviations = min(
        _searched_deviations(exploration_result, deviations_max)
        for exploration_result in exploration_results
    )
    a, b = (
        _side_of_search(exploration_result, compared_deviations, deviations_max, failure_texts)
        for exploration_result, failure_texts in zip(
            exploration_results, texts_by_side, strict=True
        )
    )
    return Pair(source=Source.EXPLORE, name=name, a=a, b=b)


def _missing_ways(result: ExplorationResult) -> Iterator[str]:
    broken_count = max((search.broken for _, search in result.searches), default=0)
    if broken_count:
        count_text = "once" if broken_count == 1 else f"{broken_count} times"
        yield f"{result.name}: the process ended without a result, {count_text}"


def _searched_deviations(result: ExplorationResult, deviations_max: int) -> int:
    """Up to how many deviations a search has followed all ways; -1 if not even the quiet one."""
    deviation_limits = [
        deviation_limit
        for deviation_limit, search in result.searches
        if deviation_limit is not None and not search.is_stopped and not search.broken
    ]
    if result.is_complete:
        return deviations_max  # No way has more deviations than were searched.
    return max(deviation_limits, default=-1)


def _side_of_search(
    result: ExplorationResult,
    compared_deviations: int,
    deviations_max: int,
    failure_texts: tuple[str, ...],
) -> SideResult:
    sightings: dict[str, Sighting] = {}
    for anomaly in sorted(result.anomalies, key=lambda anomaly: len(anomaly.way)):
        if len(anomaly.way) > compared_deviations:
            continue
        for finding in anomaly.findings:
            sighting = Sighting(
                because=finding.because,
                way=text_of_way(anomaly.way),
                deviations=len(anomaly.way),
                steps=anomaly.steps,
                deviating_steps=anomaly.deviating_steps,
                ends=anomaly.ends,
            )
            sightings.setdefault(kind_of(finding), sighting)
    searched_deviations = _searched_deviations(result, deviations_max)
    is_complete = searched_deviations >= deviations_max
    return SideResult(
        sightings=sightings,
        is_complete=is_complete,
        remark="" if is_complete else _remark_on(result, searched_deviations, compared_deviations),
        states=0 if result.largest is None else result.largest.states,
        failures=failure_texts,
    )


def _remark_on(
    result: ExplorationResult, searched_deviations: int, compared_deviations: int
) -> str:
    is_broken = any(search.broken for _, search in result.searches)
    reason = "processes ended early" if is_broken else "its time was up"
    if searched_deviations < 0:
        return f"{reason} before anything was searched to its end: nothing is compared"
    return (
        f"{reason} behind all ways with {searched_deviations} deviations; compared are"
        " those with up to"
        f" {compared_deviations}"
    )
