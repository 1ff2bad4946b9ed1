"""Removes the keys and values of records from a trace, so that it can be shown to others. Names
(topics, transactional ids, groups, clients), offsets and states stay, as the trace would explain
nothing without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.trace.trace_file import Recording

LEFT_OUT: Final = "(left out)"
_FIELDS: Final = frozenset({"key", "value", "keys", "values", "record", "records"})
_TEXTS: Final = frozenset({"text", "found", "expected", "subject"})
"""Fields with sentences, which may quote values."""


def redact_run(run: Recording) -> Recording:
    """A copy of the recording in which the values that clients wrote and read are replaced by
    ``(left out)``.
    """
    texts = {text for event in run.events for text in _values(event.d) if text}
    longest_first = tuple(sorted(texts, key=len, reverse=True))
    events = (
        msgspec.structs.replace(event, d=_payload(event.d, longest_first)) for event in run.events
    )
    return msgspec.structs.replace(run, events=tuple(events))


def _values(data: object) -> Iterator[str]:
    """Keys and values of records in a payload."""
    if isinstance(data, Mapping):
        for name, part in data.items():
            if name in _FIELDS:
                yield from _texts(part)
            else:
                yield from _values(part)
    elif isinstance(data, list | tuple):
        for part in data:
            yield from _values(part)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _payload(data: object, texts: tuple[str, ...]) -> object:
    if isinstance(data, Mapping):
        return {name: _field(name, part, texts) for name, part in data.items()}
    if isinstance(data, list | tuple):
        return [_payload(part, texts) for part in data]
    return data


def _field(name: str, field_value: Any, texts: tuple[str, ...]) -> object:
    if name in _FIELDS:
        return _hide(field_value)
    if name in _TEXTS and isinstance(field_value, str):
        for text in texts:
            field_value = field_value.replace(text, LEFT_OUT)
        return field_value
    return _payload(field_value, texts)


def _hide(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_hide(part) for part in value]
    return LEFT_OUT if value else value
