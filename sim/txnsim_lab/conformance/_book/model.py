"""What the files of the casebook may say: rules, cases and brokers.

A **rule** is one row of what a broker decides, in our words, with the answer that shows it. A
**case** is a sequence of requests, played to a fresh corner of a broker: every topic and
transactional id gets a name of its own. A step that shows a rule names it (``row``), and then its
answer must hold one of the rule's errors. The form is told in ``tests/conformance/CASES.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from txnsim.errors import ErrorCode

LEVELS: Final = (0, 1, 2)
"""Of ``transaction.version``."""
CLOSED: Final = "CLOSED"
SILENT: Final = "SILENT"
"""What a broker may do instead of answering."""

_REQUEST: Final = re.compile(r"([A-Z]\w+) v(\d+|\$\w+)")

Level = Literal[0, 1, 2]


def _as_list(value: Any) -> Any:
    """One or several."""
    return value if isinstance(value, list) else [value]


Several = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Levels = Annotated[tuple[Level, ...], Field(min_length=1)]


class CasebookPart(BaseModel):
    """A piece of a file; what it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Rules


class Recorded(CasebookPart):
    """Questions of another transcript than those of cases, whose answers show a rule."""

    file: str
    """Below ``transcripts/``, without ``.jsonl``: a story, or ``security/denied``."""
    asked: Annotated[Several, Field(min_length=1)]
    says: str = ""


class Elsewhere(CasebookPart):
    """Why no case shows a rule, and what does instead."""

    why: str
    test: str = ""
    """``path/of/test_file.py::test_name``."""
    recorded: tuple[Recorded, ...] = ()
    """What a real Apache Kafka has answered to somebody else than a case."""
    deviation: str = ""
    """The beginning of the sentence in DEVIATIONS.md that says that we don't have it."""

    @model_validator(mode="after")
    def _one_proof(self) -> Elsewhere:
        if sum(map(bool, (self.test, self.recorded, self.deviation))) != 1:
            raise ValueError("needs one of test, recorded, deviation")
        return self


class Rule(CasebookPart):
    """One thing that a broker decides."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+(\.[A-Za-z0-9-]+)+$")]
    says: str
    answers: tuple[str, ...] = ("NONE",)
    """Errors by Kafka's names; a step that shows the rule is answered one of them. ``CLOSED`` and
    ``SILENT`` where no answer comes.
    """
    source: str = ""
    """Kafka's class and method; that of the file unless given."""
    decided_in: Annotated[Several, Field(min_length=1)]
    """Our function that decides it, as ``module:qualified name``; several where versions of a
    request, or kinds of a group, are decided in different places.
    """
    levels: Levels = LEVELS
    elsewhere: Elsewhere | None = None

    @model_validator(mode="after")
    def _known_answers(self) -> Rule:
        for name in self.answers:
            if name not in (CLOSED, SILENT) and name.lower() not in ErrorCode.__members__:
                raise ValueError(f"{name} is no error of Kafka")
        return self


class RuleFile(CasebookPart):
    """``rules/*.yaml``: the rules of one subject."""

    title: str
    about: str = ""
    source: str
    rules: tuple[Rule, ...]


# Brokers


class BrokerConfig(CasebookPart):
    """A static configuration that cases need."""

    about: str
    brokers: int = 1
    properties: Mapping[str, str] = {}
    """Of both brokers, beside those of ``default``."""
    kafka_only: Mapping[str, str] = {}
    levels: Levels = LEVELS
    """Levels at which it is started."""


class BrokerFile(CasebookPart):
    """``cases/brokers.yaml``: configurations by name."""

    brokers: Mapping[str, BrokerConfig]


# Cases


class TopicWanted(CasebookPart):
    """A topic that exists before the first step."""

    partitions: int = 1
    configs: Mapping[str, str] = {}


class CaseStep(CasebookPart):
    """A request in full or by its short word, and how its answer is checked and kept."""

    verb: str
    """``EndTxn v5``, or a word of ``verbs``."""
    given: Any = None
    row: Several = ()
    """Rules that this answer shows."""
    note: str = ""
    """Instead of the parameters in the transcript."""
    save: str | Mapping[str, str] = ""
    """Producer that takes the identity of the answer; or names with paths into the answer."""
    until: Mapping[str, Any] = {}
    settled: bool = False
    parts: Several = ()
    promptly: bool = False
    """Must succeed, before something times out; otherwise the case is played again."""
    quiet: bool = False
    """Not written down."""
    silent: bool = False
    """No answer is expected; on a connection of its own."""
    later: str = ""
    """The answer may take its time: a step ``answer: NAME`` hears it. Over the connection with that
    name.
    """
    closes: bool = False
    via: str = ""
    """``coordinator of p``, ``leader of t.0``, with ``not`` another one; ``broker 2``."""
    over: str = ""
    """A connection by name; the case's own unless given."""
    levels: Levels = LEVELS
    when: Mapping[str, tuple[Any, ...]] = {}
    """Values of what the case varies."""
    racy: str = ""
    """Why a real broker answers sometimes this way and sometimes that."""

    @model_validator(mode="before")
    @classmethod
    def _verb_apart(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("a step is a mapping")
        verbs = [key for key in value if key not in cls.model_fields]
        if len(verbs) != 1:
            raise ValueError(f"a step has one verb, not {verbs}")
        fields = {key: inner for key, inner in value.items() if key != verbs[0]}
        return {**fields, "verb": verbs[0], "given": value[verbs[0]]}

    @property
    def request(self) -> tuple[str, str] | None:
        """API and version where the verb is a request in full."""
        match = _REQUEST.fullmatch(self.verb)
        return None if match is None else (match[1], match[2])

    def happens(self, level: int, chosen: Mapping[str, Any]) -> bool:
        """At that level, for those values of what is varied."""
        return level in self.levels and all(chosen[k] in values for k, values in self.when.items())


class CaseText(CasebookPart):
    """A case as a file has it; with ``vary`` it is several."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    about: str = ""
    levels: Levels = LEVELS
    alone: bool = False
    """Changes what others would see: nothing else is played at that time."""
    vary: Mapping[str, tuple[Any, ...]] = {}
    topics: Mapping[str, TopicWanted | int] = {}
    """By name; a number is that of the partitions."""
    steps: Annotated[tuple[CaseStep, ...], Field(min_length=1)]


class CaseFile(CasebookPart):
    """``cases/*/*.yaml``: cases of one subject."""

    title: str
    about: str = ""
    broker: str = "default"
    alone: bool = False
    cases: tuple[CaseText, ...]
