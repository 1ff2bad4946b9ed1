"""Compares the ends of transactions, as a library reported them, with the log. These laws hold for
every library and situation: records reported as committed are readable, once; records reported as
aborted are not; a transaction with an unknown end is readable completely or not at all; positions
have the same end as the records of their transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

SHOWN_CHARS: Final = 20


class Told(StrEnum):
    """The end of a transaction, as the library reported it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """The transaction was aborted, or its commit was never requested."""
    UNKNOWN = "unknown"
    """A commit was requested and failed with an error."""


class Entry(msgspec.Struct, kw_only=True):
    """One transaction."""

    values: tuple[str, ...]
    group: str = ""
    """Group whose positions were committed in the transaction."""
    position: int = -1
    told: Told = Told.ABORTED


class Ledger(msgspec.Struct):
    """Every transaction of a situation, in order."""

    entries: list[Entry] = []

    def begin(self, *values: str, group: str = "", position: int = -1) -> Entry:
        """Record a transaction before it begins."""
        entry = Entry(values=values, group=group, position=position)
        self.entries.append(entry)
        return entry

    def misses(self, committed: Sequence[str], positions: Mapping[str, int]) -> Iterator[str]:
        """The contradictions between the log and the answers.

        Args:
            committed: The values that a ``read_committed`` reader gets.
            positions: Group -> its committed position; -1 if there is none.
        """
        counts = Counter(committed)
        for value, count in counts.items():
            if count > 1:
                yield f"{short(value)} is in the log {count} times"
            if not any(value in entry.values for entry in self.entries):
                yield f"{short(value)} is in the log, and was never sent"
        for entry in self.entries:
            yield from self._of_records(entry, [value for value in entry.values if counts[value]])
        for group, position in positions.items():
            yield from self._of_positions(group, position, counts)

    def _of_records(self, entry: Entry, readable: list[str]) -> Iterator[str]:
        missing = [value for value in entry.values if value not in readable]
        match entry.told:
            case Told.COMMITTED if missing:
                yield f'the library says "committed", but readers do not get {values_text(missing)}'
            case Told.ABORTED if readable:
                claim = 'the library says "aborted" or was never asked to commit'
                yield f"{claim}, but readers get {values_text(readable)}"
            case Told.UNKNOWN if missing and readable:
                claim = "half of a transaction is committed"
                yield f"{claim}: {values_text(readable)} without {values_text(missing)}"
            case _:
                pass

    def _of_positions(self, group: str, position: int, counts: Counter[str]) -> Iterator[str]:
        """Contradictions about a group's position. A transaction counts as committed if its records
        are readable, whatever was reported.
        """
        expected = -1
        for entry in self.entries:
            whole = entry.values and all(counts[value] for value in entry.values)
            if entry.group == group and (whole or entry.told is Told.COMMITTED):
                expected = entry.position
        if position != expected:
            claim = f"the position of group {group} is {position}"
            yield f"{claim}; by its transactions it has to be {expected}"


def short(value: str) -> str:
    """Shorten a large value for a message."""
    return (
        value if len(value) <= SHOWN_CHARS else f"{value[:SHOWN_CHARS]}… ({len(value)} characters)"
    )


def values_text(values: Sequence[str]) -> str:
    """Values for a message."""
    return ", ".join(map(short, values))
