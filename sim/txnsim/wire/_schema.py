"""Reads the fields of a message class.

A message is a frozen dataclass like kio's: class variables for version and flexibility, and for
each field the Kafka type, the tag and the default. This module turns such a class into plain rows
for the generated decoders and encoders. Kafka's counterparts are the message JSON files, from which
kio's classes are generated.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

import msgspec

REQUIRED: Final = object()
"""Default of a required field."""

ENTITY: Final = "entity"
"""Type of a field that holds another message class."""

FIXED_WIDTH_CODES: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint8": ("B", 1),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "uint64": ("Q", 8),
    "float64": ("d", 8),
    "error_code": ("h", 2),
    "timedelta_i32": ("i", 4),
    "timedelta_i64": ("q", 8),
    "datetime_i64": ("q", 8),
    "uuid": ("16s", 16),
}
"""Kafka type -> struct code and size, for the types of fixed width."""


class FieldRow(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a message class."""

    name: str
    kind: str
    """Kafka type, or ``ENTITY``."""
    entity: Any
    """The class of the value or of the elements, if ``kind`` is ``ENTITY``."""
    array: bool
    nullable: bool
    tag: int | None
    default: Any
    """The default; ``REQUIRED`` if there is none."""

    @property
    def element(self) -> FieldRow:
        """The row of an array's elements. Elements of primitive types are never null."""
        return msgspec.structs.replace(self, array=False, nullable=False, tag=None)


class EntityRows(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a message class: plain fields in wire order, tagged fields by ascending tag
    (KIP-482).
    """

    cls: Any
    flexible: bool
    plain: tuple[FieldRow, ...]
    tagged: tuple[FieldRow, ...]


def describe(cls: Any) -> EntityRows:
    """Read the rows of a message class."""
    rows = [_field_row(field) for field in fields(cls)]
    return EntityRows(
        cls=cls,
        flexible=cls.__flexible__,
        plain=tuple(row for row in rows if row.tag is None),
        tagged=tuple(
            sorted((row for row in rows if row.tag is not None), key=lambda row: row.tag or 0)
        ),
    )


def _field_row(field: Field[Any]) -> FieldRow:
    inner_type, is_nullable = _without_none(field.type)
    is_array = get_origin(inner_type) is tuple
    if is_array:
        inner_type, _ = _without_none(get_args(inner_type)[0])
    entity = inner_type if is_dataclass(inner_type) else None
    tag = field.metadata.get("tag")
    default = field.default if field.default is not MISSING else REQUIRED
    if default is REQUIRED and tag is not None:
        # A tagged field may always be absent, so it has a default even where none is written.
        from kio.serial._implicit_defaults import get_tagged_field_default

        default = get_tagged_field_default(field)
    return FieldRow(
        name=field.name,
        kind=ENTITY if entity is not None else field.metadata["kafka_type"],
        entity=entity,
        array=is_array,
        nullable=is_nullable,
        tag=tag,
        default=default,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """``X | None`` -> (X, True); anything else -> (itself, False)."""
    if get_origin(annotation) is not UnionType:
        return annotation, False
    union_members = get_args(annotation)
    members_without_none = [member for member in union_members if member is not NoneType]
    assert len(members_without_none) == 1, annotation
    return members_without_none[0], len(union_members) > 1
