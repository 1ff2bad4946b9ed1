"""Checkpoints: small text files of offsets. The first line is a version, the second the number of
lines that follow.

Kafka's counterparts: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from txnsim.errors import CorruptLogRecordError
from txnsim.types import TopicPartition

VERSION: Final = 0
FRONT_LINES: Final = 2
DIGITS_MAX: Final = 19
"""Most digits of a 64-bit number; for thousands of digits Python raises an error of its own."""


def encode_leader_epochs(epochs: Iterable[tuple[int, int]]) -> str:
    """Encode (leader epoch, first offset) pairs as ``leader-epoch-checkpoint``."""
    return _encode([f"{epoch} {offset}" for epoch, offset in epochs])


def decode_leader_epochs(text: str, *, place: str) -> tuple[tuple[int, int], ...]:
    """Decode ``leader-epoch-checkpoint``: (leader epoch, first offset) pairs in the order of the
    file.

    Raises:
        CorruptLogRecordError: The text is malformed; the message begins with ``place`` and the
            line.
    """
    return tuple(
        (int(epoch), int(offset))
        for epoch, offset in (
            _fields(line, 2, line_place) for line, line_place in _lines(text, place)
        )
    )


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Encode an offset of each partition, as in ``replication-offset-checkpoint`` and similar
    files.
    """
    return _encode(
        [f"{whose.topic} {whose.partition} {offset}" for whose, offset in sorted(offsets.items())]
    )


def decode_offsets(text: str, *, place: str) -> dict[TopicPartition, int]:
    """Decode the offset of each partition.

    Raises:
        CorruptLogRecordError: The text is malformed; the message begins with ``place`` and the
            line.
    """
    offsets: dict[TopicPartition, int] = {}
    for line, line_place in _lines(text, place):
        topic, partition, offset = _fields(line, 3, line_place, words=1)
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def _encode(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines))


def _lines(text: str, place: str) -> list[tuple[str, str]]:
    """(entry, its place in the file) pairs."""
    lines = text.splitlines()
    if not lines:  # a broker makes the file before it has anything to note
        return []
    if len(lines) < FRONT_LINES:
        raise CorruptLogRecordError(f"{place}: {len(lines)} lines, without version and count")
    (version, count), entries = lines[:FRONT_LINES], lines[FRONT_LINES:]
    if version != str(VERSION):
        raise CorruptLogRecordError(f"{place}: version {version!r}, expected {VERSION}")
    if count != str(len(entries)):
        raise CorruptLogRecordError(f"{place}: {len(entries)} entries, but it announces {count!r}")
    return [(line, f"{place}:{number}") for number, line in enumerate(entries, FRONT_LINES + 1)]


def _fields(line: str, count: int, line_place: str, *, words: int = 0) -> list[str]:
    """Split an entry into its fields; all after the first ``words`` must be numbers."""
    fields = line.split(" ")
    if len(fields) != count or not all(map(_is_number, fields[words:])):
        raise CorruptLogRecordError(f"{line_place}: {line!r} is no entry")
    return fields


def _is_number(text: str) -> bool:
    """Whether the text is a 64-bit number, as a broker writes it."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX
