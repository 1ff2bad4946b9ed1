"""Compares the outcomes that clients report with the records that readers get: each record once or
never.

A record's value is ``producer/number/which``. A transaction is held against what its client knows
of it: *committed* means each of its records exactly once, *aborted* means none, *unknown* means all
of them once or none. A transaction without a word of its client counts as unknown.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from tests.soak.producing import TransactionOutcome

RECORDS_MAX: Final = 3
"""The most records of one transaction."""
SHOWN: Final = 20

_CODES: Final = {
    None: 0,
    TransactionOutcome.COMMITTED: 1,
    TransactionOutcome.ABORTED: 2,
    TransactionOutcome.UNKNOWN: 3,
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction whose records were not read exactly as its outcome demands."""

    transaction: str
    outcome: str
    expected: str = msgspec.field(name="wanted")
    observed: str = msgspec.field(name="found")


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a whole ledger."""

    transaction_count: int
    committed: int
    aborted: int
    unknown: int
    seen_unknown_count: int
    """Transactions of unknown outcome whose records were read."""
    records_read: int
    findings: tuple[Finding, ...]
    wrong_count: int


class SoakLedger:
    """Outcomes and record counts of transactions, in a few bytes for each."""

    def __init__(self) -> None:
        self._outcomes: dict[str, bytearray] = {}
        self._sizes: dict[str, bytearray] = {}
        self._seen: dict[str, bytearray] = {}
        """``RECORDS_MAX`` counts for each transaction, by producer."""
        self.records_read = 0
        self.outcome_counts: Counter[TransactionOutcome] = Counter()
        self.unknown_values: list[str] = []
        """Values that no client of ours writes."""

    def tell(
        self, producer: str, number: int, outcome: TransactionOutcome, record_count: int
    ) -> None:
        """Record the outcome of a transaction as its client knows it.

        Raises:
            ValueError: It has told of that one before, or has too many records.
        """
        if not 0 < record_count <= RECORDS_MAX:
            raise ValueError(f"{producer}/{number}: {record_count} records, at most {RECORDS_MAX}")
        outcomes = _counts_for(self._outcomes, producer, number)
        if outcomes[number]:
            raise ValueError(f"{producer}/{number} was told twice")
        outcomes[number] = _CODES[outcome]
        _counts_for(self._sizes, producer, number)[number] = record_count
        self.outcome_counts[outcome] += 1

    def read(self, record_value: bytes) -> None:
        """A reader with read_committed was given this record."""
        self.records_read += 1
        try:
            producer, number, record_index = record_value.decode().rsplit("/", 2)
            index = int(number) * RECORDS_MAX + int(record_index)
            if not 0 <= int(record_index) < RECORDS_MAX:
                raise ValueError
        except ValueError:
            if len(self.unknown_values) < SHOWN:
                self.unknown_values.append(repr(record_value))
            return
        counts = _counts_for(self._seen, producer, index)
        counts[index] = min(255, counts[index] + 1)

    def judge(self) -> Judgement:
        findings: list[Finding] = []
        wrong_count = seen_unknown_count = transaction_count = 0
        for producer in sorted({*self._outcomes, *self._seen}):
            outcomes = self._outcomes.get(producer, bytearray())
            sizes = self._sizes.get(producer, bytearray())
            read_counts = self._seen.get(producer, bytearray())
            numbers_end = max(len(outcomes), (len(read_counts) + RECORDS_MAX - 1) // RECORDS_MAX)
            for record_number in range(numbers_end):
                code = outcomes[record_number] if record_number < len(outcomes) else 0
                counts = bytes(
                    read_counts[record_number * RECORDS_MAX : (record_number + 1) * RECORDS_MAX]
                )
                counts = counts.ljust(RECORDS_MAX, b"\0")
                if not code and not any(counts):
                    continue
                transaction_count += 1
                size = sizes[record_number] if code else 0
                each_once = b"\1" * size + b"\0" * (RECORDS_MAX - size)
                none = bytes(RECORDS_MAX)
                if code == 0:
                    is_right = set(counts) <= {0, 1}  # its client has not told how many there are
                elif code == _CODES[TransactionOutcome.COMMITTED]:
                    is_right = counts == each_once
                elif code == _CODES[TransactionOutcome.ABORTED]:
                    is_right = counts == none
                else:
                    is_right = counts in (each_once, none)
                    seen_unknown_count += counts != none
                if not is_right:
                    wrong_count += 1
                    if len(findings) < SHOWN:
                        findings.append(_finding(producer, record_number, code, size, counts))
        for strange_value in self.unknown_values:
            wrong_count += 1
            findings.append(
                Finding(
                    transaction="?",
                    outcome="?",
                    expected="a value of the soak",
                    observed=strange_value,
                )
            )
        return Judgement(
            transaction_count=transaction_count,
            committed=self.outcome_counts[TransactionOutcome.COMMITTED],
            aborted=self.outcome_counts[TransactionOutcome.ABORTED],
            unknown=self.outcome_counts[TransactionOutcome.UNKNOWN],
            seen_unknown_count=seen_unknown_count,
            records_read=self.records_read,
            findings=tuple(findings),
            wrong_count=wrong_count,
        )


def differences(source_ledger: SoakLedger, copied_ledger: SoakLedger) -> list[str]:
    """The first records that the chain did not copy exactly once."""
    lines: list[str] = []
    for producer in sorted({*source_ledger._seen, *copied_ledger._seen}):
        source_counts = source_ledger._seen.get(producer, bytearray())
        copy_counts = copied_ledger._seen.get(producer, bytearray())
        size = max(len(source_counts), len(copy_counts))
        if source_counts.ljust(size, b"\0") == copy_counts.ljust(size, b"\0"):
            continue
        for read_count_index in range(size):
            counts = [
                read_counts[read_count_index] if read_count_index < len(read_counts) else 0
                for read_counts in (source_counts, copy_counts)
            ]
            if counts[0] != counts[1] and len(lines) < SHOWN:
                record_label = (
                    f"{producer}/{read_count_index // RECORDS_MAX}/{read_count_index % RECORDS_MAX}"
                )
                lines.append(f"{record_label}: read {counts[0]} times, its copy {counts[1]} times")
    return lines


def _counts_for(table: dict[str, bytearray], producer: str, index: int) -> bytearray:
    counts = table.get(producer)
    if counts is None:
        counts = table[producer] = bytearray()
    if index >= len(counts):
        counts.extend(bytes(index + 1 - len(counts) + 256))
    return counts


def _finding(producer: str, number: int, code: int, size: int, counts: bytes) -> Finding:
    names = {0: "no word of its client", 1: "committed", 2: "aborted", 3: "unknown"}
    expectations = {0: "each at most once", 1: "each once", 2: "none", 3: "each once, or none"}
    return Finding(
        transaction=f"{producer}/{number}",
        outcome=names[code],
        expected=f"{size} records, {expectations[code]}",
        observed="read " + ", ".join(f"{count}x" for count in counts[: max(size, 1)]),
    )
