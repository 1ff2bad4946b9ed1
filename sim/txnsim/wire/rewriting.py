"""Changes fields of a response by name, at any depth (``faults.actions.Rewrite``)."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from types import UnionType
from typing import Any, Final

from txnsim.errors import UnsupportedRequestError
from txnsim.text import unknown_word_message
from txnsim.wire import codec
from txnsim.wire.codec import response_class
from txnsim.wire.values import LazyRows

NUMBER: Final = "number"
LIST: Final = "list"
TRUTH: Final = "boolean"
OTHER: Final = "other"
_VERSIONS_MAX: Final = 32
"""A number above the number of versions of any API."""

Change = Callable[[Any], Any]
"""Old value of a field -> new value."""
Entry = Mapping[str, int | str]
"""An element of a list, by Kafka's names with underscores; booleans are integers, too."""


@functools.cache
def answer_fields(api_key: int) -> Mapping[str, str]:
    """The kinds of a response's fields, by Kafka's names with underscores, over all versions.

    Returns:
        Name -> ``number``, ``list``, ``boolean`` or ``other``, including the fields of nested
            elements.
    """
    kinds: dict[str, str] = {}
    for version in range(_VERSIONS_MAX):
        try:
            top = response_class(api_key, version)
        except UnsupportedRequestError:
            continue
        for name, kind in _kinds(top):
            if kind != OTHER or name not in kinds:
                kinds[name] = kind
    return kinds


def _kinds(cls: Any) -> Iterator[tuple[str, str]]:
    for name, hint in typing.get_type_hints(cls).items():
        kind = OTHER
        for alternative in _alternatives(hint):
            if typing.get_origin(alternative) is tuple:
                kind = LIST
                for row in typing.get_args(alternative):
                    if is_dataclass(row):
                        yield from _kinds(row)
            elif is_dataclass(alternative):
                yield from _kinds(alternative)
            elif isinstance(alternative, type) and issubclass(alternative, bool):
                kind = TRUTH
            elif isinstance(alternative, type) and issubclass(alternative, int):
                kind = NUMBER
        if not name.startswith("__"):
            yield name, kind


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.get_args(hint)
    return (hint,)


def rewrite_field(message: Any, field: str, change: Change) -> Any:
    """A copy of the response with every field of that name changed; the same object if there is
    none.
    """
    return _change_fields(message, field, lambda _, old_value: change(old_value))


def with_entry(message: Any, field: str, entry: Entry) -> Any:
    """The response with an element appended to each list of that name; the same object if there is
    none.
    """

    def longer(owner: Any, old_rows: Any) -> Any:
        row = codec.build(_row_class(type(owner), field), **entry)
        return (*(old_rows or ()), row)

    return _change_fields(message, field, longer)


def misfit(api_key: int, field: str, entry: Entry) -> str | None:
    """The reason why no version of the response has a list that takes such an element; None if one
    does.
    """
    problem: str | None = "it is no list of rows"
    for version in range(_VERSIONS_MAX):
        try:
            top = response_class(api_key, version)
        except UnsupportedRequestError:
            continue
        for owner in _messages(top):
            row = _row_class(owner, field)
            if row is not None:
                problem = _misfit_of_row(row, entry)
                if problem is None:
                    return None
    return problem


def _misfit_of_row(row: Any, new_fields: Entry) -> str | None:
    kinds = dict(_kinds(row))
    for name, value in new_fields.items():
        if name not in kinds:
            return unknown_word_message("field", name, sorted(field.name for field in fields(row)))
        kind = TRUTH if isinstance(value, bool) else NUMBER if isinstance(value, int) else OTHER
        if kinds[name] != kind:
            return f"{name} is a {kinds[name]}"
    for row_field in fields(row):
        if (
            row_field.name not in new_fields
            and row_field.default is MISSING
            and row_field.default_factory is MISSING
        ):
            return f"{row_field.name} is missing"
    return None


def _messages(cls: Any) -> Iterator[Any]:
    """Yield a message class, and the classes of its fields."""
    yield cls
    for hint in typing.get_type_hints(cls).values():
        for alternative in _alternatives(hint):
            for part in (alternative, *typing.get_args(alternative)):
                if is_dataclass(part):
                    yield from _messages(part)


def _row_class(owner: Any, field: str) -> Any:
    """Class of a list's elements; None if the field is no list of messages."""
    for alternative in _alternatives(typing.get_type_hints(owner).get(field)):
        for row in typing.get_args(alternative) if typing.get_origin(alternative) is tuple else ():
            if is_dataclass(row):
                return row
    return None


def _change_fields(message: Any, field: str, change: Callable[[Any, Any], Any]) -> Any:
    """Change every field of that name; ``change`` gets the message that has the field, and its
    value.
    """
    if isinstance(message, LazyRows):
        message = tuple(message)
    if isinstance(message, tuple):
        rows = tuple(_change_fields(row, field, change) for row in message)
        return rows if any(a is not b for a, b in zip(rows, message, strict=True)) else message
    if not is_dataclass(message) or isinstance(message, type):
        return message
    changed: dict[str, Any] = {}
    for message_field in fields(message):
        old_value = getattr(message, message_field.name)
        new_value = (
            change(message, old_value)
            if message_field.name == field
            else _change_fields(old_value, field, change)
        )
        if new_value is not old_value:
            changed[message_field.name] = new_value
    return replace(message, **changed) if changed else message
