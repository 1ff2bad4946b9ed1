"""An event as one line of text for ``grep``: position, time, node, kind, transaction, payload.

The columns have fixed widths unless a value is longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event

LEFT_OUT: Final = frozenset({"args", "partitions", "transactions", "brokers", "faults"})
"""Payload fields of which, if they are long, only the parts are named."""
LONG: Final = 60


def line(event: Event, nodes: Sequence[str]) -> str:
    """The event as a line without its end."""
    seconds, micros = divmod(event.t, 1_000_000)
    parents = ",".join(map(str, event.p))
    return (
        f"#{event.i:<6} {seconds:>5}.{micros:06} {nodes[event.n]:<26} {event.k:<16}"
        f" {event.tx or '-':<14} {payload(event)}{f'  <- {parents}' if parents else ''}"
    ).rstrip()


def payload(event: Event) -> str:
    """``name=value`` for each field, without the fields that every kind has."""
    if not isinstance(event.d, Mapping):
        return ""
    return " ".join(f"{name}={_value(name, value)}" for name, value in event.d.items())


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, str):
        return (
            value if value and not any(character.isspace() for character in value) else f'"{value}"'
        )
    if isinstance(value, Sequence) and all(isinstance(element, (str, int)) for element in value):
        return ",".join(map(str, value)) or "-"
    text = msgspec.json.encode(value).decode()
    return f"{len(value)} of them" if name in LEFT_OUT and len(text) > LONG else text
