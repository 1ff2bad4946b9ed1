"""Traces that tests of readers read: runs of the zoo, told once, and small ones by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from txnsim.runtime.trace import Event, TraceLevel
from txnsim.trace.reading import Recording, recording
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.runner import Telling, tell_virtual


@cache
def told(
    name: str = "z01", run: str = "V-", take: str = "armed", level: TraceLevel = TraceLevel.BRIEF
) -> bytes:
    """The trace of a telling, as its file has it."""
    telling = Telling(scenario=catalog.find(name)[1], run=run, take=take)
    return tell_virtual(telling, trace_level=level).trace


def told_run(
    name: str = "z01", run: str = "V-", take: str = "armed", level: TraceLevel = TraceLevel.BRIEF
) -> Recording:
    """The same, read."""
    return recording(name, told(name, run, take, level).splitlines())


def hung_at(run: Recording) -> int:
    """The event after which the transaction of Z01 hangs: the readers stand still."""
    return next(event.i for event in run.events if event.k == "client.deliver") - 1


def small(nodes: tuple[str, ...], *events: tuple[Any, ...], level: str = "full") -> Recording:
    """A trace of these events: node, kind, parents, tx, payload."""
    rows = [
        Event(i, i * 1000, nodes.index(node), i, parents, kind, tx, data)
        for i, (node, kind, parents, tx, data) in enumerate(events)
    ]
    header = {"k": "run", "schema": 2, "nodes": list(nodes), "level": level}
    return recording("small", [msgspec.json.encode(row) for row in (header, *rows)])
