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


def duration_ms(text: str) -> int:
    """A time in whole milliseconds: ``1500ms``, ``30s``, ``2m``, ``1h``, ``7d``. A number without a
    unit is refused, because 5 could be meant as seconds.
    """
    word = text.strip().lower()
    if word.isascii() and word.isdigit() and word.strip("0"):
        raise ArgumentTypeError(f"{text!r} has no unit: {word}s, or {word}ms?")
    try:
        ms = 0 if word == "0" else read_ms(word)
    except ValueError:
        ms = -1
    if ms < 0:
        raise ArgumentTypeError(f"{text!r}: expected a number with ms, s, m, h or d, as in 90s")
    return ms


def new_topic(text: str) -> tuple[str, int]:
    """A topic to create, ``orders`` or ``orders:3``; -1 partitions means the default number."""
    name, colon, partitions = text.partition(":")
    if not name or (colon and (not partitions.isdigit() or int(partitions) < 1)):
        raise ArgumentTypeError(f"{text!r}: expected NAME or NAME:PARTITIONS, as in orders:3")
    return name, int(partitions) if colon else -1


def topic_partition(text: str) -> tuple[str, int]:
    """A partition as Kafka writes it, ``orders-0``."""
    match = _PARTITION_RE.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"{text!r}: expected TOPIC-PARTITION, as in orders-0")
    return match[1], int(match[2])


def key_value(text: str) -> tuple[str, str]:
    """A pair, ``cleanup.policy=compact``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ArgumentTypeError(f"{text!r}: expected KEY=VALUE, as in cleanup.policy=compact")
    return key, value
