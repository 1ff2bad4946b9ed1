"""What the pipeline is measured by: its figures, what each is held against, and the table. Pure.

A ratio says how many times the rate of the figure it is held against a figure has, both from one
run. Rates are in megabytes (10^6 bytes of log) per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.report import Spread, number_text, spread_of

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


class FigureGoal(msgspec.Struct, frozen=True, kw_only=True):
    """The bound of a figure: a least ratio, a least value or an upper limit."""

    ratio_min: float | None = None
    least: float | None = None
    below: float | None = None

    @property
    def text(self) -> str:
        """Write the bound as the table shows it."""
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
    goal: FigureGoal | None = None


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
        goal=FigureGoal(ratio_min=20.0),
    ),
    PipelineFigure(
        key=BATCHES_KEY,
        title="table batches in Spark, what kafka-dump-log prints",
        unit="MB/s per core",
        against=DUMP_KEY,
        goal=FigureGoal(ratio_min=8.0),
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
        goal=FigureGoal(least=500.0),
    ),
    PipelineFigure(
        key=KERNEL_BATCHES_KEY,
        title="kernel alone, a row per batch",
        unit="MB/s per core",
        goal=FigureGoal(least=500.0),
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
        goal=FigureGoal(ratio_min=0.9),
    ),
    PipelineFigure(
        key=LARGE_SPARK_KEY, title="64 kB batches: table fragments in Spark", unit="MB/s"
    ),
    PipelineFigure(key=SESSION_KEY, title="Spark session", unit="s"),
    PipelineFigure(
        key=FIRST_SEARCH_KEY,
        title="find-hanging, right after the session's start",
        unit="s",
        goal=FigureGoal(below=10.0),
    ),
    PipelineFigure(key=SEARCH_KEY, title="find-hanging, again", unit="s"),
    PipelineFigure(key=WORKER_KEY, title="largest memory of a Python worker", unit="MB"),
)

SamplesByFigure = Mapping[str, Sequence[float]]
"""Key -> one value per round."""


def mb_per_s(size_bytes: int, seconds: float, *, core_count: int = 1) -> float:
    return size_bytes / BYTES_PER_MEGABYTE / seconds / core_count


def subtract_start(total_s: float, start_s: float) -> float:
    """Return the seconds of work of a process that needs ``start_s`` for doing next to nothing.

    Raises:
        ValueError: Nothing is left: the work was too little to be measured.
    """
    if total_s <= start_s:
        raise ValueError(
            f"{total_s:.2f} s in all, {start_s:.2f} s of them the start: too little work"
        )
    return total_s - start_s


def judge_figures(samples_by_figure: SamplesByFigure) -> list[MeasuredFigure]:
    """Judge each figure that has samples, in the order of ``FIGURES``."""
    measured_figures = []
    for figure in FIGURES:
        if not samples_by_figure.get(figure.key):
            continue
        figure_spread = spread_of(samples_by_figure[figure.key])
        ratio = _ratio_to_baseline(figure, figure_spread, samples_by_figure)
        measured_figures.append(
            MeasuredFigure(
                figure=figure,
                spread=figure_spread,
                ratio=ratio,
                met=_meets_goal(figure, figure_spread.median, ratio),
            )
        )
    return measured_figures


def _ratio_to_baseline(
    figure: PipelineFigure, figure_spread: Spread, samples_by_figure: SamplesByFigure
) -> float | None:
    baseline_samples = samples_by_figure.get(figure.against) if figure.against is not None else None
    return figure_spread.median / spread_of(baseline_samples).median if baseline_samples else None


def _meets_goal(figure: PipelineFigure, median: float, ratio: float | None) -> bool | None:
    goal = figure.goal
    if goal is None:
        return None
    if goal.ratio_min is not None:
        return None if ratio is None else ratio >= goal.ratio_min
    if goal.least is not None:
        return median >= goal.least
    return goal.below is not None and median < goal.below


_VERDICT_BY_MET: Final = {None: "", True: "met", False: "MISSED"}


def format_table(measured_figures: Sequence[MeasuredFigure]) -> str:
    """Write a table in Markdown, for people and for the page alike."""
    table_lines = ["| figure | unit | median (range) | × | target | |", "|---|---|---|---|---|---|"]
    for measured_figure in measured_figures:
        ratio_text = "" if measured_figure.ratio is None else f"{measured_figure.ratio:.3g}"
        goal_text = "" if measured_figure.figure.goal is None else measured_figure.figure.goal.text
        row_cells = (
            measured_figure.figure.title,
            measured_figure.figure.unit,
            _spread_text(measured_figure.spread),
            ratio_text,
            goal_text,
            _VERDICT_BY_MET[measured_figure.met],
        )
        table_lines.append("| " + " | ".join(row_cells) + " |")
    return "\n".join(table_lines) + "\n"


def _spread_text(spread: Spread) -> str:
    if len(spread.samples) == 1:
        return number_text(spread.median)
    return f"{number_text(spread.median)} ({number_text(spread.least)}–{number_text(spread.most)})"


_BEGIN: Final = "<!-- measured: python -m benchmarks.pipeline --write -->\n"
_END: Final = "<!-- end of what was measured -->\n"


def replace_section(page_text: str, section_text: str) -> str:
    """Return a page with what was measured in its place.

    Raises:
        ValueError: The page has no place for it.
    """
    text_before, begin_mark, text_from_section = page_text.partition(_BEGIN)
    _, end_mark, text_after = text_from_section.partition(_END)
    if not begin_mark or not end_mark:
        raise ValueError("the page has no place for what was measured")
    return f"{text_before}{begin_mark}\n{section_text.rstrip()}\n\n{end_mark}{text_after}"


# Cost against size


class SearchCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a search of a log of this size costs."""

    bytes: int
    seconds: float
    worker_mb: float
    """Largest memory of a Python worker during it."""


def format_cost_table(costs: Sequence[SearchCost]) -> str:
    """Write the costs as a table in Markdown, with a row for each size."""
    table_lines = ["| log | seconds | MB/s | largest worker |", "|---|---|---|---|"]
    for cost in costs:
        table_lines.append(
            f"| {cost.bytes / BYTES_PER_MEGABYTE:,.0f} MB | {number_text(cost.seconds)} |"
            f" {mb_per_s(cost.bytes, cost.seconds):,.0f} | {cost.worker_mb:,.0f} MB |"
        )
    return "\n".join(table_lines) + "\n"
