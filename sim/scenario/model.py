"""What a scenario file may say.

Steps are named after what they do: ``call``, ``hold``, ``wait-until``, ``release``, ``advance``,
``expect``. Each step has exactly one of them, may say a sentence, and may be meant for some modes,
or for armed or disarmed runs, only. An error names file and field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from sim.errors import ConfigError
from sim.faults.plan import FaultRule

ACTS: Final = ("call", "hold", "wait_until", "release", "advance", "expect")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=False,
    )


def _duration_ms(value: Any) -> Any:
    """``21m``, ``500ms``, ``2h`` as milliseconds."""
    if not isinstance(value, str):
        raise ValueError("expected a duration such as 500ms, 30s, 21m, 2h or 7d")
    number = value.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = value[len(number) :]
    if unit not in _UNITS_MS or not number.isdigit():
        raise ValueError(f"{value!r} is no duration such as 500ms, 30s, 21m, 2h or 7d")
    return int(number) * _UNITS_MS[unit]


def _fault_rule(value: Any) -> Any:
    """The fields of a fault rule; a hold unless it says otherwise."""
    if not isinstance(value, dict):
        raise ValueError("expected the fields of a fault rule")
    try:
        return msgspec.convert({"action": {"do": "hold"}, **value}, FaultRule)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


Milliseconds = Annotated[int, BeforeValidator(_duration_ms)]


class Role(_Model):
    """The producer of the story."""

    transactional_id: str
    client_id: str
    topic: str
    partition: int = 0


class Mode(_Model):
    """One world the story is told in."""

    title: str
    transaction_version: Literal[0, 1, 2]
    verification: bool
    players: tuple[str, ...]
    """Who may play the producer, the preferred one first."""
    verdict: str
    """What an armed run is expected to come to."""


class Call(_Model):
    """Somebody does something."""

    who: Literal["producer", "bystander", "operator"]
    do: str
    value: str = ""
    values: tuple[str, ...] = ()


class Condition(_Model):
    """What is waited for; exactly one."""

    struck: str | None = None
    """A fault rule has struck."""
    transaction: str | None = None
    """DescribeTransactions shows this state; or Empty under a higher epoch, which is where a producer
    that bumps its epoch after an abort (KIP-360) goes from there at once."""
    marker: Literal["written"] | None = None
    """DescribeProducers shows that a marker was written to the producer's partition."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Condition:
        if sum(value is not None for value in (self.struck, self.transaction, self.marker)) != 1:
            raise ValueError("expected exactly one of struck, transaction, marker")
        return self


class Expectation(_Model):
    """A look from outside, kept as facts; the verdict at the end judges them."""

    observe: Literal["after-release", "late-gauge", "after-repair"]


class Step(_Model):
    """One step of a story."""

    say: str = ""
    modes: tuple[str, ...] = ()
    """Only in these modes; in all where empty."""
    armed: bool | None = None
    """Only in armed (true) or disarmed (false) runs."""
    call: Call | None = None
    hold: Annotated[Any, BeforeValidator(_fault_rule)] = None
    wait_until: Condition | None = None
    release: str | None = None
    advance: Milliseconds | None = None
    expect: Expectation | None = None

    @model_validator(mode="after")
    def _exactly_one_act(self) -> Step:
        if sum(getattr(self, act) is not None for act in ACTS) != 1:
            raise ValueError(
                "expected exactly one of call, hold, wait-until, release, advance, expect"
            )
        return self


class Scenario(_Model):
    """One story."""

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    aliases: tuple[str, ...] = ()
    title: str
    goal: str
    method: str
    sources: tuple[str, ...] = ()
    brokers: int = Field(default=3, ge=1, le=15)
    topics: dict[str, int]
    roles: dict[Literal["producer"], Role]
    modes: dict[str, Mode]
    disarmed_verdict: str
    steps: tuple[Step, ...]

    @model_validator(mode="after")
    def _modes_exist(self) -> Scenario:
        for number, step in enumerate(self.steps, 1):
            unknown = [mode for mode in step.modes if mode not in self.modes]
            if unknown:
                raise ValueError(f"step {number} is for mode {unknown[0]}, which is not declared")
        return self

    @property
    def producer(self) -> Role:
        """The producer of the story."""
        return self.roles["producer"]


def read(path: Path, text: str) -> Scenario:
    """The scenario in ``text``.

    Raises:
        ConfigError: It is no scenario; the message names file, line or field.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        problem = getattr(error, "problem", None) or "no YAML"
        raise ConfigError(f"{path}{line}: {problem}") from error
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        lines = _lines(text)
        problems = [
            f"{path}{_at(lines, problem['loc'])}: {_field(problem['loc'])}: {problem['msg']}"
            for problem in error.errors()
        ]
        raise ConfigError("\n".join(problems)) from error


def _field(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "scenario"


def _lines(text: str) -> dict[tuple[int | str, ...], int]:
    """The line of every value in the document, counted from 1."""
    found: dict[tuple[int | str, ...], int] = {}

    def walk(node: yaml.Node, path: tuple[int | str, ...]) -> None:
        found[path] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, (*path, key.value))
                found[(*path, key.value)] = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                walk(value, (*path, index))

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        walk(root, ())
    return found


def _at(lines: dict[tuple[int | str, ...], int], location: tuple[int | str, ...]) -> str:
    """Where that is, or the nearest place around it that has a line."""
    for length in range(len(location), -1, -1):
        line = lines.get(location[:length])
        if line is not None:
            return f", line {line}"
    return ""
