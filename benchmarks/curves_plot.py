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


def table(points: Sequence[CostPoint]) -> str:
    """A row for each curve, in Markdown."""
    lines = ["| of so many | milliseconds of CPU for each one |", "| --- | --- |"]
    for name in dict.fromkeys(point.series for point in points):
        cells = [f"{point.count:,}: {point.cpu_ms:.3g}" for point in points if point.series == name]
        lines.append(f"| {name} | {' · '.join(cells)} |")
    return "\n".join(lines) + "\n"


def svg(points: Sequence[CostPoint]) -> bytes:
    """A small plot for each curve, both axes logarithmic."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(point.series for point in points))
    with matplotlib.rc_context(
        {"svg.hashsalt": "txnsim", "svg.fonttype": "none", "font.size": 9.0}
    ):
        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        FigureCanvasSVG(figure)
        axes_of_panels = figure.subplots(2, -(-len(names) // 2), squeeze=False).flatten()
        for name, axes in zip(names, axes_of_panels, strict=False):
            curve = [point for point in points if point.series == name]
            axes.loglog(
                [point.count for point in curve],
                [point.cpu_ms for point in curve],
                "o-",
                color="#1f6f8b",
            )
            median_ms = sorted(point.cpu_ms for point in curve)[len(curve) // 2]
            axes.set_ylim(median_ms / 10, median_ms * 10)
            axes.set_xlabel(name)
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        figure.supylabel("milliseconds of CPU for each one")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
