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

_ZERO_VALUES: Final[dict[str, object]] = {"string": "", "bool": False, "bytes": b"", "records": b""}

_cached_rows = cache(describe)


def message_from(cls: Any, plain_values: Mapping[str, Any]) -> Any:
    """A message of a class from plain values; dicts become the classes of their fields.

    Raises:
        TypeError: No version of the message has a field of that name.
    """
    refuse_unknown(cls, plain_values)
    return _build_value(cls, plain_values)


def refuse_unknown(cls: Any, plain_values: Mapping[str, Any]) -> None:
    """Refuse a field that no version of the message has: a misspelt name would be left out in
    silence.

    Raises:
        TypeError: There is such a field; the message names it and the existing ones.
    """
    _refuse_unknown_fields((cls, *_classes_of_all_versions(cls)), plain_values, cls.__name__)


@cache
def _classes_of_all_versions(cls: Any) -> tuple[Any, ...]:
    is_request = cls.__header_schema__.__name__ == "RequestHeader"
    class_of_version = codec.request_class if is_request else codec.response_class
    kip_text_classes = (WriteTxnMarkersRequest,) if cls.__name__ == "WriteTxnMarkersRequest" else ()
    return (
        *kip_text_classes,
        *(class_of_version(cls.__api_key__, version) for version in versions(cls.__api_key__)),
    )


def _refuse_unknown_fields(
    message_classes: tuple[Any, ...], values: Mapping[str, Any], path: str
) -> None:
    fields = _entities_by_field(message_classes)
    for field_name, value in values.items():
        if field_name not in fields:
            raise TypeError(f"{path} has no field {field_name}; it has {', '.join(sorted(fields))}")
        if inner_classes := fields[field_name]:
            for element in value if isinstance(value, list | tuple) else [value]:
                if isinstance(element, Mapping):
                    _refuse_unknown_fields(inner_classes, element, f"{path}.{field_name}")


@cache
def _entities_by_field(classes: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
    entities_by_field: dict[str, tuple[Any, ...]] = {}
    for cls in classes:
        entity_rows = _cached_rows(cls)
        for field_row in (*entity_rows.plain, *entity_rows.tagged):
            entity = (field_row.entity,) if field_row.kind == ENTITY else ()
            entities_by_field[field_row.name] = entities_by_field.get(field_row.name, ()) + entity
    return entities_by_field


def _build_value(cls: Any, values: Mapping[str, Any]) -> Any:
    entity_rows = _cached_rows(cls)
    field_values = {}
    for field_row in (*entity_rows.plain, *entity_rows.tagged):
        if field_row.name in values:
            field_values[field_row.name] = _field_value(field_row, values[field_row.name])
        elif field_row.default is REQUIRED:
            field_values[field_row.name] = _zero_value(field_row)
    return codec.build(cls, **field_values)


def _field_value(row: FieldRow, value: Any) -> Any:
    if value is None or row.kind != ENTITY:
        return tuple(value) if row.array and value is not None else value
    if row.array:
        return tuple(_build_value(row.entity, element) for element in value)
    return _build_value(row.entity, value)


def _zero_value(row: FieldRow) -> Any:
    if row.array:
        return ()
    if row.nullable or row.kind == "uuid":
        return None
    return _build_value(row.entity, {}) if row.kind == ENTITY else _ZERO_VALUES.get(row.kind, 0)
