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


class ReportedEnd(StrEnum):
    """The end of a transaction, as the library reported it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """The transaction was aborted, or its commit was never requested."""
    UNKNOWN = "unknown"
    """A commit was requested and failed with an error."""


class LedgerEntry(msgspec.Struct, kw_only=True):
    """One transaction of the application, with the end that the library reported."""

    values: tuple[str, ...]
    group: str = ""
    """Group whose positions were committed in the transaction."""
    position: int = -1
    reported_end: ReportedEnd = ReportedEnd.ABORTED


class Ledger(msgspec.Struct):
    """Every transaction of a situation, in order."""

    entries: list[LedgerEntry] = []

    def begin(self, *values: str, group: str = "", position: int = -1) -> LedgerEntry:
        """Record a transaction before it begins."""
        transaction = LedgerEntry(values=values, group=group, position=position)
        self.entries.append(transaction)
        return transaction

    def misses(
        self, committed_values: Sequence[str], position_by_group: Mapping[str, int]
    ) -> Iterator[str]:
        """The contradictions between the log and the answers.

        Args:
            committed_values: The values that a ``read_committed`` reader gets.
            position_by_group: Group -> its committed position; -1 if there is none.
        """
        count_by_value = Counter(committed_values)
        for value, times_in_log in count_by_value.items():
            if times_in_log > 1:
                yield f"{shorten_value(value)} is in the log {times_in_log} times"
            if not any(value in transaction.values for transaction in self.entries):
                yield f"{shorten_value(value)} is in the log, and was never sent"
        for transaction in self.entries:
            yield from self._record_contradictions(
                transaction, [value for value in transaction.values if count_by_value[value]]
            )
        for group, position in position_by_group.items():
            yield from self._position_contradictions(group, position, count_by_value)

    def _record_contradictions(
        self, transaction: LedgerEntry, readable_values: list[str]
    ) -> Iterator[str]:
        missing_values = [value for value in transaction.values if value not in readable_values]
        match transaction.reported_end:
            case ReportedEnd.COMMITTED if missing_values:
                missing_text = values_text(missing_values)
                yield f'the library says "committed", but readers do not get {missing_text}'
            case ReportedEnd.ABORTED if readable_values:
                claim_text = 'the library says "aborted" or was never asked to commit'
                yield f"{claim_text}, but readers get {values_text(readable_values)}"
            case ReportedEnd.UNKNOWN if missing_values and readable_values:
                claim_text = "half of a transaction is committed"
                yield (
                    f"{claim_text}: {values_text(readable_values)}"
                    f" without {values_text(missing_values)}"
                )
            case _:
                pass

    def _position_contradictions(
        self, group: str, position: int, count_by_value: Counter[str]
    ) -> Iterator[str]:
        """Contradictions about a group's position. A transaction counts as committed if its records
        are readable, whatever was reported.
        """
        expected_position = -1
        for transaction in self.entries:
            is_written_in_full = transaction.values and all(
                count_by_value[value] for value in transaction.values
            )
            if transaction.group == group and (
                is_written_in_full or transaction.reported_end is ReportedEnd.COMMITTED
            ):
                expected_position = transaction.position
        if position != expected_position:
            claim = f"the position of group {group} is {position}"
            yield f"{claim}; by its transactions it has to be {expected_position}"


def shorten_value(record_value: str) -> str:
    """Shorten a large value for a message."""
    return (
        record_value
        if len(record_value) <= SHOWN_CHARS
        else f"{record_value[:SHOWN_CHARS]}… ({len(record_value)} characters)"
    )


def values_text(values: Sequence[str]) -> str:
    """Join the values of records for a message; large ones are shortened."""
    return ", ".join(map(shorten_value, values))
