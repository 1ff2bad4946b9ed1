"""A random play as it was played to a real Kafka: what was done, and what was answered. So it is
played again without one, in virtual time.

An act is the name of a method of ``Side`` with its arguments, as JSON. Producer ids, ids of topics
and batches stand there as in ``operations``: each broker has its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.conformance.operations import Batch, Operation, Pid, TopicId
from tests.conformance.sides import Side
from txnsim_lab.conformance._book.recordings import Exchange, Recording, answer_differences
from txnsim_lab.conformance._book.transcript import Transcript

FILE: Final = Path(__file__).with_name("random_plays.jsonl")
_TAGS: Final = {"$pid": Pid, "$topic": TopicId, "$batch": Batch, "$operation": Operation}


class RecordedPlay(msgspec.Struct, frozen=True, kw_only=True):
    """One play, with the answers of a real broker."""

    name: str
    """The prefix of its names."""
    transaction_version: int
    """Level at which it begins."""
    acts: tuple[list[Any], ...]
    answers: tuple[list[Any], ...]
    """What was asked, and what a real broker answered, as in a transcript; without an answer where
    it is that of the last time.
    """

    @property
    def recording(self) -> Recording:
        """The answers, as recordings of cases have them."""
        exchanges = []
        last_answers: dict[str, str] = {}
        for asked, *new_answer in self.answers:
            for answer in new_answer:
                last_answers[asked] = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
            exchanges.append(Exchange(asked=asked, answers=(last_answers[asked],)))
        return tuple(exchanges)

    def differences(self, transcript: Transcript) -> list[str]:
        """Where the answers of a play differ from the recorded ones."""
        return list(answer_differences(self.recording, transcript))


def without_repeats(entries: Iterable[tuple[str, Any]]) -> Iterator[list[Any]]:
    """The entries of a transcript, as ``RecordedPlay.answers`` has them."""
    last_answers: dict[str, Any] = {}
    for asked, answer in entries:
        is_new = asked not in last_answers or last_answers[asked] != answer
        yield [asked, answer] if is_new else [asked]
        last_answers[asked] = answer


def play_again(play: RecordedPlay, address: str) -> Transcript:
    """Do at a broker what was done; returns its answers."""
    side = Side(address, scene=play.name, transaction_version=play.transaction_version)
    try:
        for method_name, *arguments in play.acts:
            getattr(side, method_name)(*map(from_json, arguments))
        return side.player.transcript
    finally:
        side.player.close()


def write_plays(plays: Iterable[RecordedPlay], path: Path = FILE) -> None:
    """Write plays, one a line."""
    encoder = msgspec.json.Encoder()
    path.write_bytes(b"".join(encoder.encode(play) + b"\n" for play in plays))


def read_plays(path: Path = FILE) -> list[RecordedPlay]:
    decoder = msgspec.json.Decoder(RecordedPlay)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]


def to_json(value: Any) -> Any:
    """An argument of an act as JSON."""
    match value:
        case Pid():
            return {"$pid": [value.number, value.shift]}
        case TopicId():
            return {"$topic": [value.name]}
        case Batch() | Operation():
            tag = next(tag for tag, value_class in _TAGS.items() if type(value) is value_class)
            return {tag: dict(_fields_of(value))}
        case bytes():
            return {"$bytes": value.hex()}
        case dict():
            return {key: to_json(element) for key, element in value.items()}
        case list() | tuple():
            return [to_json(element) for element in value]
    return value


def from_json(value: Any) -> Any:
    """The argument that ``to_json`` has written."""
    match value:
        case {"$bytes": digits}:
            return bytes.fromhex(digits)
        case {"$pid": fields} | {"$topic": fields}:
            (tag,) = value
            return _TAGS[tag](*fields)
        case {"$batch": fields} | {"$operation": fields}:
            (tag,) = value
            arguments = {name: from_json(element) for name, element in fields.items()}
            return _TAGS[tag](
                **{
                    name: tuple(argument) if isinstance(argument, list) else argument
                    for name, argument in arguments.items()
                }
            )
        case dict():
            return {key: from_json(element) for key, element in value.items()}
        case list():
            return [from_json(element) for element in value]
    return value


def _fields_of(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(value):
        field_value = getattr(value, field.name)
        if field_value != field.default:
            yield field.name, to_json(field_value)
