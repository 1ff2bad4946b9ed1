"""What rules that no case shows point to in the other transcripts, and whether it shows them.

Stories write errors down as ``16 not_coordinator``, security as ``NOT_COORDINATOR``; an answer that
did not come is a sentence in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.conformance.recordings import FOLDER
from txnsim.client.raw.connection import Outcome
from txnsim.errors import ErrorCode
from txnsim_lab.conformance._book.model import CLOSED, SILENT, Recorded, Rule
from txnsim_lab.conformance._book.recordings import from_lines

_OUTCOMES: Final = {Outcome.CLOSED.value: CLOSED, Outcome.SILENT.value: SILENT}
_ERRORS: Final = {
    text: code.name.upper()
    for code in ErrorCode
    for text in (code.name.upper(), f"{code.value} {code.name}")
}

Answers = Mapping[str, tuple[Any, ...]]
"""Question -> all answers to it."""


def unshown(rule: Rule) -> Iterator[str]:
    """What is wrong with the recorded questions that a rule names, one line each."""
    for recorded in rule.elsewhere.recorded if rule.elsewhere else ():
        yield from _wrong(rule, recorded)


def _wrong(rule: Rule, recorded: Recorded) -> Iterator[str]:
    if not path_of(recorded.file).exists():
        yield f"{rule.id}: no transcript {recorded.file}"
        return
    levels = answers_by_level(recorded.file)
    for level in rule.levels:
        # Who may do what is no matter of transaction.version: a guest is asked at one level.
        answers = levels.get(level) or levels.get(None)
        if answers is None:
            yield f"{rule.id}: {recorded.file} was not played at {level}"
            continue
        for asked in recorded.asked:
            if asked not in answers:
                yield f"{rule.id}: {recorded.file} does not ask {asked!r}"
            elif not any(_shows(rule, recorded, answer) for answer in answers[asked]):
                yield f"{rule.id}: {recorded.file} is answered otherwise to {asked!r}"


def _shows(rule: Rule, recorded: Recorded, answer: Any) -> bool:
    if recorded.says:
        said = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        return recorded.says in said
    return bool(set(_errors(answer)) & set(rule.answers))


def path_of(file: str) -> Path:
    return FOLDER / f"{file}.jsonl"


@cache
def answers_by_level(file: str) -> Mapping[int | None, Answers]:
    """A transcript; of one that knows no levels, under None."""
    lines = path_of(file).read_text("utf-8").splitlines()
    first = json.loads(lines[0])
    if "levels" not in first:
        rows = map(json.loads, lines)
        return {None: _by_question((row["name"], row["answer"]) for row in rows)}
    return {
        level: _by_question(
            (one.asked, json.loads(answer)) for one in recording for answer in one.answers
        )
        for level, recording in from_lines(lines[1:], first["levels"]).items()
    }


def _by_question(pairs: Iterable[tuple[str, Any]]) -> Answers:
    found: dict[str, tuple[Any, ...]] = {}
    for asked, answer in pairs:
        found[asked] = (*found.get(asked, ()), answer)
    return found


def _errors(answer: Any) -> Iterator[str]:
    """Every error in an answer, by Kafka's name, and what came instead of one."""
    match answer:
        case str():
            name = _OUTCOMES.get(answer) or _ERRORS.get(answer)
            if name is not None:
                yield name
        case list():
            for one in answer:
                yield from _errors(one)
        case dict():
            for one in answer.values():
                yield from _errors(one)
