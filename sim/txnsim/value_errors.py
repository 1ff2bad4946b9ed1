"""Describes all mistakes in values that users wrote, in the user's words.

``msgspec`` names only the first mistake, in its own terms (``Invalid enum value 'peer.reqest' - at
$.point``). Here each value is compared with the type that it should become. A message says what is
wrong, where, what was probably meant, and which values there are if the list is short.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import chain, islice
from typing import Any, Final, Literal, TypeVar

import msgspec

from txnsim.errors import in_short
from txnsim.text import unknown_word_message

T = TypeVar("T")

MISTAKES_MAX: Final = 20
"""Most mistakes that an error lists; suggestions for each take time."""
NAME_MAX: Final = 80

_BOUND: Final = re.compile(r"Expected `\w+` ([<>]=? \S+)")
_WORDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (tuple, "a list"),
    (list, "a list"),
    (dict, "fields, as NAME: VALUE"),
    (Mapping, "fields, as NAME: VALUE"),
)


class WrongValueError(ValueError):
    """Values are wrong; the message has one line for each mistake."""

    def __init__(self, mistakes: tuple[tuple[str, str], ...]) -> None:
        super().__init__(
            "\n".join(f"{path}: {wrong}" if path else wrong for path, wrong in mistakes)
        )
        self.mistakes = mistakes


def convert_value(content: object, kind: type[T], *, noun: str = "field") -> T:
    """Convert plain values with ``msgspec.convert``; the error describes every mistake in words.

    Args:
        content: Plain values, as JSON and YAML have them.
        kind: The type that they should become.
        noun: What messages call a field of the outermost type: ``option``.

    Raises:
        WrongValueError: The values can't be converted.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        mistakes = tuple(islice(_mistakes(content, kind, "", noun), MISTAKES_MAX))
        raise WrongValueError(mistakes or (("", str(error)),)) from None


def _mistakes(content: object, kind: Any, path: str, noun: str) -> Iterator[tuple[str, str]]:
    bounded = kind
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    structs = _structs(kind)
    if isinstance(content, Mapping) and structs:
        yield from _in_struct(content, structs, path, noun)
        return
    element = _element(kind)
    if isinstance(content, list | tuple) and element is not None:
        for index, item_content in enumerate(content):
            yield from _mistakes(
                item_content, element, _below(path, _nth(index, item_content)), noun
            )
        return
    try:
        msgspec.convert(content, bounded)
    except msgspec.ValidationError as error:
        yield path, _in_words(content, kind, str(error))


def _in_struct(
    content: Mapping[Any, Any], structs: tuple[type[msgspec.Struct], ...], path: str, noun: str
) -> Iterator[tuple[str, str]]:
    """Yield unknown, missing and wrong fields; if there are none, the struct's own complaint about
    its fields together.
    """
    tag = structs[0].__struct_config__.tag_field
    chosen = structs[0]
    if tag is not None:
        tags = {str(struct.__struct_config__.tag): struct for struct in structs}
        if tag not in content:
            yield path, f"{tag} is missing; there are: {', '.join(tags)}"
            return
        action_name = content[tag]
        if not isinstance(action_name, str) or action_name not in tags:
            yield _below(path, tag), unknown_word_message("action", _short(action_name), tags)
            return
        chosen = tags[action_name]
    fields = {field.encode_name: field for field in msgspec.structs.fields(chosen)}
    strange = (name for name in content if name not in fields and name != tag)
    mistakes = [
        (_below(path, _short(name)), unknown_word_message(noun, _short(name), fields))
        for name in islice(strange, MISTAKES_MAX)
    ]
    mistakes += [
        (path, f"{name} is missing")
        for name, field in fields.items()
        if field.required and name not in content
    ]
    hints = typing.get_type_hints(chosen, include_extras=True)
    for name, field in fields.items():
        if name in content:
            mistakes += _mistakes(content[name], hints[field.name], _below(path, name), "field")
    if mistakes:
        yield from mistakes
        return
    try:
        msgspec.convert(content, chosen)
    except msgspec.ValidationError as error:
        yield path, _own_words(str(error))


def _in_words(value_given: object, kind: Any, otherwise: str) -> str:
    kinds = _kinds(kind)
    enums = [
        kind_of_value
        for kind_of_value in kinds
        if isinstance(kind_of_value, type) and issubclass(kind_of_value, Enum)
    ]
    choices = [
        value
        for kind_of_value in kinds
        if typing.get_origin(kind_of_value) is Literal
        for value in typing.get_args(kind_of_value)
    ]
    choices += [member.value for enum in enums for member in enum]
    if choices and isinstance(value_given, str):
        return unknown_word_message(
            "value", _short(value_given), [str(choice) for choice in choices]
        )
    structs = _structs(kind)
    if structs and isinstance(value_given, str):
        tag = structs[0].__struct_config__.tag_field
        if tag is not None and value_given in {struct.__struct_config__.tag for struct in structs}:
            return f'{in_short(value_given)} is a name alone: say {{"{tag}": "{value_given}"}}'
    words = [_word(kind_of_value) for kind_of_value in kinds if kind_of_value is not type(None)]
    if None in words:
        return _own_words(otherwise)
    bound = _BOUND.match(otherwise)
    if bound is not None:
        return f"expected {words[0]} {bound[1]}, found {in_short(value_given)}"
    return (
        f"expected {' or '.join(dict.fromkeys(filter(None, words)))}, found {in_short(value_given)}"
    )


def _word(kind: Any) -> str | None:
    if _structs(kind):
        return "fields, as NAME: VALUE"
    plain = typing.get_origin(kind) or kind
    if not isinstance(plain, type):
        return None
    return next((word for class_of_word, word in _WORDS if issubclass(plain, class_of_word)), None)


def _own_words(text: str) -> str:
    """The error text of the type itself, without the path in msgspec's notation."""
    return text.partition(" - at `$")[0]


def _nth(index: int, element: object) -> str:
    """Name an element of a list by its number, and by its id if it has one."""
    id_ = element.get("id") if isinstance(element, Mapping) else None
    return f"{index + 1} ({_short(id_)})" if isinstance(id_, str) else str(index + 1)


def _short(content: object) -> str:
    """Cut a name before it is compared with known names; a longer name resembles none."""
    return str(content)[:NAME_MAX]


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kinds(kind: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return tuple(chain(*map(_kinds, typing.get_args(kind)))) if is_union else (kind,)


def _structs(kind: Any) -> tuple[type[msgspec.Struct], ...]:
    return tuple(
        kind_of_value
        for kind_of_value in _kinds(kind)
        if isinstance(kind_of_value, type) and issubclass(kind_of_value, msgspec.Struct)
    )


def _element(kind: Any) -> Any:
    for kind_of_value in _kinds(kind):
        if typing.get_origin(kind_of_value) in (list, tuple):
            return typing.get_args(kind_of_value)[0]
    return None
