"""Reads the files of the casebook, or reports errors with file and field."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml
from pydantic import BaseModel, ValidationError

from txnsim.errors import ConfigError
from txnsim_lab.conformance._book.model import (
    BrokerConfig,
    BrokerFile,
    CaseFile,
    CaseStep,
    CaseText,
    Rule,
    RuleFile,
    TopicWanted,
)

BOOK: Final = Path(__file__).parents[1] / "casebook"
CASES: Final = BOOK / "cases"
RULES: Final = BOOK / "rules"
BROKERS: Final = CASES / "brokers.yaml"

_LOADER: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
"""Uses libyaml if available: every worker of a test run reads the casebook, and libyaml is ten
times as fast. It accepts duplicate keys; ``test_casebook`` does not.
"""

Model = TypeVar("Model", bound=BaseModel)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence of requests, with one choice of values for what its text varies."""

    file: str
    """Path of the file without ``.yaml``: ``coordinator/end_txn``."""
    name: str
    text: CaseText
    chosen: Mapping[str, Any]
    broker: str
    alone: bool
    """Whether no other case may be played at the same time."""

    @property
    def id(self) -> str:
        """Unique in the casebook."""
        return f"{self.file}/{self.name}"

    def steps(self, level: int) -> list[CaseStep]:
        """The steps that are played at a level."""
        return [step for step in self.text.steps if step.happens(level, self.chosen)]

    def rows(self, level: int) -> set[str]:
        """The rules that the case shows at a level."""
        if level not in self.text.levels:
            return set()
        return {row for step in self.steps(level) for row in step.row}

    def topics(self) -> dict[str, TopicWanted]:
        return {
            name: TopicWanted(partitions=topic) if isinstance(topic, int) else topic
            for name, topic in self.text.topics.items()
        }


@cache
def cases() -> tuple[Case, ...]:
    """Every case, in the order of the files."""
    read_cases: list[Case] = []
    for path in case_files():
        file = _read(path, CaseFile)
        name = path.relative_to(CASES).with_suffix("").as_posix()
        for text in file.cases:
            read_cases += _variants(name, text, file)
    _no_twice(case.id for case in read_cases)
    return tuple(read_cases)


def choose_cases(names: Sequence[str]) -> list[Case]:
    return [
        case
        for case in cases()
        if not names
        or any(case.id == name or case.id.startswith((f"{name}/", f"{name}-")) for name in names)
    ]


@cache
def rules() -> dict[str, tuple[RuleFile, Rule]]:
    rules_read = [(file, rule) for file in rule_files() for rule in file.rules]
    _no_twice(rule.id for _, rule in rules_read)
    return {rule.id: (file, rule) for file, rule in rules_read}


@cache
def rule_files() -> tuple[RuleFile, ...]:
    """All files of rules, sorted."""
    return tuple(_read(path, RuleFile) for path in sorted(RULES.glob("*.yaml")))


@cache
def brokers() -> dict[str, BrokerConfig]:
    """The broker configurations by name, each including the properties of ``default``."""
    configs = dict(_read(BROKERS, BrokerFile).brokers)
    common = configs["default"]
    return {
        name: config.model_copy(
            update={
                "properties": {**common.properties, **config.properties},
                "kafka_only": {**common.kafka_only, **config.kafka_only},
            }
        )
        for name, config in configs.items()
    }


def case_files() -> list[Path]:
    """All files with cases."""
    return sorted(CASES.glob("*/*.yaml"))


def all_files() -> list[Path]:
    """All files of the casebook that are written by hand."""
    return [*case_files(), *sorted(RULES.glob("*.yaml")), BROKERS]


def _variants(name: str, text: CaseText, file: CaseFile) -> Iterator[Case]:
    """One case for each combination of values; named after the values, or after their indexes if
    they are no names.
    """
    for numbered in itertools.product(
        *(list(enumerate(values_of_name)) for values_of_name in text.vary.values())
    ):
        values = [value for _, value in numbered]
        parts = [
            _part(key, index, value)
            for key, (index, value) in zip(text.vary, numbered, strict=True)
        ]
        yield Case(
            file=name,
            name="-".join([text.name, *parts]),
            text=text,
            chosen=dict(zip(text.vary, values, strict=True)),
            broker=file.broker,
            alone=file.alone or text.alone,
        )


def _part(key: str, index: int, value: Any) -> str:
    text = str(value).lower()
    if not re.fullmatch(r"-?[a-z0-9_]+", text):
        return f"{key}-{index + 1}"
    return f"v{text}" if key == "v" else text.replace("_", "-")


def _no_twice(names: Iterator[str]) -> None:
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            raise ConfigError(f"{name} is there twice")
        earlier.add(name)


def _read(path: Path, model: type[Model]) -> Model:
    content = yaml.load(path.read_bytes(), Loader=_LOADER)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        from txnsim_lab.scenario.scenario_reader import parse_document

        _, lines = parse_document(path.name, path.read_text("utf-8"))
        raise ConfigError(
            "\n".join(_problem(path.name, problem, lines) for problem in error.errors())
        ) from None


def _problem(file: str, problem: Any, lines: Mapping[tuple[str | int, ...], int]) -> str:
    path = tuple(problem["loc"])
    nearest = path
    while nearest and nearest not in lines:
        nearest = nearest[:-1]
    return f"{file}:{lines.get(nearest, 1)}: {'.'.join(map(str, path))}: {problem['msg']}"
