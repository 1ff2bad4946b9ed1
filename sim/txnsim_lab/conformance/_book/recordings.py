"""Recorded answers, one line per exchange, in order::

    {"ask":"EndTxn v4 commit","says":{...}}
    {"ask":"EndTxn v4 again","on":[2],"as":"EndTxn v4 commit"}
    {"ask":"Fetch v12 all","any":[{...},{...}]}

``on`` are the levels of ``transaction.version`` at which the exchange took place; without it, at
every level. ``as`` names an earlier request with the same answer. ``any`` lists the answers of a
real broker that answers differently at different times.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import msgspec

from txnsim_lab.conformance._book.transcript import Transcript, differences

SHORT_ANSWER_CHARS: Final = 60
"""Answers up to this length are always written out, since a reference would not be shorter."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request with Kafka's answer as JSON; several answers if Kafka's answer varies."""

    asked: str
    answers: tuple[str, ...]


Recording = tuple[Exchange, ...]
"""The exchanges of one story at one level."""
Recordings = Mapping[int, Recording]
"""The recordings of one story by level."""


def recording_of(transcript: Transcript) -> Recording:
    """Convert the transcript of one play of a case to a recording."""
    return tuple(
        Exchange(asked=request, answers=(_to_json(answer),))
        for request, answer in transcript.entries
    )


def combine_plays(recordings_of_plays: Sequence[Recording]) -> Recording:
    """Combine several plays of a case into one recording with all answers.

    Raises:
        ValueError: The plays have different requests.
    """
    if (
        len(
            {
                tuple(exchange.asked for exchange in played_exchanges)
                for played_exchanges in recordings_of_plays
            }
        )
        != 1
    ):
        raise ValueError("the plays part: they asked different things")
    return tuple(
        Exchange(
            asked=exchanges[0].asked,
            answers=tuple(
                sorted({answer for exchange in exchanges for answer in exchange.answers})
            ),
        )
        for exchanges in zip(*recordings_of_plays, strict=True)
    )


def answer_differences(recording: Recording, transcript: Transcript) -> Iterator[str]:
    """Describe each answer of a play that the recording does not have, one line per field."""
    expected_transcript = Transcript()
    for index, exchange in enumerate(recording):
        played_answer = (
            _to_json(transcript.entries[index][1]) if index < len(transcript.entries) else ""
        )
        chosen_answer = played_answer if played_answer in exchange.answers else exchange.answers[0]
        expected_transcript.entries.append((exchange.asked, json.loads(chosen_answer)))
    yield from differences(expected_transcript, transcript)


def recordings_from_lines(lines: Iterable[str], levels: Sequence[int]) -> dict[int, Recording]:
    """Read the lines that ``recordings_to_lines`` wrote."""
    exchanges_by_level: dict[int, list[Exchange]] = {level: [] for level in levels}
    first_answer_by_request: dict[str, str] = {}
    for line in map(json.loads, lines):
        request = line["ask"]
        if "as" in line:
            answers: tuple[str, ...] = (first_answer_by_request[line["as"]],)
        else:
            answers = tuple(map(_to_json, line["any"] if "any" in line else [line["says"]]))
            first_answer_by_request.setdefault(request, answers[0])
        for level in line.get("on", levels):
            exchanges_by_level[level].append(Exchange(asked=request, answers=answers))
    return {level: tuple(exchanges) for level, exchanges in exchanges_by_level.items()}


def recordings_to_lines(recording_by_level: Recordings) -> list[str]:
    levels = sorted(recording_by_level)
    recording_lines = []
    first_request_by_answer: dict[str, str] = {}
    written_requests: set[str] = set()
    for exchange, exchange_levels in _merge_levels(recording_by_level):
        recording_line: dict[str, Any] = {"ask": exchange.asked}
        if exchange_levels != levels:
            recording_line["on"] = exchange_levels
        first_answer, *other_answers = exchange.answers
        if other_answers:
            recording_line["any"] = [json.loads(answer_text) for answer_text in exchange.answers]
            written_requests.add(exchange.asked)
        elif first_answer in first_request_by_answer and len(first_answer) > SHORT_ANSWER_CHARS:
            recording_line["as"] = first_request_by_answer[first_answer]
        else:
            recording_line["says"] = json.loads(first_answer)
            if exchange.asked not in written_requests:
                first_request_by_answer.setdefault(first_answer, exchange.asked)
                written_requests.add(exchange.asked)
        recording_lines.append(_to_json(recording_line))
    return recording_lines


def _merge_levels(recording_by_level: Recordings) -> list[tuple[Exchange, list[int]]]:
    merged_exchanges: list[tuple[Exchange, list[int]]] = []
    for level, recording in sorted(recording_by_level.items()):
        exchanges = [exchange for exchange, _ in merged_exchanges]
        matcher = SequenceMatcher(None, exchanges, recording, autojunk=False)
        extended_exchanges: list[tuple[Exchange, list[int]]] = []
        for opcode, merged_start, merged_end, new_start, new_end in matcher.get_opcodes():
            if opcode == "equal":
                extended_exchanges += [
                    (exchange, [*exchange_levels, level])
                    for exchange, exchange_levels in merged_exchanges[merged_start:merged_end]
                ]
            else:
                extended_exchanges += merged_exchanges[merged_start:merged_end]
                extended_exchanges += [
                    (exchange, [level]) for exchange in recording[new_start:new_end]
                ]
        merged_exchanges = extended_exchanges
    return merged_exchanges


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
