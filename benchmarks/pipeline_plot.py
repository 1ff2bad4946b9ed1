"""Cost against size as a picture: the same figures give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from benchmarks.pipeline_figures import BYTES_PER_MEGABYTE, SearchCost


def draw_costs_svg(costs: Sequence[SearchCost]) -> bytes:
    """Draw seconds and memory over the size of the log."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    sizes_gb = [cost.bytes / BYTES_PER_MEGABYTE / 1_000 for cost in costs]
    with matplotlib.rc_context(
        {"svg.hashsalt": "txnsim", "svg.fonttype": "none", "font.size": 9.0}
    ):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained")
        FigureCanvasSVG(figure)
        left_axes, right_axes = figure.subplots(1, 2)
        left_axes.plot(sizes_gb, [cost.seconds for cost in costs], marker="o", color="#1f6f8b")
        left_axes.set_ylabel("seconds, on two cores")
        right_axes.plot(sizes_gb, [cost.worker_mb for cost in costs], marker="o", color="#b5532a")
        right_axes.set_ylabel("largest Python worker, MB")
        for axes in (left_axes, right_axes):
            axes.set_xlabel("log read, GB (batches of 90 bytes)")
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
        svg_buffer = io.BytesIO()
        figure.savefig(svg_buffer, format="svg", metadata={"Date": None, "Creator": None})
    return svg_buffer.getvalue()
