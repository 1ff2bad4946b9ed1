"""What a sitting comes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """Of one situation at one level."""

    PASSED = "passed"
    MISSED = "missed"
    PROTOCOL = "protocol"
    """A miss that version 1 of transactions leaves open to any client (KIP-890 closes it)."""
    DOES_NOT_APPLY = "does not apply"
    """The library has no such command, or never sends what would be struck."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One situation at one level."""

    situation: str
    kind: str
    level: int
    asks: str
    outcome: Outcome
    because: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """What the library told on the way."""
    story: tuple[str, ...] = ()
    """What happened in the cluster, of a miss."""
    about: tuple[str, ...] = ()
    """Known bugs that look like this."""
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """As files of known misses have it."""
        return f"{self.situation}@{self.level}"


class Sitting(msgspec.Struct, frozen=True, kw_only=True):
    """All results of one library."""

    library: str
    version: str
    language: str
    contract: int
    as_version: str
    speaks: int
    """The newest version of transactions that it was seen to use."""
    results: tuple[Result, ...]

    def count(self, outcome: Outcome) -> int:
        """How many ended so."""
        return sum(result.outcome is outcome for result in self.results)

    def misses(self) -> Iterator[Result]:
        """What was missed."""
        return (result for result in self.results if result.outcome is Outcome.MISSED)


def known_misses(lines: Iterable[str]) -> frozenset[str]:
    """The misses that a file knows: ``situation@level`` a line, ``#`` begins a remark."""
    stripped = (line.partition("#")[0].strip() for line in lines)
    return frozenset(line for line in stripped if line)
