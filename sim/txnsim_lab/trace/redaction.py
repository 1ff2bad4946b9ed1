"""Removes the keys and values of records from a trace, so that it can be shown to others. Names
(topics, transactional ids, groups, clients), offsets and states stay, as the trace would explain
nothing without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.trace.trace_file import Recording

OMISSION_TEXT: Final = "(left out)"
_RECORD_FIELDS: Final = frozenset({"key", "value", "keys", "values", "record", "records"})
_SENTENCE_FIELDS: Final = frozenset({"text", "found", "expected", "subject"})
"""Fields with sentences, which may quote values."""


def redact_run(recording: Recording) -> Recording:
    """A copy of the recording in which the values that clients wrote and read are replaced by
    ``(left out)``.
    """
    record_texts = {
        record_text
        for event in recording.events
        for record_text in _record_texts(event.d)
        if record_text
    }
    longest_first = tuple(sorted(record_texts, key=len, reverse=True))
    events = (
        msgspec.structs.replace(event, d=_redact_payload(event.d, longest_first))
        for event in recording.events
    )
    return msgspec.structs.replace(recording, events=tuple(events))


def _record_texts(payload: object) -> Iterator[str]:
    """Keys and values of records in a payload."""
    if isinstance(payload, Mapping):
        for field_name, inner_value in payload.items():
            if field_name in _RECORD_FIELDS:
                yield from _strings_in(inner_value)
            else:
                yield from _record_texts(inner_value)
    elif isinstance(payload, list | tuple):
        for inner_value in payload:
            yield from _record_texts(inner_value)


def _strings_in(record_value: object) -> Iterator[str]:
    if isinstance(record_value, str):
        yield record_value
    elif isinstance(record_value, Mapping):
        for inner_value in record_value.values():
            yield from _strings_in(inner_value)
    elif isinstance(record_value, list | tuple):
        for inner_value in record_value:
            yield from _strings_in(inner_value)


def _redact_payload(payload: object, record_texts: tuple[str, ...]) -> object:
    if isinstance(payload, Mapping):
        return {
            field_name: _redact_field(field_name, inner_value, record_texts)
            for field_name, inner_value in payload.items()
        }
    if isinstance(payload, list | tuple):
        return [_redact_payload(inner_value, record_texts) for inner_value in payload]
    return payload


def _redact_field(field_name: str, field_value: Any, record_texts: tuple[str, ...]) -> object:
    if field_name in _RECORD_FIELDS:
        return _hide_values(field_value)
    if field_name in _SENTENCE_FIELDS and isinstance(field_value, str):
        for record_text in record_texts:
            field_value = field_value.replace(record_text, OMISSION_TEXT)
        return field_value
    return _redact_payload(field_value, record_texts)


def _hide_values(record_value: object) -> object:
    if isinstance(record_value, list | tuple):
        return [_hide_values(inner_value) for inner_value in record_value]
    return OMISSION_TEXT if record_value else record_value
