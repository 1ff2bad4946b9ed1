"""Cost of a search over what grows, as a table and as a picture: the same figures give the same
bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import msgspec

MEGA: Final = 1_000_000
SERIES: Final = ("partitions", "segments", "brokers")
_LABELS: Final = {
    "partitions": "partitions of 0.1 MB",
    "segments": "segments of 10 MB, one partition",
    "brokers": "brokers of 100 partitions, 10 MB",
}


class SearchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one search of ``find-hanging``."""

    series: str
    count: int
    title: str
    bytes: int
    seconds: float
    least_s: float
    most_s: float
    cpu_s: float
    load: float
    """One-minute average as searches began."""
    with_spark: bool


def table_row(point: SearchPoint) -> str:
    """Write one search as a row of the table in Markdown."""
    reader_name = "Spark" if point.with_spark else "here"
    row_cells = (
        point.title,
        f"{point.bytes / MEGA:,.0f}",
        reader_name,
        f"{point.seconds:.1f} ({point.least_s:.1f} to {point.most_s:.1f})",
        f"{point.cpu_s:.1f}",
        f"{point.load:.1f}",
    )
    return f"| {' | '.join(row_cells)} |"


def points_table(points: Sequence[SearchPoint]) -> str:
    """Write the searches as a table in Markdown."""
    table_head = (
        "| log | MB | by | seconds (lowest to highest) | CPU, s | load |\n| --- |" + 5 * " --- |"
    )
    return "\n".join([table_head, *map(table_row, points)]) + "\n"


def draw_growth_svg(points: Sequence[SearchPoint]) -> bytes:
    """Draw seconds and the CPU's seconds over partitions, segments and brokers."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(
        {"svg.hashsalt": "txnsim", "svg.fonttype": "none", "font.size": 9.0}
    ):
        figure = Figure(figsize=(9.0, 2.8), layout="constrained")
        FigureCanvasSVG(figure)
        for series_name, axes in zip(SERIES, figure.subplots(1, len(SERIES)), strict=True):
            series_points = [point for point in points if point.series == series_name]
            counts = [point.count for point in series_points]
            axes.plot(
                counts, [point.seconds for point in series_points], color="#1f6f8b", label="elapsed"
            )
            axes.plot(
                counts,
                [point.cpu_s for point in series_points],
                color="#b5532a",
                linestyle="--",
                label="CPU",
            )
            for point in series_points:
                fill_color = "#1f6f8b" if point.with_spark else "white"
                axes.plot(
                    point.count, point.seconds, "o", color="#1f6f8b", markerfacecolor=fill_color
                )
            axes.set_xlabel(_LABELS[series_name])
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
        figure.axes[0].set_ylabel("seconds, whole command")
        figure.axes[0].legend(frameon=False)
        svg_buffer = io.BytesIO()
        figure.savefig(svg_buffer, format="svg", metadata={"Date": None, "Creator": None})
    return svg_buffer.getvalue()
