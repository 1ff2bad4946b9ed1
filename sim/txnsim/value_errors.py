"""Describes all mistakes in values that users wrote, in the user's words.

``msgspec`` names only the first mistake, in its own terms (``Invalid enum value 'peer.reqest' - at
$.point``). Here each value is compared with the type that it should become. A message says what is
wrong, where, what was probably meant, and which values there are if the list is short.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
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

_BOUND_MESSAGE: Final = re.compile(r"Expected `\w+` ([<>]=? \S+)")
_TYPE_WORDS: Final[tuple[tuple[type, str], ...]] = (
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
            "\n".join(
                f"{path}: {mistake_text}" if path else mistake_text
                for path, mistake_text in mistakes
            )
        )
        self.mistakes = mistakes


def convert_value(content: object, target_type: type[T], *, noun: str = "field") -> T:
    """Convert plain values with ``msgspec.convert``; the error describes every mistake in words.

    Args:
        content: Plain values, as JSON and YAML have them.
        target_type: The type that they should become.
        noun: What messages call a field of the outermost type: ``option``.

    Raises:
        WrongValueError: The values can't be converted.
    """
    try:
        return msgspec.convert(content, target_type)
    except msgspec.ValidationError as error:
        mistakes = tuple(islice(_mistakes(content, target_type, "", noun), MISTAKES_MAX))
        raise WrongValueError(mistakes or (("", str(error)),)) from None


def _mistakes(content: object, target_type: Any, path: str, noun: str) -> Iterator[tuple[str, str]]:
    bounded_type = target_type
    if typing.get_origin(target_type) is typing.Annotated:
        target_type = typing.get_args(target_type)[0]
    structs = _struct_types(target_type)
    if isinstance(content, Mapping) and structs:
        yield from _struct_mistakes(content, structs, path, noun)
        return
    element_type = _element_type(target_type)
    if isinstance(content, list | tuple) and element_type is not None:
        for index in _wrong_indexes(content, element_type):
            yield from _mistakes(
                content[index],
                element_type,
                _path_below(path, _element_name(index, content[index])),
                noun,
            )
        return
    try:
        msgspec.convert(content, bounded_type)
    except msgspec.ValidationError as error:
        yield path, _mistake_text(content, target_type, str(error))


def _wrong_indexes(
    elements: Sequence[object], element_type: Any, first_index: int = 0
) -> Iterator[int]:
    """Find the elements that can't be converted, by halves: good ones take a fraction of the time
    in which one is described.
    """
    try:
        msgspec.convert(elements, list[element_type])
    except msgspec.ValidationError:
        if len(elements) == 1:
            yield first_index
            return
        middle = len(elements) // 2
        yield from _wrong_indexes(elements[:middle], element_type, first_index)
        yield from _wrong_indexes(elements[middle:], element_type, first_index + middle)


def _struct_mistakes(
    struct_content: Mapping[Any, Any],
    structs: tuple[type[msgspec.Struct], ...],
    path: str,
    noun: str,
) -> Iterator[tuple[str, str]]:
    """Yield unknown, missing and wrong fields; if there are none, the struct's own complaint about
    its fields together.
    """
    tag_field = structs[0].__struct_config__.tag_field
    struct_type = structs[0]
    if tag_field is not None:
        structs_by_tag = {str(struct.__struct_config__.tag): struct for struct in structs}
        if tag_field not in struct_content:
            yield path, f"{tag_field} is missing; there are: {', '.join(structs_by_tag)}"
            return
        action_name = struct_content[tag_field]
        if not isinstance(action_name, str) or action_name not in structs_by_tag:
            yield (
                _path_below(path, tag_field),
                unknown_word_message("action", _shortened(action_name), structs_by_tag),
            )
            return
        struct_type = structs_by_tag[action_name]
    fields_by_name = {field.encode_name: field for field in msgspec.structs.fields(struct_type)}
    unknown_names = (
        name for name in struct_content if name not in fields_by_name and name != tag_field
    )
    mistakes = [
        (
            _path_below(path, _shortened(name)),
            unknown_word_message(noun, _shortened(name), fields_by_name),
        )
        for name in islice(unknown_names, MISTAKES_MAX)
    ]
    mistakes += [
        (path, f"{name} is missing")
        for name, field in fields_by_name.items()
        if field.required and name not in struct_content
    ]
    type_hints = typing.get_type_hints(struct_type, include_extras=True)
    for name, field in fields_by_name.items():
        if name in struct_content:
            field_mistakes = _mistakes(
                struct_content[name], type_hints[field.name], _path_below(path, name), "field"
            )
            mistakes += islice(field_mistakes, MISTAKES_MAX)
    if mistakes:
        yield from mistakes
        return
    try:
        msgspec.convert(struct_content, struct_type)
    except msgspec.ValidationError as error:
        yield path, _complaint_text(str(error))


def _mistake_text(value_given: object, target_type: Any, fallback_text: str) -> str:
    union_types = _union_types(target_type)
    enum_types = [
        kind_of_value
        for kind_of_value in union_types
        if isinstance(kind_of_value, type) and issubclass(kind_of_value, Enum)
    ]
    choices = [
        value
        for kind_of_value in union_types
        if typing.get_origin(kind_of_value) is Literal
        for value in typing.get_args(kind_of_value)
    ]
    choices += [member.value for enum in enum_types for member in enum]
    if choices and isinstance(value_given, str):
        return unknown_word_message(
            "value", _shortened(value_given), [str(choice) for choice in choices]
        )
    structs = _struct_types(target_type)
    if structs and isinstance(value_given, str):
        tag_field = structs[0].__struct_config__.tag_field
        if tag_field is not None and value_given in {
            struct.__struct_config__.tag for struct in structs
        }:
            return (
                f'{in_short(value_given)} is a name alone: say {{"{tag_field}": "{value_given}"}}'
            )
    type_words = [
        _type_word(kind_of_value)
        for kind_of_value in union_types
        if kind_of_value is not type(None)
    ]
    if None in type_words:
        return _complaint_text(fallback_text)
    bound_match = _BOUND_MESSAGE.match(fallback_text)
    if bound_match is not None:
        return f"expected {type_words[0]} {bound_match[1]}, found {in_short(value_given)}"
    expected_words = " or ".join(dict.fromkeys(filter(None, type_words)))
    return f"expected {expected_words}, found {in_short(value_given)}"


def _type_word(target_type: Any) -> str | None:
    if _struct_types(target_type):
        return "fields, as NAME: VALUE"
    plain_type = typing.get_origin(target_type) or target_type
    if not isinstance(plain_type, type):
        return None
    return next(
        (word for class_of_word, word in _TYPE_WORDS if issubclass(plain_type, class_of_word)), None
    )


def _complaint_text(text: str) -> str:
    """The error text of the type itself, without the path in msgspec's notation."""
    return text.partition(" - at `$")[0]


def _element_name(index: int, element: object) -> str:
    """Name an element of a list by its number, and by its id if it has one."""
    element_id = element.get("id") if isinstance(element, Mapping) else None
    return (
        f"{index + 1} ({_shortened(element_id)})" if isinstance(element_id, str) else str(index + 1)
    )


def _shortened(content: object) -> str:
    """Cut a name before it is compared with known names; a longer name resembles none."""
    return str(content)[:NAME_MAX]


def _path_below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _union_types(target_type: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(target_type) in (typing.Union, types.UnionType)
    return (
        tuple(chain(*map(_union_types, typing.get_args(target_type))))
        if is_union
        else (target_type,)
    )


def _struct_types(target_type: Any) -> tuple[type[msgspec.Struct], ...]:
    return tuple(
        kind_of_value
        for kind_of_value in _union_types(target_type)
        if isinstance(kind_of_value, type) and issubclass(kind_of_value, msgspec.Struct)
    )


def _element_type(target_type: Any) -> Any:
    for kind_of_value in _union_types(target_type):
        if typing.get_origin(kind_of_value) in (list, tuple):
            return typing.get_args(kind_of_value)[0]
    return None
