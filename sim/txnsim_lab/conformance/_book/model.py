"""The model of the casebook's files: rules, cases and brokers. A **rule** is one decision of a
broker, in our words, with the answer that shows it. A **case** is a sequence of requests to a
broker; every topic and transactional id gets a name that no other case uses. A step that shows a
rule names it (``row``), and then its answer must hold one of the rule's errors.
``tests/conformance/CASES.md`` describes the form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from txnsim.errors import ErrorCode

TXN_LEVELS: Final = (0, 1, 2)
"""Levels of ``transaction.version``."""
CLOSED: Final = "CLOSED"
SILENT: Final = "SILENT"
"""Stands for no answer: the broker does not respond."""

_REQUEST_RE: Final = re.compile(r"([A-Z]\w+) v(\d+|\$\w+)")

TxnLevel = Literal[0, 1, 2]


def _as_list(value: Any) -> Any:
    """A single value as a list, where a file may have one or several."""
    return value if isinstance(value, list) else [value]


OneOrMore = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
TxnLevels = Annotated[tuple[TxnLevel, ...], Field(min_length=1)]


class CasebookPart(BaseModel):
    """A part of a file; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Rules


class RecordedProof(CasebookPart):
    """Requests whose recorded answers show a rule, in a transcript that belongs to no case."""

    file: str
    """The file below ``transcripts/``, without ``.jsonl``: a story, or ``security/denied``."""
    asked: Annotated[OneOrMore, Field(min_length=1)]
    says: str = ""


class ProofElsewhere(CasebookPart):
    """Why no case shows a rule, and what shows the rule instead."""

    why: str
    test: str = ""
    """The test that shows it: ``path/of/test_file.py::test_name``."""
    recorded: tuple[RecordedProof, ...] = ()
    """Other recordings of a real Apache Kafka that show the rule."""
    deviation: str = ""
    """The beginning of the sentence in DEVIATIONS.md which says that txnsim lacks the rule."""

    @model_validator(mode="after")
    def _check_one_proof(self) -> ProofElsewhere:
        if sum(map(bool, (self.test, self.recorded, self.deviation))) != 1:
            raise ValueError("needs one of test, recorded, deviation")
        return self


class Rule(CasebookPart):
    """One decision of a broker."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+(\.[A-Za-z0-9-]+)+$")]
    says: str
    answers: tuple[str, ...] = ("NONE",)
    """Possible answers of a step that shows the rule, as Kafka's names of errors. ``CLOSED`` and
    ``SILENT`` if there is no answer.
    """
    source: str = ""
    """Kafka's class and method that decide; by default those that the file names."""
    decided_in: Annotated[OneOrMore, Field(min_length=1)]
    """Our function that decides it, as ``module:qualified name``; several if versions of a request,
    or types of groups, are decided in different places.
    """
    levels: TxnLevels = TXN_LEVELS
    elsewhere: ProofElsewhere | None = None

    @model_validator(mode="after")
    def _check_answer_names(self) -> Rule:
        for answer_name in self.answers:
            if (
                answer_name not in (CLOSED, SILENT)
                and answer_name.lower() not in ErrorCode.__members__
            ):
                raise ValueError(f"{answer_name} is no error of Kafka")
        return self


class RuleFile(CasebookPart):
    """A file ``rules/*.yaml`` with the rules of one subject."""

    title: str
    about: str = ""
    source: str
    plays: OneOrMore = ()
    """Tests that play recorded answers of a real Kafka or of one of its classes,
    ``path/of/test_file.py::test_name``: besides their cases these hold the rules of this file.
    """
    rules: tuple[Rule, ...]


# Brokers


class BrokerConfig(CasebookPart):
    """A broker configuration that cases need."""

    about: str
    brokers: int = 1
    properties: Mapping[str, str] = {}
    """Properties of both brokers, in addition to those of ``default``."""
    kafka_only: Mapping[str, str] = {}
    levels: TxnLevels = TXN_LEVELS
    """Levels of ``transaction.version`` with which these brokers are started."""


class BrokerFile(CasebookPart):
    """The file ``cases/brokers.yaml``: broker configurations by name."""

    brokers: Mapping[str, BrokerConfig]


# Cases


class InitialTopic(CasebookPart):
    """A topic that is created before the first step."""

    partitions: int = 1
    configs: Mapping[str, str] = {}


class CaseStep(CasebookPart):
    """A request, in full or by its verb, and how its answer is checked and saved."""

    verb: str
    """``EndTxn v5``, or a verb of ``verbs``."""
    given: Any = None
    row: OneOrMore = ()
    """Ids of the rules that this answer shows."""
    note: str = ""
    """Text for the transcript, instead of the parameters."""
    save: str | Mapping[str, str] = ""
    """Name of a producer that takes the identity from the answer; or names with paths into the
    answer.
    """
    until: Mapping[str, Any] = {}
    settled: bool = False
    parts: OneOrMore = ()
    promptly: bool = False
    """Whether the step must succeed before something times out; otherwise the case is played
    again.
    """
    quiet: bool = False
    """Whether the answer is left out of the transcript."""
    silent: bool = False
    """Whether no answer is expected; the request then has its own connection."""
    later: str = ""
    """Name under which a later step ``answer: NAME`` reads the answer; also the name of the
    connection.
    """
    times: int = 1
    """How often the step is played; ``$nth`` is then n1, n2, …, as names of later answers end."""
    closes: bool = False
    via: str = ""
    """The broker to send to: ``coordinator of p``, ``leader of t.0``, with ``not`` a different one;
    ``broker 2``.
    """
    over: str = ""
    """Name of the connection to send on; by default the case's own connection."""
    levels: TxnLevels = TXN_LEVELS
    when: Mapping[str, tuple[Any, ...]] = {}
    """Values of the varied names with which the step is played."""
    racy: str = ""
    """Why a real broker gives different answers at different times."""

    @model_validator(mode="before")
    @classmethod
    def _separate_verb(cls, step_fields: Any) -> Any:
        if not isinstance(step_fields, dict):
            raise ValueError("a step is a mapping")
        verbs = [key for key in step_fields if key not in cls.model_fields]
        if len(verbs) != 1:
            raise ValueError(f"a step has one verb, not {verbs}")
        fields = {key: field_value for key, field_value in step_fields.items() if key != verbs[0]}
        return {**fields, "verb": verbs[0], "given": step_fields[verbs[0]]}

    @property
    def request(self) -> tuple[str, str] | None:
        """API and version, if the verb is a request in full."""
        match = _REQUEST_RE.fullmatch(self.verb)
        return None if match is None else (match[1], match[2])

    def is_played(self, level: int, chosen: Mapping[str, Any]) -> bool:
        """Whether the step is played at a level, with the chosen values."""
        return level in self.levels and all(
            chosen[variable] in values for variable, values in self.when.items()
        )


class CaseText(CasebookPart):
    """A case as a file has it; with ``vary`` it stands for several cases."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    about: str = ""
    levels: TxnLevels = TXN_LEVELS
    alone: bool = False
    """Whether the case changes the broker for others, so that no other case may run."""
    vary: Mapping[str, tuple[Any, ...]] = {}
    topics: Mapping[str, InitialTopic | int] = {}
    """Topics by name; a number is the number of partitions."""
    steps: Annotated[tuple[CaseStep, ...], Field(min_length=1)]


class CaseFile(CasebookPart):
    """A file ``cases/*/*.yaml`` with the cases of one subject."""

    title: str
    about: str = ""
    broker: str = "default"
    alone: bool = False
    cases: tuple[CaseText, ...]
