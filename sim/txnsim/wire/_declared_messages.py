"""Makes message classes from a few words per field, for messages that kio has no classes for.

The result is like kio's own classes (``wire._schema`` reads it): frozen dataclasses, one per
version. The input has each field once, with the versions that have it, as Kafka's message files
do::

    message("OffsetCommitValue", "A position.", "offset int64", "leader_epoch int32 3+ = -1",
            "topic_id uuid 4+ tag 0 = None", version=4)

A line has a name and a type, and optionally the versions (``2``, ``3+``), a tag and a default. A
type is Kafka's, or one that ``types`` defines by name; ``[]`` in front makes an array, ``?`` after
it makes it nullable. If kio has a class of a similar version, ``remake_class`` derives the new
class from it.
"""

from __future__ import annotations

import re
import uuid
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin

_ANNOTATIONS: Final[dict[str, Any]] = {
    "string": str,
    "bytes": bytes,
    "bool": bool,
    "uuid": uuid.UUID | None,
}
"""Kafka type -> Python type; all other types are numbers."""

_LINE_PATTERN: Final = re.compile(
    r"(?P<name>\w+) (?P<array>\[])?(?P<type>\w+)(?P<nullable>\?)?"
    r"(?: (?P<since>\d+)(?P<open>\+)?)?(?: tag (?P<tag>\d+))?(?: = (?P<default>.+))?"
)
_EMPTY_MAPPING: Final[Mapping[str, Any]] = MappingProxyType({})


def message(
    name: str,
    about: str,
    *declared_lines: str,
    version: int = 0,
    is_flexible: bool = True,
    types: Mapping[str, Any] = _EMPTY_MAPPING,
    class_attributes: Mapping[str, Any] = _EMPTY_MAPPING,
) -> Any:
    """Make one message class.

    Args:
        name: Name of the class.
        about: Its docstring.
        declared_lines: One line for each field, in wire order.
        version: The version; fields of other versions are left out.
        is_flexible: Whether it has tagged fields and compact lengths.
        types: Other classes, and values of defaults, by the names that ``declared_lines`` use.
        class_attributes: Class variables of a message that belongs to an API.

    Raises:
        ValueError: A line has a wrong form.
    """
    field_rows = [
        field_row
        for line in declared_lines
        if (field_row := _parse_field_line(line, version, types)) is not None
    ]
    return _build_class(
        name, field_rows, {"__doc__": about, "__flexible__": is_flexible, **class_attributes}
    )


def remake_class(
    cls: Any, *elements: Any, extra_lines: Sequence[str] = (), **class_attributes: Any
) -> Any:
    """Make a class with the fields of another one.

    Args:
        cls: A class of kio's, or of ours.
        elements: Classes that replace the elements of its arrays with the same names.
        extra_lines: Additional fields at the end, as lines of ``message``.
        class_attributes: Class variables that differ, such as ``version``.

    Raises:
        ValueError: A line has a wrong form.
    """
    element_by_name = {element.__name__: element for element in elements}
    field_rows = []
    for old_field in fields(cls):
        field_type: Any = old_field.type
        if get_origin(field_type) is tuple:
            element: Any = get_args(field_type)[0]
            element = element_by_name.get(element.__name__, element)
            field_type = tuple[element, ...]
        field_rows.append(
            (
                old_field.name,
                field_type,
                field(metadata=old_field.metadata, default=old_field.default),
            )
        )
    version = class_attributes.get("version", cls.__version__)
    field_rows += [
        field_row
        for line in extra_lines
        if (field_row := _parse_field_line(line, version, _EMPTY_MAPPING)) is not None
    ]
    inherited_names = ("doc", "flexible", "version", "api_key", "header_schema")
    return _build_class(
        cls.__name__,
        field_rows,
        {
            f"__{name}__": class_attributes.get(name, getattr(cls, f"__{name}__"))
            for name in inherited_names
        },
    )


def _build_class(
    name: str, field_rows: Sequence[tuple[str, Any, Any]], namespace: Mapping[str, Any]
) -> Any:
    namespace = {"__module__": __name__, **namespace}
    return make_dataclass(
        name, field_rows, namespace=namespace, frozen=True, slots=True, kw_only=True
    )


def versions(
    class_name: str,
    about: str,
    *declared_lines: str,
    flexible_since: int,
    newest_version: int,
    types: Mapping[str, Sequence[Any]] = _EMPTY_MAPPING,
) -> tuple[Any, ...]:
    """Make the classes of versions 0 to ``newest_version``.

    Args:
        class_name: Name of the classes, without their version.
        about: Their docstring.
        declared_lines: One line for each field, as for ``message``.
        flexible_since: The first flexible version.
        newest_version: The last version.
        types: Other classes by name, one per version.
    """
    return tuple(
        message(
            f"{class_name}V{version}",
            about,
            *declared_lines,
            version=version,
            is_flexible=version >= flexible_since,
            types={type_name: classes[version] for type_name, classes in types.items()},
        )
        for version in range(newest_version + 1)
    )


def _parse_field_line(
    line: str, version: int, types: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """(name, annotation, ``field``) of a line; None if the version does not have the field."""
    match = _LINE_PATTERN.fullmatch(line)
    if match is None:
        raise ValueError(f"not a field of a message: {line!r}")
    since_version = int(match["since"] or 0)
    if version < since_version or (
        version > since_version and match["since"] and not match["open"]
    ):
        return None
    kafka_type = match["type"]
    annotation: Any = types.get(kafka_type) or _ANNOTATIONS.get(kafka_type, int)
    if match["array"]:
        annotation = tuple[annotation, ...]
    if match["nullable"]:
        annotation = annotation | None
    field_metadata: dict[str, Any] = {} if kafka_type in types else {"kafka_type": kafka_type}
    if match["tag"]:
        field_metadata["tag"] = int(match["tag"])
    default = match["default"]
    if default is None:
        return match["name"], annotation, field(metadata=field_metadata)
    value = types[default] if default in types else literal_eval(default)
    return match["name"], annotation, field(metadata=field_metadata, default=value)
