"""Lessons: a run that stops, asks before it shows, and ends with a goal that the learner has to
reach.

A lesson is a file of texts (``scenarios/lessons/*.toml``). What is right is never in it: answers
and goals are facts, read from the trace of the learner's own run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from txnsim.errors import BadInputError, ConfigError
from txnsim.scenario.catalog import directory
from txnsim.suggestions import unknown
from txnsim.trace.explain import lso_of
from txnsim.trace.faults_and_decisions import Remembered
from txnsim.trace.reading import Recording
from txnsim.trace.state import TraceState, state_at

FOLDER: Final = "lessons"


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part: a text, perhaps a question, then the story goes on, then what that has shown."""

    say: str
    until: int
    """Then the story goes on up to this step, which is not taken."""
    then: str
    ask: str = ""
    choices: Mapping[str, str] = {}
    """What the fact may be -> in words."""
    fact: str = ""
    """Which fact answers the question, once the story has gone on (``fact``)."""
    hints: tuple[str, ...] = ()
    shows: bool = False
    """Whether what has happened meanwhile is told first, event by event; in the terminal."""
    view: str = "stage"
    """What of the page shows it."""


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that the learner may do to reach the goal."""

    text: str
    step: Mapping[str, Any]
    """As a story's file has it."""
    then: str
    """What to say if the goal is not reached by it."""


class Goal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the learner has to reach."""

    say: str
    facts: Mapping[str, str]
    """Fact -> what it must be."""
    actions: tuple[Action, ...]
    hints: tuple[str, ...]
    reached: str
    """What to say then."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson."""

    id: str
    title: str
    scenario: str
    run: str
    take: str
    parts: tuple[Part, ...]
    goal: Goal | None = None


@cache
def lessons() -> dict[str, Lesson]:
    """Every lesson, by its id.

    Raises:
        ConfigError: A file is none.
    """
    found = {}
    for path in sorted((directory() / FOLDER).glob("*.toml")):
        try:
            one = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Lesson)
        except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None
        found[one.id] = one
    return found


def lesson(wanted: str) -> Lesson:
    """One of them, by its id in any case.

    Raises:
        ConfigError: There is none of that id.
    """
    known = lessons()
    found = {name.lower(): one for name, one in known.items()}.get(wanted.lower())
    if found is None:
        raise ConfigError(unknown("lesson", wanted, dict.fromkeys(known)))
    return found


def fact(run: Recording, words: str) -> str:
    """A fact of a trace, after its last event.

    Args:
        run: The trace.
        words: ``lso TP``, ``withheld TP`` (offsets that read_committed consumers don't get),
            ``cause TP`` (why the last stable offset is here), or ``state TRANSACTIONAL-ID``.

    Raises:
        ConfigError: There is no such fact.
        BadInputError: The trace tells nothing of it.
    """
    name, _, subject = words.partition(" ")
    state = state_at(run.events, run.nodes, level=run.level)
    if name == "state":
        entry = state.transactions.get(subject)
        if entry is None:
            raise BadInputError(f"the trace tells nothing of {subject}")
        return str(entry["state"])
    return _of_partition(state, name, subject)


def _of_partition(state: TraceState, name: str, partition: str) -> str:
    said = lso_of(state, partition, at=-1, remembered=Remembered())
    match name:
        case "lso":
            return str(said.last_stable_offset)
        case "withheld":
            return str(said.high_watermark - said.last_stable_offset)
        case "cause":
            return said.cause
    raise ConfigError(f"there is no fact {name!r}: expected lso, withheld, cause or state")


def is_reached(goal: Goal, run: Recording) -> bool:
    """Whether the trace of a run reaches a goal."""
    return all(fact(run, words) == wanted for words, wanted in goal.facts.items())
