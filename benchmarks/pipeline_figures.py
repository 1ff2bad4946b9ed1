"""What the pipeline is measured by: its figures, what each is held against, and the table. Pure.

A ratio says how many times the rate of the figure it is held against a figure has, both from one
run. Rates are in megabytes (10^6 bytes of log) per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.report import Spread, number_text, spread

BYTES_PER_MEGABYTE: Final = 1e6

DUMP_KEY: Final = "dump"
FRAGMENTS_KEY: Final = "fragments"
BATCHES_KEY: Final = "batches"
WHOLE_BATCHES_KEY: Final = "batches.whole"
KERNEL_KEY: Final = "kernel"
KERNEL_BATCHES_KEY: Final = "kernel.batches"
WALK_KEY: Final = "walk"
LARGE_READ_KEY: Final = "large.read"
LARGE_WALK_KEY: Final = "large.walk"
LARGE_SPARK_KEY: Final = "large.spark"
SESSION_KEY: Final = "session"
FIRST_SEARCH_KEY: Final = "search.first"
SEARCH_KEY: Final = "search"
WORKER_KEY: Final = "worker"


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The bound of a figure: a least ratio, a least value or an upper limit."""

    ratio_min: float | None = None
    least: float | None = None
    below: float | None = None

    @property
    def text(self) -> str:
        """The bound as the table shows it."""
        if self.ratio_min is not None:
            return f"≥ {self.ratio_min:g}×"
        return f"≥ {self.least:g}" if self.least is not None else f"< {self.below:g}"


class PipelineFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of the table: its key, its unit, and its goals."""

    key: str
    title: str
    unit: str
    against: str | None = None
    """Key of the figure that it is compared with."""
    goal: Goal | None = None


class MeasuredFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as measured."""

    figure: PipelineFigure
    spread: Spread
    ratio: float | None
    met: bool | None
    """None where there is no goal, or nothing to judge by."""


FIGURES: Final = (
    PipelineFigure(
        key=DUMP_KEY,
        title="kafka-dump-log, shallow, its start subtracted",
        unit="MB/s per core",
    ),
    PipelineFigure(
        key=FRAGMENTS_KEY,
        title="table fragments in Spark",
        unit="MB/s per core",
        against=DUMP_KEY,
        goal=Goal(ratio_min=20.0),
    ),
    PipelineFigure(
        key=BATCHES_KEY,
        title="table batches in Spark, what kafka-dump-log prints",
        unit="MB/s per core",
        against=DUMP_KEY,
        goal=Goal(ratio_min=8.0),
    ),
    PipelineFigure(
        key=WHOLE_BATCHES_KEY,
        title="table batches in Spark, all columns",
        unit="MB/s per core",
        against=DUMP_KEY,
    ),
    PipelineFigure(
        key=KERNEL_KEY,
        title="kernel alone, fragments",
        unit="MB/s per core",
        goal=Goal(least=500.0),
    ),
    PipelineFigure(
        key=KERNEL_BATCHES_KEY,
        title="kernel alone, a row per batch",
        unit="MB/s per core",
        goal=Goal(least=500.0),
    ),
    PipelineFigure(
        key=WALK_KEY, title="walk over files, fragments, without Spark", unit="MB/s per core"
    ),
    PipelineFigure(key=LARGE_READ_KEY, title="64 kB batches: reading the file", unit="MB/s"),
    PipelineFigure(
        key=LARGE_WALK_KEY,
        title="64 kB batches: walking over it, fragments",
        unit="MB/s",
        against=LARGE_READ_KEY,
        goal=Goal(ratio_min=0.9),
    ),
    PipelineFigure(
        key=LARGE_SPARK_KEY, title="64 kB batches: table fragments in Spark", unit="MB/s"
    ),
    PipelineFigure(key=SESSION_KEY, title="Spark session", unit="s"),
    PipelineFigure(
        key=FIRST_SEARCH_KEY,
        title="find-hanging, right after the session's start",
        unit="s",
        goal=Goal(below=10.0),
    ),
    PipelineFigure(key=SEARCH_KEY, title="find-hanging, again", unit="s"),
    PipelineFigure(key=WORKER_KEY, title="largest memory of a Python worker", unit="MB"),
)

