"""Figures as SVG that repeats: the same data give the same bytes under one release of matplotlib.
There are no dates, ids come from a fixed salt, and text stays text.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS: Final = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")
_SIZE_INCHES: Final = (7.2, 3.2)
_SETTINGS: Final[Any] = {
    "svg.hashsalt": "txnsim",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def figure(title: str, draw: Callable[[Axes], None]) -> bytes:
    """One figure as SVG, with a legend where something has a label.

    Args:
        title: Stands above it.
        draw: Draws it.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_SETTINGS):
        made = Figure(figsize=_SIZE_INCHES, layout="constrained")
        FigureCanvasSVG(made)
        axes = made.add_subplot()
        axes.set_title(title)
        draw(axes)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, loc="best")  # named: no warning where it takes a second
        buffer = io.BytesIO()
        made.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
