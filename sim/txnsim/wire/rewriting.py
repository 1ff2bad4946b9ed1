"""Fields of an answer changed by name, wherever they stand in it (``faults.actions.Rewrite``)."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, Final

from txnsim.errors import UnsupportedRequestError
from txnsim.wire.codec import response_class
from txnsim.wire.values import Rows

NUMBER: Final = "number"
LIST: Final = "list"
TRUTH: Final = "boolean"
OTHER: Final = "other"
_VERSIONS_MAX: Final = 32
"""More than any API has."""

Change = Callable[[Any], Any]
"""From the value of a field to the new one."""


@functools.cache
def answer_fields(api_key: int) -> Mapping[str, str]:
    """What an answer's fields are, by Kafka's name with underscores, over all versions.

    Args:
        api_key: Of the API.

    Returns:
        Name -> ``number``, ``list``, ``boolean`` or ``other``, those of nested rows included.
    """
    found: dict[str, str] = {}
    for version in range(_VERSIONS_MAX):
        try:
            top = response_class(api_key, version)
        except UnsupportedRequestError:
            continue
        for name, kind in _kinds(top):
            if kind != OTHER or name not in found:
                found[name] = kind
    return found


def _kinds(cls: Any) -> Iterator[tuple[str, str]]:
    for name, hint in typing.get_type_hints(cls).items():
        kind = OTHER
        for one in _alternatives(hint):
            if typing.get_origin(one) is tuple:
                kind = LIST
                for row in typing.get_args(one):
                    if is_dataclass(row):
                        yield from _kinds(row)
            elif is_dataclass(one):
                yield from _kinds(one)
            elif isinstance(one, type) and issubclass(one, bool):
                kind = TRUTH
            elif isinstance(one, type) and issubclass(one, int):
                kind = NUMBER
        if not name.startswith("__"):
            yield name, kind


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.get_args(hint)
    return (hint,)


def rewritten(message: Any, field: str, change: Change) -> Any:
    """A copy of an answer with every field of that name changed; the answer itself where it has
    none.
    """
    if isinstance(message, Rows):
        message = tuple(message)
    if isinstance(message, tuple):
        rows = tuple(rewritten(row, field, change) for row in message)
        return rows if any(a is not b for a, b in zip(rows, message, strict=True)) else message
    if not is_dataclass(message) or isinstance(message, type):
        return message
    changed: dict[str, Any] = {}
    for one in fields(message):
        before = getattr(message, one.name)
        after = change(before) if one.name == field else rewritten(before, field, change)
        if after is not before:
            changed[one.name] = after
    return replace(message, **changed) if changed else message