Samples = Mapping[str, Sequence[float]]
"""Key -> one value per round."""


def mb_per_s(size: int, seconds: float, *, core_count: int = 1) -> float:
    """Megabytes per second (and core)."""
    return size / BYTES_PER_MEGABYTE / seconds / core_count


def without_start(total_s: float, start_s: float) -> float:
    """Seconds of work of a process that needs ``start_s`` for doing next to nothing.

    Raises:
        ValueError: Nothing is left: the work was too little to be measured.
    """
    if total_s <= start_s:
        raise ValueError(
            f"{total_s:.2f} s in all, {start_s:.2f} s of them the start: too little work"
        )
    return total_s - start_s


def rows(samples: Samples) -> list[MeasuredFigure]:
    """A row for each figure that has samples."""
    measured_figures = []
    for figure in FIGURES:
        if not samples.get(figure.key):
            continue
        own_spread = spread(samples[figure.key])
        ratio = _ratio(figure, own_spread, samples)
        measured_figures.append(
            MeasuredFigure(
                figure=figure,
                spread=own_spread,
                ratio=ratio,
                met=_verdict(figure, own_spread.median, ratio),
            )
        )
    return measured_figures


def _ratio(figure: PipelineFigure, own_spread: Spread, samples: Samples) -> float | None:
    baseline = samples.get(figure.against) if figure.against is not None else None
    return own_spread.median / spread(baseline).median if baseline else None


def _verdict(figure: PipelineFigure, value: float, ratio: float | None) -> bool | None:
    goal = figure.goal
    if goal is None:
        return None
    if goal.ratio_min is not None:
        return None if ratio is None else ratio >= goal.ratio_min
    if goal.least is not None:
        return value >= goal.least
    return goal.below is not None and value < goal.below


_MARKS: Final = {None: "", True: "met", False: "MISSED"}


def table(rows: Sequence[MeasuredFigure]) -> str:
    """A table in Markdown, for people and for the page alike."""
    lines = ["| figure | unit | median (range) | × | target | |", "|---|---|---|---|---|---|"]
    for row in rows:
        ratio_text = "" if row.ratio is None else f"{row.ratio:.3g}"
        goal_text = "" if row.figure.goal is None else row.figure.goal.text
        cells = (
            row.figure.title,
            row.figure.unit,
            _text(row.spread),
            ratio_text,
            goal_text,
            _MARKS[row.met],
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _text(spread: Spread) -> str:
    if len(spread.samples) == 1:
        return number_text(spread.median)
    return f"{number_text(spread.median)} ({number_text(spread.least)}–{number_text(spread.most)})"


_BEGIN: Final = "<!-- measured: python -m benchmarks.pipeline --write -->\n"
_END: Final = "<!-- end of what was measured -->\n"


def replace_section(page: str, section: str) -> str:
    """A page with what was measured in its place.

    Raises:
        ValueError: The page has no place for it.
    """
    head, begin, tail_text = page.partition(_BEGIN)
    _, end, tail = tail_text.partition(_END)
    if not begin or not end:
        raise ValueError("the page has no place for what was measured")
    return f"{head}{begin}\n{section.rstrip()}\n\n{end}{tail}"


# Cost against size


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a search of a log of this size costs."""

    bytes: int
    seconds: float
    worker_mb: float
    """Largest memory of a Python worker during it."""


def cost_table(costs: Sequence[Cost]) -> str:
    """A table in Markdown."""
    lines = ["| log | seconds | MB/s | largest worker |", "|---|---|---|---|"]
    for cost in costs:
        lines.append(
            f"| {cost.bytes / BYTES_PER_MEGABYTE:,.0f} MB | {number_text(cost.seconds)} |"
            f" {mb_per_s(cost.bytes, cost.seconds):,.0f} | {cost.worker_mb:,.0f} MB |"
        )
    return "\n".join(lines) + "\n"
