"""What is wrong with values that people have written, in their words and all at once.

``msgspec`` names the first mistake only, in terms of its own (``Invalid enum value 'peer.reqest' -
at $.point``). Here each value is held against the type that it should become: what is wrong, where,
what was probably meant, and what there is if that is a short list.
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
from txnsim.text import unknown

T = TypeVar("T")

MISTAKES_MAX: Final = 20
"""Limit of listed mistakes; suggestions for each take time."""
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
    """A wrong value, with one line per mistake."""

    def __init__(self, mistakes: tuple[tuple[str, str], ...]) -> None:
        super().__init__(
            "\n".join(f"{place}: {wrong}" if place else wrong for place, wrong in mistakes)
        )
        self.mistakes = mistakes


def converted(given: object, kind: type[T], *, noun: str = "field") -> T:
    """``msgspec.convert``, whose error says what is wrong in words.

    Args:
        given: Plain values, as JSON and YAML have them.
        kind: What they should become.
        noun: What messages call a field of the outermost kind: ``option``.

    Raises:
        WrongValueError: They can't.
    """
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        found = tuple(islice(_mistakes(given, kind, "", noun), MISTAKES_MAX))
        raise WrongValueError(found or (("", str(error)),)) from None


def _mistakes(given: object, kind: Any, place: str, noun: str) -> Iterator[tuple[str, str]]:
    bounded = kind
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    structs = _structs(kind)
    if isinstance(given, Mapping) and structs:
        yield from _in_struct(given, structs, place, noun)
        return
    element = _element(kind)
    if isinstance(given, list | tuple) and element is not None:
        for index, one in enumerate(given):
            yield from _mistakes(one, element, _below(place, _nth(index, one)), noun)
        return
    try:
        msgspec.convert(given, bounded)
    except msgspec.ValidationError as error:
        yield place, _in_words(given, kind, str(error))


def _in_struct(
    given: Mapping[Any, Any], structs: tuple[type[msgspec.Struct], ...], place: str, noun: str
) -> Iterator[tuple[str, str]]:
    """Of fields: unknown ones, missing ones, wrong ones; else what the whole says of itself."""
    tag = structs[0].__struct_config__.tag_field
    chosen = structs[0]
    if tag is not None:
        tags = {str(one.__struct_config__.tag): one for one in structs}
        if tag not in given:
            yield place, f"{tag} is missing; there are: {', '.join(tags)}"
            return
        wanted = given[tag]
        if not isinstance(wanted, str) or wanted not in tags:
            yield _below(place, tag), unknown("action", _short(wanted), tags)
            return
        chosen = tags[wanted]
    fields = {field.encode_name: field for field in msgspec.structs.fields(chosen)}
    strange = (name for name in given if name not in fields and name != tag)
    found = [
        (_below(place, _short(name)), unknown(noun, _short(name), fields))
        for name in islice(strange, MISTAKES_MAX)
    ]
    found += [
        (place, f"{name} is missing")
        for name, field in fields.items()
        if field.required and name not in given
    ]
    hints = typing.get_type_hints(chosen, include_extras=True)
    for name, field in fields.items():
        if name in given:
            found += _mistakes(given[name], hints[field.name], _below(place, name), "field")
    if found:
        yield from found
        return
    try:
        msgspec.convert(given, chosen)
    except msgspec.ValidationError as error:
        yield place, _own_words(str(error))


def _in_words(given: object, kind: Any, otherwise: str) -> str:
    kinds = _kinds(kind)
    enums = [one for one in kinds if isinstance(one, type) and issubclass(one, Enum)]
    choices = [
        value
        for one in kinds
        if typing.get_origin(one) is Literal
        for value in typing.get_args(one)
    ]
    choices += [member.value for one in enums for member in one]
    if choices and isinstance(given, str):
        return unknown("value", _short(given), [str(choice) for choice in choices])
    structs = _structs(kind)
    if structs and isinstance(given, str):
        tag = structs[0].__struct_config__.tag_field
        if tag is not None and given in {one.__struct_config__.tag for one in structs}:
            return f'{in_short(given)} is a name alone: say {{"{tag}": "{given}"}}'
    words = [_word(one) for one in kinds if one is not type(None)]
    if None in words:
        return _own_words(otherwise)
    bound = _BOUND.match(otherwise)
    if bound is not None:
        return f"expected {words[0]} {bound[1]}, found {in_short(given)}"
    return f"expected {' or '.join(dict.fromkeys(filter(None, words)))}, found {in_short(given)}"


def _word(kind: Any) -> str | None:
    if _structs(kind):
        return "fields, as NAME: VALUE"
    plain = typing.get_origin(kind) or kind
    if not isinstance(plain, type):
        return None
    return next((word for one, word in _WORDS if issubclass(plain, one)), None)


def _own_words(text: str) -> str:
    """A value's own error text, without the place in msgspec's notation."""
    return text.partition(" - at `$")[0]


def _nth(index: int, given: object) -> str:
    """The place of a list element: its number, and its id if present."""
    id_ = given.get("id") if isinstance(given, Mapping) else None
    return f"{index + 1} ({_short(id_)})" if isinstance(id_, str) else str(index + 1)


def _short(given: object) -> str:
    """A name cut for comparison with known names; a long name resembles none."""
    return str(given)[:NAME_MAX]


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _kinds(kind: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return tuple(chain(*map(_kinds, typing.get_args(kind)))) if is_union else (kind,)


def _structs(kind: Any) -> tuple[type[msgspec.Struct], ...]:
    return tuple(
        one for one in _kinds(kind) if isinstance(one, type) and issubclass(one, msgspec.Struct)
    )


def _element(kind: Any) -> Any:
    for one in _kinds(kind):
        if typing.get_origin(one) in (list, tuple):
            return typing.get_args(one)[0]
    return None
