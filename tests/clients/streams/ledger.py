"""What went in, what came out, and whether that is exact. Pure, but for a lock.

Each input is a word and leads to exactly one output: the word with its count so far. A reader of
committed records must see 1, 2, 3 … per word, whatever was killed in between. What is out of order
is a lost or a repeated transaction.
"""

from __future__ import annotations

import threading
from collections import Counter


class Ledger:
    """Counts inputs and outputs of each word; two threads call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fed: Counter[str] = Counter()
        self._seen_counts: Counter[str] = Counter()
        self._problems: list[str] = []

    def feed(self, word: str) -> None:
        """Count one more input of a word."""
        with self._lock:
            self._fed[word] += 1

    def see(self, word: str, count: int, position: str) -> None:
        """Compare an output with the expected count of its word, and count it."""
        with self._lock:
            expected_count = self._seen_counts[word] + 1
            if count < expected_count:
                self._problems.append(
                    f"{position}: {word} is {count} again, after {expected_count - 1}"
                )
            elif count > expected_count:
                self._problems.append(
                    f"{position}: {word} is {count}, but {expected_count} is missing"
                )
            self._seen_counts[word] = count  # told once, then it goes on from there

    @property
    def fed(self) -> int:
        """Number of inputs so far."""
        with self._lock:
            return self._fed.total()

    @property
    def problems(self) -> tuple[str, ...]:
        with self._lock:
            return (
                *self._problems,
                *(
                    f"{word} was counted {count} times, fed {self._fed[word]} times"
                    for word, count in sorted(self._seen_counts.items())
                    if count > self._fed[word]
                ),
            )

    def without_outputs(self) -> Ledger:
        """A ledger with the same inputs, for another reader."""
        fresh_ledger = Ledger()
        with self._lock:
            fresh_ledger._fed = self._fed.copy()
        return fresh_ledger

    def missing(self) -> Counter[str]:
        """Inputs without an output so far, per word."""
        with self._lock:
            return self._fed - self._seen_counts
