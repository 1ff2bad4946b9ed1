"""Cost of one over how many there are, as a table and as a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec


class CostPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What one producer, partition or connection costs where there are ``count`` of them."""

    series: str
    count: int
    cpu_ms: float


def curves_table(points: Sequence[CostPoint]) -> str:
    """Write a table in Markdown, with a row for each curve."""
    table_lines = ["| of so many | milliseconds of CPU for each one |", "| --- | --- |"]
    for series_name in dict.fromkeys(point.series for point in points):
        point_texts = [
            f"{point.count:,}: {point.cpu_ms:.3g}"
            for point in points
            if point.series == series_name
        ]
        table_lines.append(f"| {series_name} | {' · '.join(point_texts)} |")
    return "\n".join(table_lines) + "\n"


def draw_curves_svg(points: Sequence[CostPoint]) -> bytes:
    """Draw a small plot for each curve, both axes logarithmic."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    series_names = list(dict.fromkeys(point.series for point in points))
    with matplotlib.rc_context(
        {"svg.hashsalt": "txnsim", "svg.fonttype": "none", "font.size": 9.0}
    ):
        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        FigureCanvasSVG(figure)
        axes_of_panels = figure.subplots(2, -(-len(series_names) // 2), squeeze=False).flatten()
        for series_name, axes in zip(series_names, axes_of_panels, strict=False):
            series_points = [point for point in points if point.series == series_name]
            axes.loglog(
                [point.count for point in series_points],
                [point.cpu_ms for point in series_points],
                "o-",
                color="#1f6f8b",
            )
            median_ms = sorted(point.cpu_ms for point in series_points)[len(series_points) // 2]
            axes.set_ylim(median_ms / 10, median_ms * 10)
            axes.set_xlabel(series_name)
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        figure.supylabel("milliseconds of CPU for each one")
        svg_buffer = io.BytesIO()
        figure.savefig(svg_buffer, format="svg", metadata={"Date": None, "Creator": None})
    return svg_buffer.getvalue()
