"""ShiViz' log: a line with host and vector clock, a line with the event.

The clocks are computed from the causes: in ShiViz each host's own clock must grow by exactly one,
so the clocks of a part of a trace differ from those of the whole trace. ShiViz parses the text with
``PARSER``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.runtime.trace import Event
from txnsim.text import printable
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.brief import brief_payload

PARSER: Final = r"(?<host>\S+) (?<clock>{.*})\n(?<event>.*)"
"""The regular expression to give to ShiViz."""
TEXT_BYTES_MAX: Final = 64 << 20


def convert(recording: Recording) -> str:
    """The trace as text.

    Raises:
        ConfigError: It would be longer than ``TEXT_BYTES_MAX``: each event has a clock of all nodes
            that it knows of.
    """
    host_names = [_host_name(node_name) for node_name in recording.nodes]
    clocks_by_node: dict[int, dict[str, int]] = {}
    clocks_by_event: dict[int, dict[str, int]] = {}
    last_use_by_cause = {cause: event.i for event in recording.events for cause in event.p}
    lines: list[str] = []
    text_bytes = 0
    for event in recording.events:
        clock = clocks_by_node.setdefault(event.n, {})
        for cause_position in event.p:
            for host, event_count in clocks_by_event.get(cause_position, {}).items():
                clock[host] = max(clock.get(host, 0), event_count)
            if last_use_by_cause[cause_position] == event.i:
                clocks_by_event.pop(cause_position, None)
        node_name = host_names[event.n]
        clock[node_name] = clock.get(node_name, 0) + 1
        if event.i in last_use_by_cause:
            clocks_by_event[event.i] = dict(clock)
        lines.append(f"{node_name} {msgspec.json.encode(clock).decode()}\n{_event_text(event)}\n")
        text_bytes += len(lines[-1])
        if text_bytes > TEXT_BYTES_MAX:
            raise ConfigError(
                f"a log for ShiViz of {len(recording.nodes)} nodes and {len(recording.events)}"
                f" events takes more than {TEXT_BYTES_MAX >> 20} MiB, which no browser shows:"
                " record fewer nodes or events, or take another format"
            )
    return "".join(lines)


def _host_name(node_name: str) -> str:
    """The name of a node without spaces and line breaks, which end a host's name in ShiViz."""
    return "_".join(printable(node_name).split())


def _event_text(event: Event) -> str:
    transaction_label = f" {event.tx}" if event.tx else ""
    event_text = f"#{event.i} {event.k}{transaction_label} {brief_payload(event)}"
    return " ".join(printable(event_text).split())
