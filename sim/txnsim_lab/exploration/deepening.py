"""Explores: first all ways with no deviation from a quiet network, then with one, two and three,
then all. So the first way to an anomaly that is found is one with the fewest deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from txnsim.runtime.wall_clock import monotonic_ms
from txnsim_lab.exploration.model import Exploration
from txnsim_lab.exploration.search import FoundEnd, SearchResult, replay, search
from txnsim_lab.exploration.way import Way
from txnsim_lab.simulation.play import Finding

STEPWISE_LIMITS: Final = (0, 1, 2, 3, None)
"""Limits of deviations, one search after the other; None is no limit."""
SHORTENED_MAX: Final = 12
"""Ways with more deviations are not shortened: each try is a run."""

FindingName = Callable[[Finding], str]
"""What is told apart: findings of one name count as the same anomaly."""


def kind_name(finding: Finding) -> str:
    """The name of a finding's kind."""
    return finding.kind


LevelProgress = Callable[[int | None, dict[str, int], float], object]
"""Called with the limit of deviations, the counts and the seconds of this search."""


class AnomalyFound(msgspec.Struct, frozen=True, kw_only=True):
    """Anomalies that come together, with the shortest way to them."""

    kinds: tuple[str, ...]
    because: str
    ends: int
    """In how many ends of the search they were found."""
    way: Way
    steps: tuple[str, ...]
    """All that happens on that way, one step for each message that arrives."""
    deviating_steps: tuple[int, ...]
    """Indexes of the steps that do not happen on a quiet network."""
    findings: tuple[Finding, ...]
    """What is found at its end."""


class ExplorationResult(msgspec.Struct, frozen=True, kw_only=True):
    """All searches of one exploration, by their limits of deviations, and the anomalies found."""

    name: str
    searches: tuple[tuple[int | None, SearchResult], ...]
    """(limit of deviations, None for no limit) with the result of each search."""
    anomalies: tuple[AnomalyFound, ...]
    is_complete: bool
    """Whether every way within the bounds was followed."""

    @property
    def largest(self) -> SearchResult | None:
        """The last search, which has all states of those before; None if the time was over before
        the first.
        """
        return self.searches[-1][1] if self.searches else None


def explore(
    exploration: Exploration,
    *,
    lane_count: int = 1,
    seconds_max: float | None = None,
    deviations_max: int | None = None,
    goes_on: bool = False,
    name_of: FindingName = kind_name,
    progress: LevelProgress = lambda _limit, _counts, _seconds: None,
) -> ExplorationResult:
    """Search with more and more deviations, until an anomaly is found or all is searched.

    Args:
        exploration: What is explored.
        lane_count: How many processes search at once.
        seconds_max: When to stop; None for never.
        deviations_max: The most deviations; None for no limit.
        goes_on: Whether to search all even if an anomaly was found.
        name_of: Which findings are the same anomaly; each has its shortest way.
        progress: Told how far it is.
    """
    start_ms = monotonic_ms()
    searches: list[tuple[int | None, SearchResult]] = []
    all_found_ends: list[FoundEnd] = []
    limits = STEPWISE_LIMITS if deviations_max is None else range(deviations_max + 1)
    for limit in limits:
        seconds_left = (
            None if seconds_max is None else seconds_max - (monotonic_ms() - start_ms) / 1_000
        )
        if seconds_left is not None and seconds_left <= 0:
            break
        result = search(
            exploration,
            lane_count=lane_count,
            seconds_max=seconds_left,
            deviations_max=limit,
            progress=partial(progress, limit),
        )
        searches.append((limit, result))
        all_found_ends += result.found_ends
        if result.is_complete or result.is_stopped or (all_found_ends and not goes_on):
            break
    return ExplorationResult(
        name=exploration.name,
        searches=tuple(searches),
        anomalies=tuple(_anomalies(exploration, all_found_ends, name_of)),
        is_complete=bool(searches) and searches[-1][1].is_complete,
    )


def _anomalies(
    exploration: Exploration, all_found_ends: list[FoundEnd], name_of: FindingName
) -> list[AnomalyFound]:
    by_kinds: dict[tuple[str, ...], list[FoundEnd]] = {}
    for found_end in all_found_ends:
        by_kinds.setdefault(_names(found_end.findings, name_of), []).append(found_end)
    anomalies = []
    for kinds, found_ends in sorted(by_kinds.items()):
        way = min((found_end.way for found_end in found_ends), key=_length)
        shortest = replay(exploration, shorten(exploration, way, kinds, name_of))
        anomalies.append(
            AnomalyFound(
                kinds=kinds,
                because=next((finding.because for finding in shortest.played_run.findings), ""),
                ends=len({found_end.way for found_end in found_ends}),
                way=shortest.way,
                steps=shortest.steps,
                deviating_steps=shortest.deviating_steps,
                findings=shortest.played_run.findings,
            )
        )
    return anomalies


def _names(findings: Sequence[Finding], name_of: FindingName) -> tuple[str, ...]:
    return tuple(sorted({name_of(finding) for finding in findings}))


def _length(way: Way) -> tuple[int, int]:
    """Sort key of ways: fewer deviations first, then earlier choices."""
    return len(way), sum(deviation.choice_number for deviation in way)


def shorten(
    exploration: Exploration,
    way: Way,
    kinds: tuple[str, ...],
    name_of: FindingName = kind_name,
) -> Way:
    """Leave out what the anomalies do not need: without any one of the deviations that are left
    there are others, or none.
    """
    if len(way) > SHORTENED_MAX:
        return way
    for index in range(len(way)):
        shorter = replay(exploration, (*way[:index], *way[index + 1 :]))
        finding_names = _names(shorter.played_run.findings, name_of)
        if finding_names == kinds and len(shorter.way) < len(way):
            return shorten(exploration, shorter.way, kinds, name_of)
    return way
