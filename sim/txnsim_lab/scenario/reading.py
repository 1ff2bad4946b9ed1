"""From a YAML file to a scenario, or to errors that say file, line and field.

What the model can't see by itself, because it concerns two places of the file, is checked in
``consistency``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Final

import yaml
from pydantic import ValidationError

from txnsim.config.complaints import in_words, members_of, place_of, without_other_kinds
from txnsim.config.yaml_bounds import composed
from txnsim.errors import ConfigError
from txnsim_lab.scenario._consistency import Place, contradictions
from txnsim_lab.scenario._notation.blocks import PARTS, rolled_out
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.steps_model import Step

_MEMBERS: Final = members_of(Scenario)


def read(file: str, text: str) -> Scenario:
    """The scenario in ``text``.

    Raises:
        ConfigError: It is no scenario; one line per problem, with file, line and field.
    """
    document, lines = parsed(file, text)
    document, origins, problems = rolled_out(document)
    if problems:
        raise place_error(file, lines, problems)
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        found = without_other_kinds(map(_explained, error.errors()))
        raise place_error(
            file, lines, [(origins.of(place), words) for place, words in found]
        ) from None
    problems = [(origins.of(place), words) for place, words in contradictions(scenario)]
    if problems:
        raise place_error(file, lines, problems)
    for part in PARTS:
        for number, step in enumerate(getattr(scenario, part)):
            place = origins.of((part, number))
            unit = origins.units.get((part, number))
            if unit is not None:
                step.stands_in(unit)
            step.stands_at(f"{PurePath(file).name}:{_line(lines, place)}: {_field(place)}")
    return scenario


def read_step(data: object) -> Step:
    """A single step, as a story's file has it.

    Raises:
        ConfigError: It is none; one line per problem, with its field.
    """
    try:
        return Step.model_validate(data)
    except ValidationError as error:
        problems = sorted(
            set(without_other_kinds(_explained(problem, Step) for problem in error.errors()))
        )
        raise ConfigError(
            "\n".join(
                f"step: {'.'.join(map(str, place)) or 'it'}: {words}" for place, words in problems
            )
        ) from None


# Errors with their lines


def place_error(
    file: str, lines: dict[Place, int], problems: Iterable[tuple[Place, str]]
) -> ConfigError:
    """One line per problem, with file, line and field."""
    found = sorted({(_line(lines, place), _field(place), message) for place, message in problems})
    return ConfigError(
        "\n".join(f"{file}:{line}: {field}: {message}" for line, field, message in found)
    )


def _explained(problem: Any, model: type[Scenario] | type[Step] = Scenario) -> tuple[Place, str]:
    return place_of(problem, _MEMBERS), in_words(problem, model=model)


def _field(place: Place) -> str:
    return ".".join(str(part) for part in place) or "scenario"


def _line(lines: dict[Place, int], place: Place) -> int:
    """Line of a place, or of the nearest enclosing place that has a line."""
    if place not in lines:  # in its other spelling, perhaps
        lines, place = {_hyphened(one): line for one, line in lines.items()}, _hyphened(place)
    while place not in lines:
        place = place[:-1]
    return lines[place]


def _hyphened(place: Place) -> Place:
    return tuple(part.replace("_", "-") if isinstance(part, str) else part for part in place)


# YAML


def parsed(file: str, text: str) -> tuple[dict[Any, Any], dict[Place, int]]:
    """The document and the line of every value in it, counted from 1.

    Raises:
        ConfigError: It is no YAML, or no mapping.
    """
    lines: dict[Place, int] = {(): 1}
    try:
        bounded, root = composed(text, file=file)
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
