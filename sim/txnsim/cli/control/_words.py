"""Parsers for times, topics and partitions on the command line.

Each function is a ``type`` of argparse: a mistake is an ``ArgumentTypeError`` that shows the
expected form.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import Final

from txnsim.text import read_ms

_PARTITION_RE: Final = re.compile(r"(.+)-(\d{1,9})")


def duration_ms(duration_text: str) -> int:
    """A time in whole milliseconds: ``1500ms``, ``30s``, ``2m``, ``1h``, ``7d``. A number without a
    unit is refused, because 5 could be meant as seconds.
    """
    trimmed_text = duration_text.strip().lower()
    if trimmed_text.isascii() and trimmed_text.isdigit() and trimmed_text.strip("0"):
        raise ArgumentTypeError(
            f"{duration_text!r} has no unit: {trimmed_text}s, or {trimmed_text}ms?"
        )
    try:
        ms = 0 if trimmed_text == "0" else read_ms(trimmed_text)
    except ValueError:
        ms = -1
    if ms < 0:
        raise ArgumentTypeError(
            f"{duration_text!r}: expected a number with ms, s, m, h or d, as in 90s"
        )
    return ms


def new_topic(topic_text: str) -> tuple[str, int]:
    """A topic to create, ``orders`` or ``orders:3``; -1 partitions means the default number."""
    topic_name, colon, partitions = topic_text.partition(":")
    if not topic_name or (colon and (not partitions.isdigit() or int(partitions) < 1)):
        raise ArgumentTypeError(f"{topic_text!r}: expected NAME or NAME:PARTITIONS, as in orders:3")
    return topic_name, int(partitions) if colon else -1


def topic_partition(partition_text: str) -> tuple[str, int]:
    """A partition as Kafka writes it, ``orders-0``."""
    match = _PARTITION_RE.fullmatch(partition_text)
    if match is None:
        raise ArgumentTypeError(f"{partition_text!r}: expected TOPIC-PARTITION, as in orders-0")
    return match[1], int(match[2])


def key_value(assignment_text: str) -> tuple[str, str]:
    """A pair, ``cleanup.policy=compact``."""
    key, equals_sign, value = assignment_text.partition("=")
    if not equals_sign or not key:
        raise ArgumentTypeError(
            f"{assignment_text!r}: expected KEY=VALUE, as in cleanup.policy=compact"
        )
    return key, value
