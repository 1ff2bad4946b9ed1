"""A trace without the keys and values of records, so that it can be shown to others.

Names (topics, transactional ids, groups, clients), offsets and states stay: without them the trace
would explain nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.trace.reading import Recording

LEFT_OUT: Final = "(left out)"
_FIELDS: Final = frozenset({"key", "value", "keys", "values", "record", "records"})
_TEXTS: Final = frozenset({"text", "found", "expected", "subject"})
"""Sentences, which may quote what was read."""


def redacted(run: Recording) -> Recording:
    """The same run; what its clients wrote and read is replaced by ``(left out)``."""
    known = {one for event in run.events for one in _values(event.d) if one}
    longest_first = tuple(sorted(known, key=len, reverse=True))
    events = (
        msgspec.structs.replace(event, d=_payload(event.d, longest_first)) for event in run.events
    )
    return msgspec.structs.replace(run, events=tuple(events))


def _values(data: object) -> Iterator[str]:
    """Keys and values of records in a payload."""
    if isinstance(data, Mapping):
        for name, one in data.items():
            if name in _FIELDS:
                yield from _texts(one)
            else:
                yield from _values(one)
    elif isinstance(data, list | tuple):
        for one in data:
            yield from _values(one)


def _texts(one: object) -> Iterator[str]:
    if isinstance(one, str):
        yield one
    elif isinstance(one, Mapping):
        for part in one.values():
            yield from _texts(part)
    elif isinstance(one, list | tuple):
        for part in one:
            yield from _texts(part)


def _payload(data: object, known: tuple[str, ...]) -> object:
    if isinstance(data, Mapping):
        return {name: _field(name, one, known) for name, one in data.items()}
    if isinstance(data, list | tuple):
        return [_payload(one, known) for one in data]
    return data


def _field(name: str, one: Any, known: tuple[str, ...]) -> object:
    if name in _FIELDS:
        return _hidden(one)
    if name in _TEXTS and isinstance(one, str):
        for value in known:
            one = one.replace(value, LEFT_OUT)
        return one
    return _payload(one, known)


def _hidden(one: object) -> object:
    if isinstance(one, list | tuple):
        return [_hidden(part) for part in one]
    return LEFT_OUT if one else one
