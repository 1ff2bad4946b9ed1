"""Removes the keys and values of records from a trace, so that it can be shown to others. Names
(topics, transactional ids, groups, clients), offsets and states stay, as the trace would explain
nothing without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.trace.trace_file import Recording

OMISSION_TEXT: Final = "(left out)"
START_CHARACTERS: Final = 64
"""Only so many first characters of a value are compared: each place of a sentence is looked at."""
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
    quotations = _Quotations(record_texts)
    events = (
        msgspec.structs.replace(event, d=_redact_payload(event.d, quotations))
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


class _Quotations:
    """Finds keys and values in sentences, in as many steps as a sentence has characters, however
    many values there are: what stands at a place is looked up in a set, by the lengths that there
    are.
    """

    def __init__(self, record_texts: Iterable[str]) -> None:
        self._size_by_start: dict[str, int] = {}
        """Beginning of a value, of ``START_CHARACTERS`` at most -> the longest such value."""
        for record_text in record_texts:
            start = record_text[:START_CHARACTERS]
            size_before = self._size_by_start.get(start, 0)
            self._size_by_start[start] = max(size_before, len(record_text))
        self._first_characters = {start[0] for start in self._size_by_start}
        lengths = {len(start) for start in self._size_by_start}
        self._longest_first = tuple(sorted(lengths, reverse=True))

    def hide_in(self, sentence: str) -> str:
        """The sentence without values. What begins like a long value is hidden as far as such a
        value goes.
        """
        shown_parts: list[str] = []
        hidden_until = 0
        for position in range(len(sentence)):
            size = self._size_at(sentence, position)
            if not size:
                continue
            if position >= hidden_until:
                shown_parts += (sentence[hidden_until:position], OMISSION_TEXT)
            hidden_until = max(hidden_until, position + size)
        return "".join((*shown_parts, sentence[hidden_until:]))

    def _size_at(self, sentence: str, position: int) -> int:
        """Size of the longest value at a place of a sentence; 0 if none stands there."""
        if sentence[position] not in self._first_characters:
            return 0
        for length in self._longest_first:
            size = self._size_by_start.get(sentence[position : position + length])
            if size is not None:
                return size
        return 0


def _redact_payload(payload: object, quotations: _Quotations) -> object:
    if isinstance(payload, Mapping):
        return {
            field_name: _redact_field(field_name, inner_value, quotations)
            for field_name, inner_value in payload.items()
        }
    if isinstance(payload, list | tuple):
        return [_redact_payload(inner_value, quotations) for inner_value in payload]
    return payload


def _redact_field(field_name: str, field_value: Any, quotations: _Quotations) -> object:
    if field_name in _RECORD_FIELDS:
        return _hide_values(field_value)
    if field_name in _SENTENCE_FIELDS and isinstance(field_value, str):
        return quotations.hide_in(field_value)
    return _redact_payload(field_value, quotations)


def _hide_values(record_value: object) -> object:
    if isinstance(record_value, list | tuple):
        return [_hide_values(inner_value) for inner_value in record_value]
    return OMISSION_TEXT if record_value else record_value
