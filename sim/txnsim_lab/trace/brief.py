"""An event as one line of text for ``grep``: position, time, node, kind, transaction, payload.

The columns have fixed widths unless a value is longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event

SHORTENED_FIELDS: Final = frozenset({"args", "partitions", "transactions", "brokers", "faults"})
"""Payload fields of which, if they are long, only the parts are named."""
LONG_TEXT_CHARS: Final = 60


def brief_line(event: Event, nodes: Sequence[str]) -> str:
    """The event as a line without its end."""
    seconds, microseconds = divmod(event.t, 1_000_000)
    parents = ",".join(map(str, event.p))
    return (
        f"#{event.i:<6} {seconds:>5}.{microseconds:06} {nodes[event.n]:<26} {event.k:<16}"
        f" {event.tx or '-':<14} {brief_payload(event)}{f'  <- {parents}' if parents else ''}"
    ).rstrip()


def brief_payload(event: Event) -> str:
    """``name=value`` for each field, without the fields that every kind has."""
    if not isinstance(event.d, Mapping):
        return ""
    return " ".join(f"{name}={_field_text(name, value)}" for name, value in event.d.items())


def _field_text(field_name: str, field_value: Any) -> str:
    if isinstance(field_value, bool):
        return "yes" if field_value else "no"
    if field_value is None:
        return "-"
    if isinstance(field_value, str):
        return (
            field_value
            if field_value and not any(character.isspace() for character in field_value)
            else f'"{field_value}"'
        )
    if isinstance(field_value, Sequence) and all(
        isinstance(element, (str, int)) for element in field_value
    ):
        return ",".join(map(str, field_value)) or "-"
    json_text = msgspec.json.encode(field_value).decode()
    return (
        f"{len(field_value)} of them"
        if field_name in SHORTENED_FIELDS and len(json_text) > LONG_TEXT_CHARS
        else json_text
    )
