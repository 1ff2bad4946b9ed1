"""Checkpoints: small text files of offsets. The first line is a version, the second the number of
lines that follow.

Kafka's counterparts: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from txnsim.errors import CorruptLogRecordError
from txnsim.types import TopicPartition

CHECKPOINT_VERSION: Final = 0
HEADER_LINES: Final = 2
DIGITS_MAX: Final = 19
"""Most digits of a 64-bit number; for thousands of digits Python raises an error of its own."""
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def encode_leader_epochs(epochs: Iterable[tuple[int, int]]) -> str:
    """Encode (leader epoch, first offset) pairs as ``leader-epoch-checkpoint``."""
    return _encode_lines([f"{epoch} {offset}" for epoch, offset in epochs])


def decode_leader_epochs(text: str, *, error_prefix: str) -> tuple[tuple[int, int], ...]:
    """Decode ``leader-epoch-checkpoint``: (leader epoch, first offset) pairs in the order of the
    file.

    Raises:
        CorruptLogRecordError: The text is malformed; the message begins with ``error_prefix`` and
            the line.
    """
    return tuple(
        (int(epoch), int(offset))
        for epoch, offset in (
            _split_entry(line, (_INT32_MAX, _INT64_MAX), line_prefix)
            for line, line_prefix in _entry_lines(text, error_prefix)
        )
    )


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Encode an offset of each partition, as in ``replication-offset-checkpoint`` and similar
    files.
    """
    return _encode_lines(
        [
            f"{topic_partition.topic} {topic_partition.partition} {offset}"
            for topic_partition, offset in sorted(offsets.items())
        ]
    )


def decode_offsets(text: str, *, error_prefix: str) -> dict[TopicPartition, int]:
    """Decode the offset of each partition.

    Raises:
        CorruptLogRecordError: The text is malformed; the message begins with ``error_prefix`` and
            the line.
    """
    offsets: dict[TopicPartition, int] = {}
    for line, line_prefix in _entry_lines(text, error_prefix):
        topic, partition, offset = _split_entry(
            line, (_INT32_MAX, _INT64_MAX), line_prefix, word_count=1
        )
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def _encode_lines(entry_lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in (CHECKPOINT_VERSION, len(entry_lines), *entry_lines))


def _entry_lines(text: str, error_prefix: str) -> list[tuple[str, str]]:
    """(entry, the prefix of an error about it) pairs."""
    lines = text.splitlines()
    if not lines:  # a broker makes the file before it has anything to note
        return []
    if len(lines) < HEADER_LINES:
        raise CorruptLogRecordError(
            f"{error_prefix}: {len(lines)} lines, without version and count"
        )
    (version_line, count_line), entry_lines = lines[:HEADER_LINES], lines[HEADER_LINES:]
    if version_line != str(CHECKPOINT_VERSION):
        raise CorruptLogRecordError(
            f"{error_prefix}: version {version_line!r}, expected {CHECKPOINT_VERSION}"
        )
    if count_line != str(len(entry_lines)):
        raise CorruptLogRecordError(
            f"{error_prefix}: {len(entry_lines)} entries, but it announces {count_line!r}"
        )
    return [
        (line, f"{error_prefix}:{line_number}")
        for line_number, line in enumerate(entry_lines, HEADER_LINES + 1)
    ]


def _split_entry(
    line: str, number_limits: Sequence[int], line_prefix: str, *, word_count: int = 0
) -> list[str]:
    """Split an entry into its fields: after ``word_count`` words a number for each limit."""
    entry_fields = line.split(" ")
    if len(entry_fields) != word_count + len(number_limits) or not all(
        map(_is_number, entry_fields[word_count:], number_limits)
    ):
        raise CorruptLogRecordError(f"{line_prefix}: {line!r} is no entry")
    return entry_fields


def _is_number(field: str, limit: int) -> bool:
    """Whether the text is a number up to a limit, as a broker writes it."""
    digits = field.removeprefix("-")
    is_short = digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX
    return is_short and int(digits) <= limit
