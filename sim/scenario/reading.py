"""From a YAML file to a scenario, or to errors that say file, line and field.

What the model can't see by itself, because it concerns two places of the file, is checked here:
names that are used must be declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from sim.check.verdicts import DECLARABLE, JUDGES
from sim.errors import ConfigError
from sim.scenario.model import CALLS, Call, Scenario
from sim.scenario.players.base import PLAYERS
from sim.scenario.suggestions import unknown

Place = tuple[int | str, ...]
"""Keys and positions from the top of the document down."""


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


def contradictions(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """What does not fit together, with its place."""
    topics, role = scenario.topics, scenario.producer
    if role.topic not in topics:
        yield ("roles", "producer", "topic"), unknown("topic", role.topic, topics)
    elif not 0 <= role.partition < topics[role.topic]:
        yield (
            ("roles", "producer", "partition"),
            f"topic {role.topic} has the partitions 0 to {topics[role.topic] - 1}",
        )
    if scenario.judge not in JUDGES:
        yield ("judge",), unknown("judge", scenario.judge, JUDGES)
    if scenario.disarmed_verdict not in DECLARABLE:
        yield ("disarmed-verdict",), unknown("verdict", scenario.disarmed_verdict, DECLARABLE)
    for name, mode in scenario.modes.items():
        if mode.verdict not in DECLARABLE:
            yield ("modes", name, "verdict"), unknown("verdict", mode.verdict, DECLARABLE)
        elif mode.verdict == scenario.disarmed_verdict:
            yield (
                ("modes", name, "verdict"),
                "a run with the fault must come to another verdict than one without",
            )
        for at, player in enumerate(mode.players):
            if player not in PLAYERS:
                yield ("modes", name, "players", at), unknown("player", player, PLAYERS)
    yield from _contradictory_steps(scenario)


def _contradictory_steps(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    rules: list[str] = []
    observed: list[str] = []
    for at, step in enumerate(scenario.steps):
        for place, mode in enumerate(step.modes):
            if mode not in scenario.modes:
                yield ("steps", at, "modes", place), unknown("mode", mode, scenario.modes)
        if step.hold is not None:
            if step.hold.id in rules:
                yield ("steps", at, "hold", "id"), f"{step.hold.id} is held by a step before"
            rules.append(step.hold.id)
        if step.release is not None and step.release not in rules:
            yield ("steps", at, "release"), _not_held(step.release, rules)
        struck = None if step.wait_until is None else step.wait_until.struck
        if struck is not None and struck not in rules:
            yield ("steps", at, "wait-until", "struck"), _not_held(struck, rules)
        if step.expect is not None:
            observed.append(step.expect.observe)
            if observed[-1].startswith("after-") and "reader-position" not in observed:
                yield ("steps", at, "expect", "observe"), "needs a step before: reader-position"
        if step.call is not None:
            yield from _contradictory_call(("steps", at, "call"), step.call)


def _not_held(rule: str, rules: list[str]) -> str:
    return unknown("rule", rule, rules) if rules else f"no step before holds {rule!r}"


def _contradictory_call(place: Place, call: Call) -> Iterator[tuple[Place, str]]:
    can = CALLS[call.who]
    if call.do not in can:
        yield (*place, "do"), unknown(f"call of {call.who}", call.do, can)
    if (call.do == "send") != bool(call.value):
        yield (*place, "do"), "send, and nothing else, takes a value"
    if (call.do == "append") != bool(call.values):
        yield (*place, "do"), "append, and nothing else, takes values"


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
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{file}:1: scenario: expected a mapping of fields")
        _collect(root, (), lines, file)
        document: dict[Any, Any] = loader.construct_document(root)
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
