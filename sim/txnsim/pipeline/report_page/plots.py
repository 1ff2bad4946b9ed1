"""Figures of log directories: how long transactions took, when they ended, what is withheld."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from txnsim.pipeline.figures import COLORS, figure
from txnsim.pipeline.forensics.findings import PartitionFigures
from txnsim.pipeline.report_page.lives import Lives

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BUCKETS: Final = 100
PARTITIONS_MAX: Final = 12
"""In the figure of what is withheld: those with most."""
_OUTCOMES: Final = {True: ("committed", COLORS[2]), False: ("aborted", COLORS[1])}
_POINTS_MAX: Final = 500
"""Of a curve."""


def plots(lives: Lives, figures: Sequence[PartitionFigures]) -> Iterator[tuple[str, bytes]]:
    """Title and SVG of each figure that has data.

    Args:
        lives: What ended.
        figures: Of partitions with an open transaction.
    """
    if any(lives.took_ms.values()):
        title = "From a transaction's first record on a partition to its marker"
        yield title, figure(title, lambda axes: _durations(axes, lives))
    if any(lives.ended_ms.values()):
        title = "Transactions that ended, by the times of their markers"
        yield title, figure(title, lambda axes: _over_time(axes, lives))
    withheld = [one for one in figures if one.lag > 0]
    if withheld:
        title = "High watermark − last stable offset"
        yield title, figure(title, lambda axes: _withheld(axes, withheld))


def _durations(axes: Axes, lives: Lives) -> None:
    for is_commit, (name, color) in _OUTCOMES.items():
        took_ms = np.sort(np.asarray(lives.took_ms[is_commit], dtype=np.int64))
        if len(took_ms):
            at = np.unique(np.linspace(0, len(took_ms) - 1, _POINTS_MAX).astype(np.int64))
            axes.plot(took_ms[at], (at + 1) / len(took_ms), color=color, label=name)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("share that takes no longer")


def _over_time(axes: Axes, lives: Lives) -> None:
    ended_ms = {one: np.asarray(lives.ended_ms[one], dtype=np.int64) for one in _OUTCOMES}
    together = np.concatenate(list(ended_ms.values()))
    edges = np.linspace(together.min(), together.max() + 1, BUCKETS + 1)
    below = np.zeros(BUCKETS)
    for is_commit, (name, color) in _OUTCOMES.items():
        counts, _ = np.histogram(ended_ms[is_commit], bins=edges)
        width = (edges[1] - edges[0]) / 1_000
        left = (edges[:-1] - edges[0]) / 1_000
        axes.bar(left, counts, width, bottom=below, align="edge", color=color, label=name)
        below += counts
    first = datetime.fromtimestamp(float(edges[0]) / 1_000, UTC)
    axes.set_xlabel(f"seconds since {first:%Y-%m-%dT%H:%M:%SZ}")
    axes.set_ylabel("transactions")


def _withheld(axes: Axes, figures: Sequence[PartitionFigures]) -> None:
    most = sorted(figures, key=lambda one: -one.lag)[:PARTITIONS_MAX]
    names = [f"{one.topic}-{one.partition}" for one in most]
    # A bar stands at its number, not at its label: equal labels would share one bar.
    bars = axes.barh(range(len(most)), [one.lag for one in most], color=COLORS[3])
    axes.set_yticks(range(len(most)), names, parse_math=False)
    axes.invert_yaxis()
    axes.bar_label(bars, fmt="%g")
    axes.set_xlabel("offsets that read_committed consumers do not get")
