"""A small trace, written by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.trace_file import Recording


def small(nodes: tuple[str, ...], *events: tuple[Any, ...], level: str = "full") -> Recording:
    """A trace of these events: node, kind, parents, tx, payload."""
    rows = [
        Event(i, i * 1000, nodes.index(node), i, parents, event_kind, tx, data)
        for i, (node, event_kind, parents, tx, data) in enumerate(events)
    ]
    header = {"k": "run", "schema": 2, "nodes": list(nodes), "level": level}
    return Recording.from_lines("small", [msgspec.json.encode(row) for row in (header, *rows)])
