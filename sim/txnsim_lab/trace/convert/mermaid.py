"""A Mermaid sequence diagram, to paste into an issue: messages between roles, decisions, refusals
and faults. A diagram of a whole run would be unreadable, so it has the last ``ARROWS_MAX`` steps
and says how many it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from txnsim.runtime.trace import Event
from txnsim.text import printable
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.cause_chains import by_position

ARROWS_MAX: Final = 200
NOTED_KINDS: Final = frozenset(
    {"txn.complete", "marker.written", "marker.refused", "log.reject", "pid.open", "fault.hit"}
    | {"fault.release", "msg.drop", "check.violation", "log.lso", "node.down"}
)
"""Kinds of events that get a note if no arrow leads to them."""
_SPECIAL_CHARACTERS: Final = re.compile(r"[;#<>{}]")


def convert(recording: Recording) -> str:
    """The trace as Mermaid's text."""
    nodes = recording.nodes
    events = by_position(recording.events)
    message_steps: list[tuple[str, ...]] = []
    for event in recording.events:
        cause = events.get(event.p[0]) if event.p else None
        if event.k == "msg.send" or (
            event.k == "msg.recv" and cause is not None and not _is_message_start(cause)
        ):
            continue
        node_name = nodes[event.n]
        if cause is not None and nodes[cause.n] != node_name:
            arrow = "--x" if event.k == "msg.drop" else "->>"
            message_steps.append((nodes[cause.n], arrow, node_name, _event_text(event)))
        elif event.k in NOTED_KINDS:
            message_steps.append((node_name, _event_text(event)))
    last_steps = message_steps[-ARROWS_MAX:]
    diagram_lines = ["sequenceDiagram"]
    participant_by_role = dict.fromkeys(
        participant
        for step in last_steps
        for participant in ((step[0], step[2]) if len(step) == 4 else step[:1])
    )
    participant_ids = {
        participant: f"n{number}" for number, participant in enumerate(participant_by_role)
    }
    diagram_lines += [
        f"    participant {participant_ids[participant]} as {_escape(participant)}"
        for participant in participant_by_role
    ]
    if len(message_steps) > len(last_steps) and last_steps:
        diagram_lines.append(
            f"    Note over {participant_ids[last_steps[0][0]]}: "
            f"{len(message_steps) - len(last_steps)} earlier"
            " steps are left out"
        )
    for step in last_steps:
        if len(step) == 4:
            diagram_lines.append(
                f"    {participant_ids[step[0]]}{step[1]}{participant_ids[step[2]]}: {step[3]}"
            )
        else:
            diagram_lines.append(f"    Note over {participant_ids[step[0]]}: {step[1]}")
    return "\n".join(diagram_lines) + "\n"


def _is_message_start(cause: Event) -> bool:
    return cause.k in ("msg.send", "client.call")


def _event_text(event: Event) -> str:
    event_fields = event.d if isinstance(event.d, Mapping) else {}
    fact_texts = [
        str(event_fields[field_name])
        for field_name in ("api", "state", "tp", "error", "rule", "to")
        if event_fields.get(field_name)
    ]
    event_words = " ".join([event.k, *fact_texts, event.tx])
    return _escape(f"{event_words} ({event.t // 1000} ms, no. {event.i})")


def _escape(text: str) -> str:
    """Escape text: Mermaid ends a line at ``;`` and at a line break, reads ``#`` as an entity and
    ``end`` as a keyword.
    """
    plain_text = _SPECIAL_CHARACTERS.sub(" ", printable(text))
    return re.sub(r"\bend\b", "End", plain_text).strip() or "?"
