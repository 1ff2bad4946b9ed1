"""The explanations at each moment of a trace, computed in advance for a page in a file, which can't
ask for them. They equal those of ``explain`` at that event. Only the moments at which they change
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.explain import LsoExplanation, Mismatch, lso_of, mismatches, places
from txnsim_lab.trace.faults_and_decisions import Remembered
from txnsim_lab.trace.state import ASSIGNED, TraceState

ANSWERS_MAX: Final = 100_000
"""Limit of partitions times events that are explained, which takes some seconds; the last events
are taken.
"""

TOLD_EVERY: Final = 10_000
"""Number of events between reports of progress, which take about a tenth of a second."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The explanations from one event until the next moment."""

    at: int
    """Position of the event."""
    partitions: tuple[LsoExplanation, ...]
    open: tuple[Mismatch, ...]


def moments(
    run: Recording,
    *,
    tell: Callable[[int, int], object] = lambda _so, _of: None,
) -> Iterator[Moment]:
    """Moments at which the explanations of ``places`` change."""
    nodes = run.nodes
    named = {tp for event in run.events if (tp := _partition(event.d)) is not None}
    begin = len(run.events) - ANSWERS_MAX // max(1, len(named))
    state = TraceState(level=run.level)
    remembered = Remembered()
    last_standing: tuple[tuple[LsoExplanation, ...], tuple[Mismatch, ...]] | None = None
    for index, event in enumerate(run.events):
        if index % TOLD_EVERY == 0 and index:
            tell(index, len(run.events))
        state.follow(event, nodes)
        remembered.follow(event)
        if index < begin or event.k not in ASSIGNED:
            continue
        open_ones = tuple(mismatches(state, remembered))
        standing = (
            tuple(
                lso_of(state, name, at=event.i, remembered=remembered)
                for name in places(state, open_ones)
            ),
            open_ones,
        )
        if last_standing is None or _without_position(standing) != _without_position(last_standing):
            yield Moment(at=event.i, partitions=standing[0], open=standing[1])
            last_standing = standing


def _without_position(
    standing: tuple[tuple[LsoExplanation, ...], tuple[Mismatch, ...]],
) -> tuple[object, ...]:
    return tuple(
        msgspec.structs.replace(explanation, at=0) for explanation in standing[0]
    ), standing[1]


def _partition(data: object) -> str | None:
    if not isinstance(data, dict):
        return None
    tp = data.get("tp")
    return tp if isinstance(tp, str) and not tp.startswith("__") else None
