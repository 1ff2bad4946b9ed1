"""The dashboard of ``monitoring/``: each metric has a panel, which follows from its row.

Panels that say more (two metrics, a quotient, a row of their own) are written by hand and kept. A
metric that none of them shows gets a plain one at the end: its rate where it counts, the 99th of a
hundred where it is a time.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from typing import Any, Final

from txnsim.metrics.table import Metric, MetricKind

WIDTH: Final = 12
HEIGHT: Final = 8
ENDINGS: Final = {
    MetricKind.GAUGE: ("",),
    MetricKind.COUNTER: ("_total",),
    MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
}
"""Suffixes that Prometheus adds to a metric's name."""
_UNITS: Final = {"seconds": "s", "ratio": "percentunit", "bytes": "Bps"}
_HERE: Final = '{instance=~"$instance"}'


def add_missing_panels(text: str, metrics: Iterable[Metric]) -> str:
    """Add a panel for each metric that the dashboard does not show yet."""
    board = json.loads(text)
    shown_metrics = set(re.findall(r"\btxnsim_\w+", text))
    for metric in metrics:
        if not shown_metrics & {metric.name + ending for ending in ENDINGS[metric.kind]}:
            board["panels"].append(_panel(metric, board["panels"]))
    return json.dumps(board, indent=2) + "\n"


def _panel(metric: Metric, panels: list[dict[str, Any]]) -> dict[str, Any]:
    """A panel for a metric, laid out like the last one."""
    panel = copy.deepcopy(panels[-1])
    title = metric.name.removeprefix("txnsim_").replace("_", " ")
    position = panel["gridPos"]
    is_left = (position["x"], position["w"]) == (0, WIDTH)
    panel |= {
        "id": max(shown_panel["id"] for shown_panel in panels) + 1,
        "title": title[0].upper() + title[1:],
        "description": f"{metric.meaning[0].upper()}{metric.meaning[1:]}.",
        "gridPos": {
            "x": WIDTH if is_left else 0,
            "y": position["y"] if is_left else position["y"] + position["h"],
            "w": WIDTH,
            "h": HEIGHT,
        },
    }
    panel["fieldConfig"]["defaults"]["unit"] = (
        "ops"
        if metric.kind is MetricKind.COUNTER and metric.unit not in _UNITS
        else _UNITS.get(metric.unit, "short")
    )
    (target, *_) = panel["targets"]
    panel["targets"] = [target | {"expr": _expression(metric), "legendFormat": _legend(metric)}]
    return panel


def _expression(metric: Metric) -> str:
    (ending, *_) = ENDINGS[metric.kind]
    name = f"{metric.name}{ending}{_HERE}"
    if metric.kind is MetricKind.GAUGE:
        return name
    rate = f"rate({name}[$__rate_interval])"
    if metric.kind is MetricKind.COUNTER:
        return rate
    return f"histogram_quantile(0.99, sum by ({', '.join((*metric.labels, 'le'))}) ({rate}))"


def _legend(metric: Metric) -> str:
    return " ".join(f"{label} {{{{{label}}}}}" for label in metric.labels) or metric.unit
