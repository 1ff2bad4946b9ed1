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
    InitialTopic,
    Rule,
    RuleFile,
)

CASEBOOK_FOLDER: Final = Path(__file__).parents[1] / "casebook"
CASES_FOLDER: Final = CASEBOOK_FOLDER / "cases"
RULES_FOLDER: Final = CASEBOOK_FOLDER / "rules"
BROKERS_FILE: Final = CASES_FOLDER / "brokers.yaml"

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
    chosen_values: Mapping[str, Any]
    broker: str
    plays_alone: bool
    """Whether no other case may be played at the same time."""

    @property
    def id(self) -> str:
        """The case's id, unique in the casebook."""
        return f"{self.file}/{self.name}"

    def steps(self, level: int) -> list[CaseStep]:
        """The steps that are played at a level."""
        return [step for step in self.text.steps if step.is_played(level, self.chosen_values)]

    def rule_ids(self, level: int) -> set[str]:
        """The rules that the case shows at a level."""
        if level not in self.text.levels:
            return set()
        return {row for step in self.steps(level) for row in step.row}

    def topics(self) -> dict[str, InitialTopic]:
        return {
            name: InitialTopic(partitions=topic) if isinstance(topic, int) else topic
            for name, topic in self.text.topics.items()
        }


@cache
def cases() -> tuple[Case, ...]:
    """Every case, in the order of the files."""
    read_cases: list[Case] = []
    for path in case_files():
        file = _read_yaml(path, CaseFile)
        file_name = path.relative_to(CASES_FOLDER).with_suffix("").as_posix()
        for case_text in file.cases:
            read_cases += _variants(file_name, case_text, file)
    _refuse_duplicates(case.id for case in read_cases)
    return tuple(read_cases)


def choose_cases(wanted_names: Sequence[str]) -> list[Case]:
    return [
        case
        for case in cases()
        if not wanted_names
        or any(
            case.id == wanted_name or case.id.startswith((f"{wanted_name}/", f"{wanted_name}-"))
            for wanted_name in wanted_names
        )
    ]


@cache
def rules() -> dict[str, tuple[RuleFile, Rule]]:
    rules_read = [(rule_file, rule) for rule_file in rule_files() for rule in rule_file.rules]
    _refuse_duplicates(rule.id for _, rule in rules_read)
    return {rule.id: (rule_file, rule) for rule_file, rule in rules_read}


@cache
def rule_files() -> tuple[RuleFile, ...]:
    """All files of rules, sorted."""
    return tuple(_read_yaml(path, RuleFile) for path in sorted(RULES_FOLDER.glob("*.yaml")))


@cache
def broker_configs() -> dict[str, BrokerConfig]:
    """The broker configurations by name, each including the properties of ``default``."""
    configs = dict(_read_yaml(BROKERS_FILE, BrokerFile).brokers)
    default_config = configs["default"]
    return {
        config_name: config.model_copy(
            update={
                "properties": {**default_config.properties, **config.properties},
                "kafka_only": {**default_config.kafka_only, **config.kafka_only},
            }
        )
        for config_name, config in configs.items()
    }


def case_files() -> list[Path]:
    return sorted(CASES_FOLDER.glob("*/*.yaml"))


def all_files() -> list[Path]:
    """All files of the casebook that are written by hand."""
    return [*case_files(), *sorted(RULES_FOLDER.glob("*.yaml")), BROKERS_FILE]


def _variants(file_name: str, case_text: CaseText, file: CaseFile) -> Iterator[Case]:
    """One case for each combination of values; named after the values, or after their indexes if
    they are no names.
    """
    for numbered_values in itertools.product(
        *(list(enumerate(values_of_name)) for values_of_name in case_text.vary.values())
    ):
        values = [value for _, value in numbered_values]
        name_parts = [
            _name_part(variable, index, value)
            for variable, (index, value) in zip(case_text.vary, numbered_values, strict=True)
        ]
        yield Case(
            file=file_name,
            name="-".join([case_text.name, *name_parts]),
            text=case_text,
            chosen_values=dict(zip(case_text.vary, values, strict=True)),
            broker=file.broker,
            plays_alone=file.alone or case_text.alone,
        )


def _name_part(variable: str, index: int, value: Any) -> str:
    value_text = str(value).lower()
    if not re.fullmatch(r"-?[a-z0-9_]+", value_text):
        return f"{variable}-{index + 1}"
    return f"v{value_text}" if variable == "v" else value_text.replace("_", "-")


def _refuse_duplicates(identifiers: Iterator[str]) -> None:
    earlier_identifiers: set[str] = set()
    for identifier in identifiers:
        if identifier in earlier_identifiers:
            raise ConfigError(f"{identifier} is there twice")
        earlier_identifiers.add(identifier)


def _read_yaml(path: Path, model: type[Model]) -> Model:
    content = yaml.load(path.read_bytes(), Loader=_LOADER)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        from txnsim_lab.scenario.scenario_reader import parse_document

        _, line_by_path = parse_document(path.name, path.read_text("utf-8"))
        raise ConfigError(
            "\n".join(_problem_line(path.name, problem, line_by_path) for problem in error.errors())
        ) from None


def _problem_line(
    file: str, problem: Any, line_by_path: Mapping[tuple[str | int, ...], int]
) -> str:
    field_path = tuple(problem["loc"])
    nearest_path = field_path
    while nearest_path and nearest_path not in line_by_path:
        nearest_path = nearest_path[:-1]
    line_number = line_by_path.get(nearest_path, 1)
    return f"{file}:{line_number}: {'.'.join(map(str, field_path))}: {problem['msg']}"
