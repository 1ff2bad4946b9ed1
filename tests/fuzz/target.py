"""What a target is, and what is demanded of every input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

LOOP_MS: Final = 100.0
"""Most CPU time of the loop that one input may take without a break."""
MEMORY_MIB: Final = 64.0
"""Most memory that one input may take beyond what it carries."""

Play = Callable[[bytes], float | None]
"""Plays one input. Answers the longest time without a break in ms where it has measured one; None:
all of its time counts. Raises what nobody has declared, or ``Violation``.
"""


class Violation(AssertionError):
    """An input broke a property: the message says which one and how."""


class Target(NamedTuple):
    """Code that reads input, with seeds and limits for the fuzzer."""

    play: Play
    seeds: Callable[[], Iterable[bytes]]
    """Sound inputs to begin with, made by code; what the fuzzer finds besides is in ``corpus``."""
    length_max: int = 4096
    """Longest input that is tried."""
    words: Sequence[bytes] = ()
    seeds_a_second: float | None = None
    """With how many inputs per second that a run has it begins, where each of them is costly; with
    all of them unless given.
    """
    counts_codec: bool = True
    """Whether jumps in compiled decoders and encoders count. To count them costs some ms for each
    of thousands of them, so a target that meets all APIs leaves that to others.
    """
    allowed: frozenset[str] = frozenset()
    """Events of the log that are told as errors and may happen: what an operator has done wrong."""
    figures: Callable[[], dict[str, float]] | None = None
    """What it has measured besides, by name."""
