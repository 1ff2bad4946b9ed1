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
from txnsim.client.raw.connection import NoAnswer
from txnsim.errors import ErrorCode
from txnsim_lab.conformance._book.model import CLOSED, SILENT, RecordedProof, Rule
from txnsim_lab.conformance._book.recordings import recordings_from_lines

_OUTCOMES: Final = {NoAnswer.CLOSED.value: CLOSED, NoAnswer.SILENT.value: SILENT}
_ERRORS: Final = {
    text: code.name.upper()
    for code in ErrorCode
    for text in (code.name.upper(), f"{code.value} {code.name}")
}

Answers = Mapping[str, tuple[Any, ...]]
"""Question -> all answers to it."""


def recording_complaints(rule: Rule) -> Iterator[str]:
    """A line for each mistake in the recorded questions that a rule names."""
    for recorded_proof in rule.elsewhere.recorded if rule.elsewhere else ():
        yield from _wrong(rule, recorded_proof)


def _wrong(rule: Rule, recorded_proof: RecordedProof) -> Iterator[str]:
    if not path_of(recorded_proof.file).exists():
        yield f"{rule.id}: no transcript {recorded_proof.file}"
        return
    transaction_versions = answers_by_level(recorded_proof.file)
    for level in rule.levels:
        # Who may do what is no matter of transaction.version: a guest is asked at one level.
        answers = transaction_versions.get(level) or transaction_versions.get(None)
        if answers is None:
            yield f"{rule.id}: {recorded_proof.file} was not played at {level}"
            continue
        for question in recorded_proof.asked:
            if question not in answers:
                yield f"{rule.id}: {recorded_proof.file} does not ask {question!r}"
            elif not any(_shows(rule, recorded_proof, answer) for answer in answers[question]):
                yield f"{rule.id}: {recorded_proof.file} is answered otherwise to {question!r}"


def _shows(rule: Rule, recorded_proof: RecordedProof, answer: Any) -> bool:
    if recorded_proof.says:
        answer_text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        return recorded_proof.says in answer_text
    return bool(set(_errors(answer)) & set(rule.answers))


def path_of(file: str) -> Path:
    return FOLDER / f"{file}.jsonl"


@cache
def answers_by_level(file: str) -> Mapping[int | None, Answers]:
    """A transcript; of one that knows no levels, under None."""
    lines = path_of(file).read_text("utf-8").splitlines()
    header = json.loads(lines[0])
    if "levels" not in header:
        rows = map(json.loads, lines)
        return {None: _by_question((row["name"], row["answer"]) for row in rows)}
    return {
        level: _by_question(
            (exchange.asked, json.loads(answer_text))
            for exchange in recorded_exchanges
            for answer_text in exchange.answers
        )
        for level, recorded_exchanges in recordings_from_lines(lines[1:], header["levels"]).items()
    }


def _by_question(pairs: Iterable[tuple[str, Any]]) -> Answers:
    answers_by_question: dict[str, tuple[Any, ...]] = {}
    for question, answer in pairs:
        answers_by_question[question] = (*answers_by_question.get(question, ()), answer)
    return answers_by_question


def _errors(answer: Any) -> Iterator[str]:
    """Every error in an answer, by Kafka's name, and what came instead of one."""
    match answer:
        case str():
            name = _OUTCOMES.get(answer) or _ERRORS.get(answer)
            if name is not None:
                yield name
        case list():
            for element in answer:
                yield from _errors(element)
        case dict():
            for element in answer.values():
                yield from _errors(element)
