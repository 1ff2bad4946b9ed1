"""From a YAML file to a scenario, or to errors that say file, line and field.

What the model can't see by itself, because it concerns two places of the file, is checked in
``consistency``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from txnsim.config.yaml_bounds import loader
from txnsim.errors import ConfigError
from txnsim.scenario.consistency import Place, contradictions
from txnsim.scenario.model import Scenario
from txnsim.scenario.suggestions import unknown


def read(file: str, text: str) -> Scenario:
    """The scenario in ``text``.

    Args:
        file: What errors call it.
        text: Its content.

    Raises:
        ConfigError: It is no scenario; one line per problem, with file, line and field.
    """
    document, lines = _parse(file, text)
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        problems = [_explained(problem) for problem in error.errors()]
        raise _error(file, lines, problems) from None
    problems = list(contradictions(scenario))
    if problems:
        raise _error(file, lines, problems)
    return scenario


# Errors with their lines


def _error(
    file: str, lines: dict[Place, int], problems: Iterable[tuple[Place, str]]
) -> ConfigError:
    found = sorted({(_line(lines, place), _field(place), message) for place, message in problems})
    return ConfigError(
        "\n".join(f"{file}:{line}: {field}: {message}" for line, field, message in found)
    )


def _explained(problem: Any) -> tuple[Place, str]:
    place: Place = tuple(part for part in problem["loc"] if part != "[key]")
    if problem["type"] == "extra_forbidden":
        return place, unknown("field", str(place[-1]), _fields_beside(place))
    return place, str(problem["msg"]).removeprefix("Value error, ")


def _fields_beside(place: Place) -> tuple[str, ...]:
    """The fields that may stand where ``place`` stands."""
    model: type[BaseModel] = Scenario
    for part in place[:-1]:
        field = next((f for f in model.model_fields.values() if f.alias == part), None)
        inner = None if field is None else _model_in(field.annotation)
        model = inner or model
    return tuple(str(field.alias) for field in model.model_fields.values())


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds, however wrapped; None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _field(place: Place) -> str:
    return ".".join(str(part) for part in place) or "scenario"


def _line(lines: dict[Place, int], place: Place) -> int:
    """Where that is, or the nearest place around it that has a line."""
    while place not in lines:
        place = place[:-1]
    return lines[place]


# YAML


def _parse(file: str, text: str) -> tuple[dict[Any, Any], dict[Place, int]]:
    """The document and the line of every value in it, counted from 1."""
    lines: dict[Place, int] = {(): 1}
    try:
        bounded = loader(text, file=file)
        root = bounded.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{file}:1: scenario: expected a mapping of fields")
        _collect(root, (), lines, file)
        document: dict[Any, Any] = bounded.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}:{line}: no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}:1: no YAML: {error}") from None
    return document, lines


def _collect(node: yaml.Node, place: Place, lines: dict[Place, int], file: str) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*place, str(key.value))
            line = key.start_mark.line + 1
            if here in lines:
                raise ConfigError(
                    f"{file}:{line}: {_field(here)}: given twice, first on line {lines[here]}"
                )
            lines[here] = line
            _collect(value, here, lines, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _collect(value, (*place, index), lines, file)
