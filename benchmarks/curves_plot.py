"""Cost of one over how many there are, as a table and as a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What one costs beside so many."""

    series: str
    count: int
    cpu_ms: float


def table(points: Sequence[Point]) -> str:
    """A row for each curve, in Markdown."""
    rows = ["| of so many | milliseconds of CPU for each one |", "| --- | --- |"]
    for name in dict.fromkeys(one.series for one in points):
        mine = [f"{one.count:,}: {one.cpu_ms:.3g}" for one in points if one.series == name]
        rows.append(f"| {name} | {' · '.join(mine)} |")
    return "\n".join(rows) + "\n"


def svg(points: Sequence[Point]) -> bytes:
    """A small plot for each curve, both axes logarithmic."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(one.series for one in points))
    with matplotlib.rc_context(
        {"svg.hashsalt": "txnsim", "svg.fonttype": "none", "font.size": 9.0}
    ):
        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        FigureCanvasSVG(figure)
        drawn = figure.subplots(2, -(-len(names) // 2), squeeze=False).flatten()
        for name, axes in zip(names, drawn, strict=False):
            mine = [one for one in points if one.series == name]
            axes.loglog(
                [one.count for one in mine], [one.cpu_ms for one in mine], "o-", color="#1f6f8b"
            )
            middle = sorted(one.cpu_ms for one in mine)[len(mine) // 2]
            axes.set_ylim(middle / 10, middle * 10)
            axes.set_xlabel(name)
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        figure.supylabel("milliseconds of CPU for each one")
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()
