"""Figures of a trace: drawn from small frames that Spark has aggregated, as SVG that repeats
(``txnsim_spark.figures``).

A figure takes rows, not frames, so that it can be drawn without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.files import write_all
from txnsim_spark.figures import COLORS, figure
from txnsim_spark.traces.analyses import ANALYSES, BY_VERSION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame, SparkSession

RANKS: Final = 100
"""Points of a curve of percentiles, besides the minimum."""
BUCKETS: Final = 200
"""Points in time of a curve over time."""
RUNS_MAX: Final = 8
"""Curves over time in one figure."""
_RANK_LIST: Final = ", ".join(f"{rank / RANKS:g}D" for rank in range(RANKS + 1))

Cell = int | float | str | None
Row = Sequence[Cell]


def _curve(us: str, table: str) -> str:
    """Percentiles of a duration by transaction version: version, share, milliseconds."""
    return f"""
SELECT transaction_version, position / {RANKS} AS share, us / 1000 AS ms
FROM (
  SELECT transaction_version, percentile_approx({us}, array({_RANK_LIST}), 10000) AS ranks
  FROM {table}
  WHERE {us} IS NOT NULL
  GROUP BY transaction_version
)
LATERAL VIEW posexplode(ranks) AS position, us
ORDER BY transaction_version, position
"""


DECIDE_CURVE: Final = _curve("decided_us - began_us", "trace_transactions")
MARKER_CURVE: Final = _curve("written_us - owed_us", "trace_markers")
LAG_CURVE: Final = f"""
WITH ends AS (
  SELECT max(at_us + lasts_us) + 1 AS ended_us FROM trace_positions
),
spread AS (
  SELECT
    run, lag, ended_us,
    explode(sequence(
      cast(at_us * {BUCKETS} DIV ended_us AS int),
      cast((at_us + lasts_us) * {BUCKETS} DIV ended_us AS int)
    )) AS bucket
  FROM trace_positions
  CROSS JOIN ends
  WHERE lasts_us > 0
)
SELECT run, bucket * max(ended_us) / {BUCKETS} / 1000000 AS at_s, max(lag) AS lag
FROM spread
WHERE run IN (
  SELECT run FROM trace_positions GROUP BY run ORDER BY sum(lag * lasts_us) DESC, run
  LIMIT {RUNS_MAX}
)
GROUP BY run, bucket
ORDER BY run, bucket
"""


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """A figure, the query for its rows, and the function that draws it."""

    title: str
    rows: Callable[[SparkSession], DataFrame]
    draw: Callable[[Axes, Iterable[Row]], None]


def draw_all(spark: SparkSession, directory: Path) -> tuple[Path, ...]:
    """Draw every figure over the views of a trace (``tables``) into a folder; returns the files."""
    drawn = {}
    for name, plot in PLOTS.items():
        # Aggregated: at most some hundred rows, whatever the trace's size.
        rows = [tuple(row) for row in plot.rows(spark).toLocalIterator()]
        drawn[f"{name}.svg"] = svg(plot, rows)
    return write_all(directory, drawn)


def svg(plot: Plot, rows: Iterable[Row]) -> bytes:
    """One figure as SVG."""
    return figure(plot.title, lambda axes: plot.draw(axes, rows))


# Kinds of figures


def _shares(axes: Axes, rows: Iterable[Row]) -> None:
    """Cumulative share of transactions by duration, a line per version."""
    _curves(axes, ((_version(version), ms, share) for version, share, ms in rows))
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("share that takes no longer")


def _over_time(axes: Axes, rows: Iterable[Row]) -> None:
    """How far last stable offsets are behind, by run."""
    _curves(axes, ((str(run), at_s, lag) for run, at_s, lag in rows))
    axes.set_xlabel("seconds")
    axes.set_ylabel("offsets behind, worst partition")


def _curves(axes: Axes, rows: Iterable[tuple[str, Cell, Cell]]) -> None:
    """A curve for each label: label, x and y of its points."""
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for label, x, y in rows:
        xs, ys = curves.setdefault(label, ([], []))
        xs.append(float(x or 0))
        ys.append(float(y or 0))
    for color, (label, (xs, ys)) in zip(COLORS * 2, curves.items(), strict=False):
        axes.plot(xs, ys, color=color, label=label, drawstyle="steps-post")


def _bars(*labels: str) -> Callable[[Axes, Iterable[Row]], None]:
    """Counts by version, side by side."""

    def draw(axes: Axes, rows: Iterable[Row]) -> None:
        found = list(rows)
        width = 0.8 / len(labels)
        for index, (label, color) in enumerate(zip(labels, COLORS, strict=False)):
            places = [
                place + (index - (len(labels) - 1) / 2) * width for place in range(len(found))
            ]
            heights = [float(row[index + 1] or 0) for row in found]
            bars = axes.bar(places, heights, width=width, color=color, label=label)
            axes.bar_label(bars, fmt="%g")
        axes.set_xticks(range(len(found)), [_version(row[0]) for row in found])
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("count")

    return draw


def _version(version: Cell) -> str:
    return "not known" if version is None else f"transaction.version {version}"


def _by_version(analysis: str, *columns: str) -> Callable[[SparkSession], DataFrame]:
    """The rows of an analysis for each version."""

    def rows(spark: SparkSession) -> DataFrame:
        frame = ANALYSES[analysis].run(spark)
        return frame.where(frame.grouped_by == BY_VERSION).select("transaction_version", *columns)

    return rows


def _query(text: str) -> Callable[[SparkSession], DataFrame]:
    return lambda spark: spark.sql(text)


PLOTS: Final[dict[str, Plot]] = {
    "time_to_decide": Plot(
        title="From the first partition to the decision",
        rows=_query(DECIDE_CURVE),
        draw=_shares,
    ),
    "marker_delay": Plot(
        title="From the decision to the marker in the log", rows=_query(MARKER_CURVE), draw=_shares
    ),
    "lso_lag": Plot(
        title="High watermark − last stable offset", rows=_query(LAG_CURVE), draw=_over_time
    ),
    "late_transactions": Plot(
        title="Transactions on partitions",
        rows=_by_version("late_transactions", "beyond_timeout", "opened_late", "never_closed"),
        draw=_bars("open beyond the timeout", "opened after the decision", "never closed"),
    ),
    "verification_failures": Plot(
        title="Verifications",
        rows=_by_version("verification_failures", "asked", "refused", "unanswered"),
        draw=_bars("asked", "refused", "unanswered"),
    ),
    "epoch_bumps": Plot(
        title="Epoch bumps, by command",
        rows=_by_version("epoch_bumps", "by_end", "by_init", "by_timeout"),
        draw=_bars("EndTxn", "InitProducerId", "timeout"),
    ),
}
"""By name; a figure's file is called so."""
