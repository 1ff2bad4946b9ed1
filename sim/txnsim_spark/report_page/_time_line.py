"""The time line of a partition as SVG: a bar per transaction, and lanes for those that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from txnsim_spark.report_page.rendering import rendered

WIDTH: Final = 1_000
LANES_MAX: Final = 12
"""Bars that have no room are drawn over those of the last lane; the table has all of them."""
_LANE: Final = 16
_BAR_MIN: Final = 3
"""So wide is a bar at least, however short its transaction was."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction on a partition."""

    kind: str
    """committed, aborted, hanging, or open: its colour, by the style sheet."""
    from_ms: int
    to_ms: int
    label: str
    """For people: shown where somebody points at it."""


def time_line(name: str, bars: Sequence[Bar]) -> str:
    """Draw it.

    Args:
        name: Of the partition.
        bars: In any order; one at least.
    """
    first_ms = min(min(one.from_ms, one.to_ms) for one in bars)
    last_ms = max(max(one.from_ms, one.to_ms) for one in bars)
    span_ms = max(1, last_ms - first_ms)
    lanes = list(in_lanes(bars, gap_ms=span_ms * (_BAR_MIN + 1) // WIDTH))
    rects = []
    for lane, bar in lanes:
        start_ms = min(bar.from_ms, bar.to_ms)  # a producer's clock may be ahead of its broker's
        left = (start_ms - first_ms) * WIDTH / span_ms
        width = max(_BAR_MIN, abs(bar.to_ms - bar.from_ms) * WIDTH / span_ms)
        rects.append((min(left, WIDTH - width), lane * _LANE + 2, width, bar))
    return rendered(
        "time_line.svg",
        name=name,
        width=WIDTH,
        height=(1 + max(lane for lane, _ in lanes)) * _LANE,
        rects=rects,
        ticks=(
            (0, "start", first_ms),
            (WIDTH // 2, "middle", first_ms + span_ms // 2),
            (WIDTH, "end", last_ms),
        ),
    )


def in_lanes(bars: Iterable[Bar], *, gap_ms: int) -> Iterable[tuple[int, Bar]]:
    """Each bar with its lane, the first with ``gap_ms`` since the previous bar."""
    free_from: list[int] = []
    for bar in sorted(bars, key=lambda one: min(one.from_ms, one.to_ms)):
        start_ms, end_ms = sorted((bar.from_ms, bar.to_ms))
        free = (lane for lane, until_ms in enumerate(free_from) if until_ms <= start_ms)
        lane = next(free, min(len(free_from), LANES_MAX - 1))
        if lane == len(free_from):
            free_from.append(0)
        free_from[lane] = max(free_from[lane], end_ms + gap_ms)
        yield lane, bar
