"""Validation errors of pydantic, reworded for the author of the file.

pydantic words them by its types (``Extra inputs are not permitted``, ``Input should be a valid
string``). The counterpart for values that ``msgspec`` reads is ``txnsim.value_errors``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin

from txnsim.errors import in_short
from txnsim.text import unknown_word_message

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Place = tuple[str | int, ...]

_EXPECTED_BY_ERROR_TYPE: Final[Mapping[str, str]] = {
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "fields, as NAME: VALUE",
    "model": "fields, as NAME: VALUE",
    "mapping": "fields, as NAME: VALUE",
}
"""What was expected, by the beginning of an error's type."""
_BOUND_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def place_of(detail: Any, member_names: frozenset[str] = frozenset()) -> Place:
    """The place of an error in the file.

    Args:
        detail: An element of ``ValidationError.errors()``.
        member_names: Names that pydantic inserts into the path for alternatives (``members_of``).
    """
    return tuple(
        path_part
        for path_part in detail["loc"]
        if path_part != "[key]" and path_part not in member_names
    )


def problems_in(error: ValidationError, model: type[BaseModel]) -> list[tuple[Place, str]]:
    """Validation errors of pydantic as pairs of place and sentence."""
    member_names = members_of(model)
    return without_other_kinds(
        (place_of(detail, member_names), in_words(detail, model=model)) for detail in error.errors()
    )


@cache
def members_of(model: type[BaseModel]) -> frozenset[str]:
    """Names of the alternative kinds below a model."""
    member_names: set[str] = set()
    annotations_seen: set[Any] = set()

    def look(annotation: Any) -> None:
        if annotation in annotations_seen:
            return
        annotations_seen.add(annotation)
        if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
            for field in annotation.model_fields.values():
                look(field.annotation)
        alternatives = get_args(annotation)
        if get_origin(annotation) in (Union, UnionType):
            member_names.update(
                alternative.__name__
                for alternative in alternatives
                if isinstance(alternative, type)
            )
        for alternative in alternatives:
            look(alternative)

    look(model)
    return frozenset(member_names)


def without_other_kinds(problems: Iterable[tuple[Place, str]]) -> list[tuple[Place, str]]:
    """Drop the complaint about a value's type if there are errors about fields inside the value."""
    problem_list = list(problems)
    return [
        (path, message)
        for path, message in problem_list
        if not message.startswith("expected a")
        or not any(
            len(other_path) > len(path) and other_path[: len(path)] == path
            for other_path, _ in problem_list
        )
    ]


def in_words(detail: Any, *, model: type[BaseModel]) -> str:
    error_type, value_given = str(detail["type"]), detail["input"]
    path = place_of(detail)
    context = detail.get("ctx", {})
    if error_type == "extra_forbidden":
        return unknown_word_message("field", str(path[-1]), fields_beside(path, model))
    if error_type == "missing":
        return "is missing"
    if error_type == "literal_error":
        allowed_values = _allowed_values(path, model)
        if isinstance(value_given, str):
            return unknown_word_message("value", value_given, allowed_values)
        return f"expected one of {', '.join(allowed_values)}, found {in_short(value_given)}"
    if error_type in _BOUND_WORDS:
        bound_name, bound_words = _BOUND_WORDS[error_type]
        bound_value = context[bound_name]
        bound_text = (
            f"{int(bound_value)}" if bound_value == int(bound_value) else f"{bound_value:g}"
        )
        return f"expected {bound_words} {bound_text}, found {in_short(value_given)}"
    if error_type == "string_pattern_mismatch":
        return f"expected a text of the form {context['pattern']}, found {in_short(value_given)}"
    if error_type == "value_error":
        return str(detail["msg"]).removeprefix("Value error, ")
    expected_kind = _EXPECTED_BY_ERROR_TYPE.get(error_type.partition("_")[0])
    if expected_kind is None:
        return f"{detail['msg']}, not {in_short(value_given)}"
    return f"expected {expected_kind}, found {in_short(value_given)}"


def fields_beside(path: Place, model: type[BaseModel]) -> tuple[str, ...]:
    for path_part in path[:-1]:
        field = _field_info(path_part, model)
        inner_model = None if field is None else _model_in(field.annotation)
        model = inner_model or model
    return tuple(str(field.alias or name) for name, field in model.model_fields.items())


def _allowed_values(path: Place, model: type[BaseModel]) -> tuple[str, ...]:
    """The allowed values of a ``Literal`` field."""
    annotation: Any = None
    for path_part in path:
        field = _field_info(path_part, model)
        if field is not None:
            annotation = field.annotation
            model = _model_in(annotation) or model
    return tuple(_literal_values(annotation))


def _literal_values(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(literal_value) for literal_value in get_args(annotation)]
    return [
        literal_value
        for inner_annotation in get_args(annotation)
        for literal_value in _literal_values(inner_annotation)
    ]


def _field_info(path_part: str | int, model: type[BaseModel]) -> Any:
    return next(
        (
            model_field
            for name, model_field in model.model_fields.items()
            if path_part in (model_field.alias, name)
        ),
        None,
    )


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of a field, possibly wrapped; None for plain values."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
