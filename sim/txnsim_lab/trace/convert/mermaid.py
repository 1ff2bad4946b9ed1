"""A Mermaid sequence diagram, to paste into an issue: messages between roles, decisions, refusals
and faults. A diagram of a whole run would be unreadable, so it has the last ``ARROWS_MAX`` steps
and says how many it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from txnsim.runtime.trace import Event
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.cause_chains import by_position

ARROWS_MAX: Final = 200
NOTED: Final = frozenset(
    {"txn.complete", "marker.written", "marker.refused", "log.reject", "pid.open", "fault.hit"}
    | {"fault.release", "msg.drop", "check.violation", "log.lso", "node.down"}
)
"""Kinds of events that get a note if no arrow leads to them."""
_SPECIAL: Final = re.compile(r"[;#<>{}]")


def convert(run: Recording) -> str:
    """The trace as Mermaid's text."""
    nodes = run.nodes
    events = by_position(run.events)
    steps: list[tuple[str, ...]] = []
    for event in run.events:
        cause = events.get(event.p[0]) if event.p else None
        if event.k == "msg.send" or (
            event.k == "msg.recv" and cause is not None and not _is_new(cause)
        ):
            continue
        node_name = nodes[event.n]
        if cause is not None and nodes[cause.n] != node_name:
            arrow = "--x" if event.k == "msg.drop" else "->>"
            steps.append((nodes[cause.n], arrow, node_name, _text(event)))
        elif event.k in NOTED:
            steps.append((node_name, _text(event)))
    last_steps = steps[-ARROWS_MAX:]
    lines = ["sequenceDiagram"]
    names = dict.fromkeys(
        name for step in last_steps for name in ((step[0], step[2]) if len(step) == 4 else step[:1])
    )
    ids = {name: f"n{number}" for number, name in enumerate(names)}
    lines += [f"    participant {ids[name]} as {_escape(name)}" for name in names]
    if len(steps) > len(last_steps) and last_steps:
        lines.append(
            f"    Note over {ids[last_steps[0][0]]}: {len(steps) - len(last_steps)} earlier"
            " steps are left out"
        )
    for step in last_steps:
        if len(step) == 4:
            lines.append(f"    {ids[step[0]]}{step[1]}{ids[step[2]]}: {step[3]}")
        else:
            lines.append(f"    Note over {ids[step[0]]}: {step[1]}")
    return "\n".join(lines) + "\n"


def _is_new(cause: Event) -> bool:
    return cause.k in ("msg.send", "client.call")


def _text(event: Event) -> str:
    data = event.d if isinstance(event.d, Mapping) else {}
    facts = [
        str(data[name]) for name in ("api", "state", "tp", "error", "rule", "to") if data.get(name)
    ]
    words = " ".join([event.k, *facts, event.tx])
    return _escape(f"{words} ({event.t // 1000} ms, no. {event.i})")


def _escape(text: str) -> str:
    """Escape text: Mermaid ends a line at ``;``, reads ``#`` as an entity and ``end``
    as a keyword.
    """
    return re.sub(r"\bend\b", "End", _SPECIAL.sub(" ", text)).strip()
