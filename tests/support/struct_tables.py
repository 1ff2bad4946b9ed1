"""Tables of the fields of structs, from their types and docstrings: what programs print or read as
JSON.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Container, Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from txnsim.types import TopicPartition

SIMPLE: Final = {int: "integer", str: "text", bool: "boolean", float: "number", NoneType: "null"}


class Field(NamedTuple):
    """A field, in words."""

    name: str
    type: str
    meaning: str
    is_required: bool


def fields(struct: type[msgspec.Struct]) -> list[Field]:
    hints = get_type_hints(struct, include_extras=True)
    return [
        Field(
            one.encode_name,
            type_text(hints[one.name]),
            _described(hints[one.name]) or _docstrings(struct).get(one.name, ""),
            one.required,
        )
        for one in msgspec.structs.fields(struct)
    ]


def fields_table(struct: type[msgspec.Struct], without: Container[str] = ()) -> str:
    """In Markdown; a field that may be left out stands in brackets."""
    rows = (
        (f"`{one.name}`" if one.is_required else f"[`{one.name}`]", one.type, one.meaning)
        for one in fields(struct)
        if one.name not in without
    )
    lines = (f"| {name} | {kind} | {meaning} |" for name, kind, meaning in rows)
    return "\n".join(("| Field | Type | Meaning |", "| --- | --- | --- |", *lines))


def parts(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """The structs of which it is made, each once, itself first."""
    seen: dict[type[msgspec.Struct], None] = {struct: None}
    todo = [struct]
    for one in todo:
        for hint in get_type_hints(one).values():
            for found in _structs(hint):
                if found not in seen:
                    seen[found] = None
                    todo.append(found)
    yield from seen


def type_text(hint: Any) -> str:
    """A type, as a reader of JSON knows it."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    inner = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(type_text, inner))
    if get_origin(hint) in (tuple, list, frozenset):
        return f"list of {type_text(inner[0])}"
    if get_origin(hint) in (dict, Mapping):
        return f"object: {type_text(inner[0])} to {type_text(inner[1])}"
    if hint is TopicPartition:
        return "topic and partition"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return ", ".join(f"`{one.value}`" for one in hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint.__name__
    return SIMPLE[getattr(hint, "__supertype__", hint)]


def one_line(docstring: str) -> str:
    """In one line of Markdown; JSON has null where Python has None."""
    return " ".join(docstring.replace("``", "`").replace("None", "null").split())


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if hint is TopicPartition:
        return
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in get_args(hint):
        yield from _structs(inner)


def _described(hint: Any) -> str:
    if get_origin(hint) is not Annotated:
        return ""
    found = (one.description for one in get_args(hint)[1:] if isinstance(one, msgspec.Meta))
    return one_line(next(found, "") or "")


@cache
def _docstrings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The strings below the attributes of a struct and of those that it is made from."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base in (object, msgspec.Struct, msgspec.Struct.__base__):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        name = ""
        for one in tree.body[0].body:  # type: ignore[attr-defined]  # a class has a body
            match one:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    pass
                case ast.Expr(value=ast.Constant(value=str(said))) if name:
                    found[name] = one_line(said)
                case _:
                    name = ""
    return found
