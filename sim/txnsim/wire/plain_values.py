"""Makes messages from plain values, by field name.

Values for which a version has no field are left out; fields that are not given get zero, an empty
value or the schema's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from txnsim.wire import codec
from txnsim.wire._schema import ENTITY, REQUIRED, FieldRow, describe
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest
from txnsim.wire.registry import versions

_ZEROS: Final[dict[str, object]] = {"string": "", "bool": False, "bytes": b"", "records": b""}

_described = cache(describe)


def message_from(cls: Any, values: Mapping[str, Any]) -> Any:
    """A message of a class from plain values; dicts become the classes of their fields.

    Raises:
        TypeError: No version of the message has a field of that name.
    """
    refuse_unknown(cls, values)
    return _build_value(cls, values)


def refuse_unknown(cls: Any, values: Mapping[str, Any]) -> None:
    """Refuse a field that no version of the message has: a misspelt name would be left out in
    silence.

    Raises:
        TypeError: There is such a field; the message names it and the existing ones.
    """
    _refuse((cls, *_siblings(cls)), values, cls.__name__)


@cache
def _siblings(cls: Any) -> tuple[Any, ...]:
    is_request = cls.__header_schema__.__name__ == "RequestHeader"
    find = codec.request_class if is_request else codec.response_class
    by_text = (WriteTxnMarkersRequest,) if cls.__name__ == "WriteTxnMarkersRequest" else ()
    return (*by_text, *(find(cls.__api_key__, version) for version in versions(cls.__api_key__)))


def _refuse(message_classes: tuple[Any, ...], values: Mapping[str, Any], path: str) -> None:
    fields = _fields(message_classes)
    for name, value in values.items():
        if name not in fields:
            raise TypeError(f"{path} has no field {name}; it has {', '.join(sorted(fields))}")
        if inner := fields[name]:
            for element in value if isinstance(value, list | tuple) else [value]:
                if isinstance(element, Mapping):
                    _refuse(inner, element, f"{path}.{name}")


@cache
def _fields(classes: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
    entities: dict[str, tuple[Any, ...]] = {}
    for cls in classes:
        rows = _described(cls)
        for row in (*rows.plain, *rows.tagged):
            entity = (row.entity,) if row.kind == ENTITY else ()
            entities[row.name] = entities.get(row.name, ()) + entity
    return entities


def _build_value(cls: Any, values: Mapping[str, Any]) -> Any:
    rows = _described(cls)
    fields = {}
    for row in (*rows.plain, *rows.tagged):
        if row.name in values:
            fields[row.name] = _field(row, values[row.name])
        elif row.default is REQUIRED:
            fields[row.name] = _zero(row)
    return codec.build(cls, **fields)


def _field(row: FieldRow, value: Any) -> Any:
    if value is None or row.kind != ENTITY:
        return tuple(value) if row.array and value is not None else value
    if row.array:
        return tuple(_build_value(row.entity, element) for element in value)
    return _build_value(row.entity, value)


def _zero(row: FieldRow) -> Any:
    if row.array:
        return ()
    if row.nullable or row.kind == "uuid":
        return None
    return _build_value(row.entity, {}) if row.kind == ENTITY else _ZEROS.get(row.kind, 0)
