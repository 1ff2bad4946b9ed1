"""The time line of a partition as SVG: a bar per transaction, and lanes for those that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final
from xml.etree.ElementTree import Element

import msgspec

from txnsim.pipeline.report_page.elements import element

WIDTH: Final = 1_000
LANES_MAX: Final = 12
"""Bars that have no room are drawn over those of the last lane; the table has all of them."""
_LANE: Final = 16
_BAR: Final = 12
_BAR_MIN: Final = 3
"""So wide is a bar at least, however short its transaction was."""
_AXIS: Final = 22


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction on a partition."""

    kind: str
    """committed, aborted, hanging, or open: its colour, by the style sheet."""
    from_ms: int
    to_ms: int
    label: str
    """For people: shown where somebody points at it."""


def time_line(name: str, bars: Sequence[Bar]) -> Element:
    """Draw it.

    Args:
        name: Of the partition.
        bars: In any order; one at least.
    """
    first_ms = min(min(one.from_ms, one.to_ms) for one in bars)
    last_ms = max(max(one.from_ms, one.to_ms) for one in bars)
    span_ms = max(1, last_ms - first_ms)
    lanes = list(in_lanes(bars, gap_ms=span_ms * (_BAR_MIN + 1) // WIDTH))
    height = (1 + max(lane for lane, _ in lanes)) * _LANE
    made = element(
        "svg",
        element("title", f"{name}: {len(bars)} transactions"),
        viewBox=f"0 0 {WIDTH} {height + _AXIS}",
        role="img",
    )
    for lane, bar in lanes:
        start_ms = min(bar.from_ms, bar.to_ms)  # a producer's clock may be ahead of its broker's
        left = (start_ms - first_ms) * WIDTH / span_ms
        width = max(_BAR_MIN, abs(bar.to_ms - bar.from_ms) * WIDTH / span_ms)
        made.append(
            element(
                "rect",
                element("title", bar.label),
                class_=bar.kind,
                x=min(left, WIDTH - width),
                y=lane * _LANE + (_LANE - _BAR) // 2,
                width=width,
                height=_BAR,
                rx=2,
            )
        )
    made.append(element("line", class_="axis", x1=0, x2=WIDTH, y1=height, y2=height))
    ends = ((0, "start", first_ms), (WIDTH // 2, "middle", first_ms + span_ms // 2))
    for at, anchor, when_ms in (*ends, (WIDTH, "end", last_ms)):
        made.append(element("text", time_text(when_ms), x=at, y=height + 16, text_anchor=anchor))
    return made


def in_lanes(bars: Iterable[Bar], *, gap_ms: int) -> Iterable[tuple[int, Bar]]:
    """Each bar with its lane: the first one in which so much lies between it and the bar before."""
    free_from: list[int] = []
    for bar in sorted(bars, key=lambda one: min(one.from_ms, one.to_ms)):
        start_ms, end_ms = sorted((bar.from_ms, bar.to_ms))
        free = (lane for lane, until_ms in enumerate(free_from) if until_ms <= start_ms)
        lane = next(free, min(len(free_from), LANES_MAX - 1))
        if lane == len(free_from):
            free_from.append(0)
        free_from[lane] = max(free_from[lane], end_ms + gap_ms)
        yield lane, bar


def time_text(time_ms: int) -> str:
    """To the millisecond, in UTC."""
    moment = datetime.fromtimestamp(time_ms / 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1_000:03d}Z"
