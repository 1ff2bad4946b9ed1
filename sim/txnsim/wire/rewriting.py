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

NUMBER_FIELD: Final = "number"
LIST_FIELD: Final = "list"
BOOLEAN_FIELD: Final = "boolean"
OTHER_FIELD: Final = "other"
_VERSIONS_MAX: Final = 32
"""A number above the number of versions of any API."""

ValueChange = Callable[[Any], Any]
"""Old value of a field -> new value."""
ListElement = Mapping[str, int | str]
"""An element of a list, by Kafka's names with underscores; booleans are integers, too."""


@functools.cache
def response_field_kinds(api_key: int) -> Mapping[str, str]:
    """The kinds of a response's fields, by Kafka's names with underscores, over all versions.

    Returns:
        Name -> ``number``, ``list``, ``boolean`` or ``other``, including the fields of nested
            elements.
    """
    kind_by_field: dict[str, str] = {}
    for version in range(_VERSIONS_MAX):
        try:
            message_class = response_class(api_key, version)
        except UnsupportedRequestError:
            continue
        for field_name, kind in _field_kinds(message_class):
            if kind != OTHER_FIELD or field_name not in kind_by_field:
                kind_by_field[field_name] = kind
    return kind_by_field


def _field_kinds(cls: Any) -> Iterator[tuple[str, str]]:
    for field_name, type_hint in typing.get_type_hints(cls).items():
        field_kind = OTHER_FIELD
        for alternative in _union_alternatives(type_hint):
            if typing.get_origin(alternative) is tuple:
                field_kind = LIST_FIELD
                for element_class in typing.get_args(alternative):
                    if is_dataclass(element_class):
                        yield from _field_kinds(element_class)
            elif is_dataclass(alternative):
                yield from _field_kinds(alternative)
            elif isinstance(alternative, type) and issubclass(alternative, bool):
                field_kind = BOOLEAN_FIELD
            elif isinstance(alternative, type) and issubclass(alternative, int):
                field_kind = NUMBER_FIELD
        if not field_name.startswith("__"):
            yield field_name, field_kind


def _union_alternatives(type_hint: Any) -> tuple[Any, ...]:
    if isinstance(type_hint, UnionType) or typing.get_origin(type_hint) is typing.Union:
        return typing.get_args(type_hint)
    return (type_hint,)


def rewrite_field(message: Any, field_name: str, change: ValueChange) -> Any:
    """A copy of the response with every field of that name changed; the same object if there is
    none.
    """
    return _change_fields(message, field_name, lambda _, old_value: change(old_value))


def with_list_element(message: Any, field_name: str, element: ListElement) -> Any:
    """The response with an element appended to each list of that name; the same object if there is
    none.
    """

    def longer(owner: Any, old_rows: Any) -> Any:
        new_row = codec.build(_row_class(type(owner), field_name), **element)
        return (*(old_rows or ()), new_row)

    return _change_fields(message, field_name, longer)


def element_misfit(api_key: int, list_name: str, element: ListElement) -> str | None:
    """The reason why no version of the response has a list that takes such an element; None if one
    does.
    """
    problem: str | None = "it is no list of rows"
    for version in range(_VERSIONS_MAX):
        try:
            message_class = response_class(api_key, version)
        except UnsupportedRequestError:
            continue
        for owner_class in _message_classes(message_class):
            row_class = _row_class(owner_class, list_name)
            if row_class is not None:
                problem = _misfit_of_row(row_class, element)
                if problem is None:
                    return None
    return problem


def _misfit_of_row(row_class: Any, new_values: ListElement) -> str | None:
    kind_by_field = dict(_field_kinds(row_class))
    for field_name, value in new_values.items():
        if field_name not in kind_by_field:
            return unknown_word_message(
                "field", field_name, sorted(field.name for field in fields(row_class))
            )
        kind = (
            BOOLEAN_FIELD
            if isinstance(value, bool)
            else NUMBER_FIELD
            if isinstance(value, int)
            else OTHER_FIELD
        )
        if kind_by_field[field_name] != kind:
            return f"{field_name} is a {kind_by_field[field_name]}"
    for row_field in fields(row_class):
        if (
            row_field.name not in new_values
            and row_field.default is MISSING
            and row_field.default_factory is MISSING
        ):
            return f"{row_field.name} is missing"
    return None


def _message_classes(cls: Any) -> Iterator[Any]:
    """Yield a message class, and the classes of its fields."""
    yield cls
    for type_hint in typing.get_type_hints(cls).values():
        for alternative in _union_alternatives(type_hint):
            for nested_class in (alternative, *typing.get_args(alternative)):
                if is_dataclass(nested_class):
                    yield from _message_classes(nested_class)


def _row_class(owner: Any, field_name: str) -> Any:
    """Class of a list's elements; None if the field is no list of messages."""
    for alternative in _union_alternatives(typing.get_type_hints(owner).get(field_name)):
        for element_class in (
            typing.get_args(alternative) if typing.get_origin(alternative) is tuple else ()
        ):
            if is_dataclass(element_class):
                return element_class
    return None


def _change_fields(message: Any, field_name: str, change: Callable[[Any, Any], Any]) -> Any:
    """Change every field of that name; ``change`` gets the message that has the field, and its
    value.
    """
    if isinstance(message, LazyRows):
        message = tuple(message)
    if isinstance(message, tuple):
        new_rows = tuple(_change_fields(row, field_name, change) for row in message)
        return (
            new_rows
            if any(
                new_row is not old_row for new_row, old_row in zip(new_rows, message, strict=True)
            )
            else message
        )
    if not is_dataclass(message) or isinstance(message, type):
        return message
    changed_fields: dict[str, Any] = {}
    for message_field in fields(message):
        old_value = getattr(message, message_field.name)
        new_value = (
            change(message, old_value)
            if message_field.name == field_name
            else _change_fields(old_value, field_name, change)
        )
        if new_value is not old_value:
            changed_fields[message_field.name] = new_value
    return replace(message, **changed_fields) if changed_fields else message
