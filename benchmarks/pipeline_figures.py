"""What the pipeline is measured by: its figures, what each is held against, and the table. Pure.

A ratio says how many times the rate of the figure it is held against a figure has, both from one
run. Rates are in megabytes (10^6 bytes of log) per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.report import Spread, number, spread

MEGA: Final = 1e6

DUMP: Final = "dump"
FRAGMENTS: Final = "fragments"
BATCHES: Final = "batches"
BATCHES_WHOLE: Final = "batches.whole"
KERNEL: Final = "kernel"
KERNEL_BATCHES: Final = "kernel.batches"
WALK: Final = "walk"
READ: Final = "large.read"
LARGE_WALK: Final = "large.walk"
LARGE_SPARK: Final = "large.spark"
SESSION: Final = "session"
FIRST_SEARCH: Final = "search.first"
SEARCH: Final = "search"
WORKER_MB: Final = "worker"


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure is held to: one of three."""

    ratio_min: float | None = None
    least: float | None = None
    below: float | None = None

    @property
    def text(self) -> str:
        """For the table."""
        if self.ratio_min is not None:
            return f"≥ {self.ratio_min:g}×"
        return f"≥ {self.least:g}" if self.least is not None else f"< {self.below:g}"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    key: str
    title: str
    unit: str
    against: str | None = None
    """Key of the figure that it is compared with."""
    goal: Goal | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as measured."""

    figure: Figure
    spread: Spread
    ratio: float | None
    met: bool | None
    """None where there is no goal, or nothing to judge by."""


FIGURES: Final = (
    Figure(
        key=DUMP,
        title="kafka-dump-log, shallow, its start subtracted",
        unit="MB/s per core",
    ),
    Figure(
        key=FRAGMENTS,
        title="table fragments in Spark",
        unit="MB/s per core",
        against=DUMP,
        goal=Goal(ratio_min=20.0),
    ),
    Figure(
        key=BATCHES,
        title="table batches in Spark, what kafka-dump-log prints",
        unit="MB/s per core",
        against=DUMP,
        goal=Goal(ratio_min=8.0),
    ),
    Figure(
        key=BATCHES_WHOLE,
        title="table batches in Spark, all columns",
        unit="MB/s per core",
        against=DUMP,
    ),
    Figure(
        key=KERNEL,
        title="kernel alone, fragments",
        unit="MB/s per core",
        goal=Goal(least=500.0),
    ),
    Figure(
        key=KERNEL_BATCHES,
        title="kernel alone, a row per batch",
        unit="MB/s per core",
        goal=Goal(least=500.0),
    ),
    Figure(key=WALK, title="walk over files, fragments, without Spark", unit="MB/s per core"),
    Figure(key=READ, title="64 kB batches: reading the file", unit="MB/s"),
    Figure(
        key=LARGE_WALK,
        title="64 kB batches: walking over it, fragments",
        unit="MB/s",
        against=READ,
        goal=Goal(ratio_min=0.9),
    ),
    Figure(key=LARGE_SPARK, title="64 kB batches: table fragments in Spark", unit="MB/s"),
    Figure(key=SESSION, title="Spark session", unit="s"),
    Figure(
        key=FIRST_SEARCH,
        title="find-hanging, right after the session's start",
        unit="s",
        goal=Goal(below=10.0),
    ),
    Figure(key=SEARCH, title="find-hanging, again", unit="s"),
    Figure(key=WORKER_MB, title="largest memory of a Python worker", unit="MB"),
)

Samples = Mapping[str, Sequence[float]]
"""Key -> one value per round."""


def rate(size: int, seconds: float, *, cores: int = 1) -> float:
    """Megabytes per second (and core)."""
    return size / MEGA / seconds / cores


def without_start(whole: float, start: float) -> float:
    """Seconds of work of a process that needs ``start`` for doing next to nothing.

    Raises:
        ValueError: Nothing is left: the work was too little to be measured.
    """
    if whole <= start:
        raise ValueError(f"{whole:.2f} s in all, {start:.2f} s of them the start: too little work")
    return whole - start


def rows(samples: Samples) -> list[Row]:
    """One for each figure that there are samples of."""
    made = []
    for figure in FIGURES:
        if not samples.get(figure.key):
            continue
        own = spread(samples[figure.key])
        times = _ratio(figure, own, samples)
        made.append(
            Row(figure=figure, spread=own, ratio=times, met=_verdict(figure, own.median, times))
        )
    return made


def _ratio(figure: Figure, own: Spread, samples: Samples) -> float | None:
    other = samples.get(figure.against) if figure.against is not None else None
    return own.median / spread(other).median if other else None


def _verdict(figure: Figure, value: float, ratio: float | None) -> bool | None:
    goal = figure.goal
    if goal is None:
        return None
    if goal.ratio_min is not None:
        return None if ratio is None else ratio >= goal.ratio_min
    if goal.least is not None:
        return value >= goal.least
    return goal.below is not None and value < goal.below


_MARKS: Final = {None: "", True: "met", False: "MISSED"}


def table(made: Sequence[Row]) -> str:
    """A table in Markdown, for people and for the page alike."""
    lines = ["| figure | unit | median (range) | × | target | |", "|---|---|---|---|---|---|"]
    for row in made:
        times = "" if row.ratio is None else f"{row.ratio:.3g}"
        goal = "" if row.figure.goal is None else row.figure.goal.text
        cells = (row.figure.title, row.figure.unit, _text(row.spread), times, goal, _MARKS[row.met])
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _text(own: Spread) -> str:
    if len(own.samples) == 1:
        return number(own.median)
    return f"{number(own.median)} ({number(own.least)}–{number(own.most)})"


_BEGIN: Final = "<!-- measured: python -m benchmarks.pipeline --write -->\n"
_END: Final = "<!-- end of what was measured -->\n"


def on_page(page: str, measured: str) -> str:
    """A page with what was measured in its place.

    Raises:
        ValueError: The page has no place for it.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError("the page has no place for what was measured")
    return f"{before}{begin}\n{measured.rstrip()}\n\n{end}{after}"


# Cost against size


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """A search of so much of a log."""

    bytes: int
    seconds: float
    worker_mb: float
    """Largest memory of a Python worker during it."""


def cost_table(costs: Sequence[Cost]) -> str:
    """A table in Markdown."""
    lines = ["| log | seconds | MB/s | largest worker |", "|---|---|---|---|"]
    for cost in costs:
        lines.append(
            f"| {cost.bytes / MEGA:,.0f} MB | {number(cost.seconds)} |"
            f" {rate(cost.bytes, cost.seconds):,.0f} | {cost.worker_mb:,.0f} MB |"
        )
    return "\n".join(lines) + "\n"
