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


class StructField(NamedTuple):
    """A field of a struct as the tables show it."""

    name: str
    type: str
    meaning: str
    is_required: bool


def fields(struct: type[msgspec.Struct]) -> list[StructField]:
    hints = get_type_hints(struct, include_extras=True)
    return [
        StructField(
            field.encode_name,
            type_text(hints[field.name]),
            _meta_description(hints[field.name]) or _docstrings(struct).get(field.name, ""),
            field.required,
        )
        for field in msgspec.structs.fields(struct)
    ]


def fields_table(struct: type[msgspec.Struct], excluded: Container[str] = ()) -> str:
    """A Markdown table of a struct's fields; optional fields are in brackets."""
    rows = (
        (f"`{field.name}`" if field.is_required else f"[`{field.name}`]", field.type, field.meaning)
        for field in fields(struct)
        if field.name not in excluded
    )
    lines = (f"| {name} | {kind} | {meaning} |" for name, kind, meaning in rows)
    return "\n".join(("| Field | Type | Meaning |", "| --- | --- | --- |", *lines))


def parts(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """The struct and all structs that it contains, each once."""
    found_structs: dict[type[msgspec.Struct], None] = {struct: None}
    todo = [struct]
    for part in todo:
        for hint in get_type_hints(part).values():
            for inner in _structs(hint):
                if inner not in found_structs:
                    found_structs[inner] = None
                    todo.append(inner)
    yield from found_structs


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
        return ", ".join(f"`{member.value}`" for member in hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint.__name__
    return SIMPLE[getattr(hint, "__supertype__", hint)]


def one_line(docstring: str) -> str:
    """A docstring as one line of Markdown, with JSON's null for None."""
    return " ".join(docstring.replace("``", "`").replace("None", "null").split())


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if hint is TopicPartition:
        return
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in get_args(hint):
        yield from _structs(inner)


def _meta_description(hint: Any) -> str:
    if get_origin(hint) is not Annotated:
        return ""
    descriptions = (
        meta.description for meta in get_args(hint)[1:] if isinstance(meta, msgspec.Meta)
    )
    return one_line(next(descriptions, "") or "")


@cache
def _docstrings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstrings of a struct's attributes, including inherited ones."""
    docstrings: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base in (object, msgspec.Struct, msgspec.Struct.__base__):
            continue
        module_tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        field_name = ""
        for node in module_tree.body[0].body:  # type: ignore[attr-defined]  # a class has a body
            match node:
                case ast.AnnAssign(target=ast.Name(id=field_name)):
                    pass
                case ast.Expr(value=ast.Constant(value=str(text))) if field_name:
                    docstrings[field_name] = one_line(text)
                case _:
                    field_name = ""
    return docstrings
