"""Plays one exploration, story or seed on both designs, each in turn and in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.exploration.deepening import explore
from txnsim_lab.exploration.model import Exploration
from txnsim_lab.exploration.search import ReplayedWay, replay
from txnsim_lab.exploration.way import Way, text_of_way
from txnsim_lab.referee.design import Design
from txnsim_lab.referee.plugin import PluginFailures
from txnsim_lab.referee.verdict import Pair, Side, SideResult, Sighting, Source
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import FAILED_VERDICT, RunResult, ScenarioRun, run_in_virtual_time
from txnsim_lab.simulation.drawing import SimulationOptions, draw
from txnsim_lab.simulation.plan import Plan
from txnsim_lab.simulation.play import OVER_LIMIT_KIND, Finding, PlayedAct, PlayedRun, play

CPU_S_MAX: Final = 60.0
"""Limit of processor time of a seed on one side; an ordinary one takes less than a second."""
ARMED: Final = "armed"


class Designs(msgspec.Struct, frozen=True):
    """The two designs of a match."""

    a: Design
    b: Design

    def side(self, side: Side) -> Design:
        """One of them."""
        return self.a if side is Side.A else self.b


# Seeds


def plan_of_seed(seed: int, designs: Designs, side: Side) -> Plan:
    """The plan of a seed: drawn for the release of A, and played on either side."""
    drawn_plan = draw(seed, SimulationOptions(as_version=designs.a.as_version))
    return designs.side(side).plan(drawn_plan)


def play_seed(
    seed: int, designs: Designs, side: Side, *, trace_level: TraceLevel = TraceLevel.OFF
) -> tuple[PlayedRun, tuple[str, ...]]:
    """Play a seed on one side; returns the run, and what plug-ins have raised in it."""
    failures = PluginFailures()
    with designs.side(side).in_place(failures.note):
        played = play(plan_of_seed(seed, designs, side), trace_level=trace_level, cpu_s=CPU_S_MAX)
    return played, failures.texts()


def seed_pair(seed: int, designs: Designs) -> Pair:
    """Play a seed on both sides."""
    results = []
    for side in Side:
        played, failures = play_seed(seed, designs, side)
        is_over = OVER_LIMIT_KIND in played.kinds
        results.append(
            SideResult(
                sightings={} if is_over else _sightings(played.findings),
                is_complete=not is_over,
                remark=played.findings[0].because if is_over else "",
                refusals=_refusals(played.acts),
                commits=sum(act.error == "NONE" for act in played.acts if _is_commit(act)),
                failures=failures,
            )
        )
    return Pair(source=Source.SEED, name=str(seed), a=results[0], b=results[1])


def _sightings(findings: Iterable[Finding]) -> dict[str, Sighting]:
    """The first finding of each kind."""
    sightings: dict[str, Sighting] = {}
    for finding in findings:
        sightings.setdefault(finding.kind, Sighting(because=finding.because))
    return sightings


def _is_commit(act: PlayedAct) -> bool:
    return bool(act.step.get("call", {}).get("do") == "commit")


def _refusals(acts: Iterable[PlayedAct]) -> dict[str, int]:
    errors = Counter(act.error for act in acts if _is_commit(act) and act.error != "NONE")
    return dict(sorted(errors.items()))


# Stories


def play_story(
    scenario: Scenario,
    run: str,
    designs: Designs,
    side: Side,
    *,
    trace_level: TraceLevel = TraceLevel.OFF,
) -> tuple[RunResult, tuple[str, ...]]:
    """Play a run of a story on one side; returns its result, and what plug-ins have raised."""
    failures = PluginFailures()
    design = designs.side(side)
    story_of_side = design.scenario(scenario, run)
    with design.in_place(failures.note):
        result = run_in_virtual_time(
            ScenarioRun(scenario=story_of_side, run=run, take=ARMED), trace_level=trace_level
        )
    return result, failures.texts()


def story_pair(scenario: Scenario, run: str, designs: Designs) -> Pair:
    """Play a run of a story on both sides. A story that can't be told to its end under one design
    is no difference: what it waits for may be what the design prevents.
    """
    results = []
    for side in Side:
        try:
            result, failures = play_story(scenario, run, designs, side)
        except ConfigError as error:
            results.append(SideResult(remark=str(error)))
            continue
        is_failed = FAILED_VERDICT in result.verdict.observed
        reasons = dict(reason.partition(": ")[::2] for reason in reversed(result.verdict.because))
        results.append(
            SideResult(
                sightings={}
                if is_failed
                else {
                    kind: Sighting(because=reasons.get(kind, ""))
                    for kind in result.verdict.observed
                },
                remark=f"not told to its end: {result.verdict.because[0]}" if is_failed else "",
                failures=failures,
            )
        )
    if any(result.remark for result in results):
        # Without a verdict on one side the other has nothing to be compared with.
        results = [msgspec.structs.replace(result, sightings={}) for result in results]
    return Pair(source=Source.STORY, name=scenario.name, run=run, a=results[0], b=results[1])


# Explorations


def play_way(
    exploration: Exploration,
    way: Way,
    designs: Designs,
    side: Side,
    *,
    trace_level: TraceLevel = TraceLevel.OFF,
) -> tuple[ReplayedWay, tuple[str, ...]]:
    """Play one way on one side; returns the run, and what plug-ins have raised in it."""
    failures = PluginFailures()
    design = designs.side(side)
    with design.in_place(failures.note):
        replayed = replay(design.exploration(exploration), way, trace_level=trace_level)
    return replayed, failures.texts()


def exploration_pair(
    exploration: Exploration,
    designs: Designs,
    *,
    lanes: int,
    deviations_max: int,
    seconds_max: float | None,
) -> Pair:
    """Search an exploration on both sides.

    Args:
        exploration: What is explored.
        designs: The two designs.
        lanes: How many processes search at once.
        deviations_max: How often something else may happen than on a quiet network.
        seconds_max: When to stop the search on each side; None for never.
    """
    results = []
    for side in Side:
        failures = PluginFailures()
        design = designs.side(side)
        with design.in_place(failures.note):
            result = explore(
                design.exploration(exploration),
                lanes=lanes,
                seconds_max=seconds_max,
                deviations_max=deviations_max,
                goes_on=True,
            )
        is_stopped = not result.searches or result.largest.is_stopped
        broken = sum(search.broken for _, search in result.searches)
        remark = "its time was up" if is_stopped else ""
        if broken:
            remark = f"{broken} ways ended without a result"
        sightings: dict[str, Sighting] = {}
        for anomaly in sorted(result.anomalies, key=lambda anomaly: len(anomaly.way)):
            for kind in anomaly.kinds:
                sighting = Sighting(
                    because=anomaly.because,
                    way=text_of_way(anomaly.way),
                    deviations=len(anomaly.way),
                    steps=anomaly.steps,
                    ends=anomaly.ends,
                )
                sightings.setdefault(kind, sighting)
        results.append(
            SideResult(
                sightings=sightings,
                is_complete=not (is_stopped or broken),
                remark=remark,
                states=result.largest.states if result.searches else 0,
                failures=failures.texts(),
            )
        )
    return Pair(source=Source.EXPLORE, name=exploration.name, a=results[0], b=results[1])
