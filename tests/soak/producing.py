"""Shared by the Python programs of the soak: their arguments, the signal to stop, and the line
printed for each transaction.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from enum import Enum
from typing import Final, NamedTuple

ABORT_EVERY: Final = 10
RECORDS: Final = 2
TIMEOUT_MS: Final = 60_000
STUCK: Final = 75
"""Exit status of a program whose library did not return from a call."""
STUCK_AFTER_S: Final = 120.0
"""Twice the timeout of a transaction, which is also the longest timeout of a call."""


class TransactionOutcome(Enum):
    """What a client knows of a transaction."""

    COMMITTED = "c"
    """The commit was acknowledged."""
    ABORTED = "a"
    UNKNOWN = "u"
    """A commit was requested, and no answer reports its outcome."""


class ProducerWork(NamedTuple):
    """The arguments of a producer program."""

    bootstrap: str
    topic: str
    partitions: int
    producers: int
    per_second: float
    """Transactions of all producers together, at most."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> ProducerWork:
        """Parse the arguments ``BOOTSTRAP TOPIC PARTITIONS PRODUCERS PER_SECOND``."""
        bootstrap, topic, partitions, producers, per_second = arguments
        return cls(bootstrap, topic, int(partitions), int(producers), float(per_second))

    @property
    def pause_s(self) -> float:
        """Seconds between the beginnings of two transactions of one producer."""
        return self.producers / self.per_second

    def records(self, name: str, number: int) -> list[tuple[int, bytes]]:
        """Partition and value of each record of a transaction."""
        return [
            (
                (number + record_index * 5) % self.partitions,
                f"{name}/{number}/{record_index}".encode(),
            )
            for record_index in range(RECORDS)
        ]


def tell(name: str, record_number: int, outcome: TransactionOutcome) -> None:
    """Print how a transaction has ended."""
    sys.stdout.write(f"{name} {record_number} {outcome.value} {RECORDS}\n")
    sys.stdout.flush()


class Watchdog:
    """Ends the process with the status ``STUCK`` if a step takes too long.

    A library's call may wait for ever, whatever timeout it was given.
    """

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def step(self) -> None:
        """Note that the next step begins."""
        self._began_s = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._began_s < STUCK_AFTER_S:
            time.sleep(1.0)
        os._exit(STUCK)


def stop_at_end_of_input() -> threading.Event:
    """An event that is set once standard input ends."""
    stop_event = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop_event.set()
        time.sleep(STUCK_AFTER_S)
        os._exit(STUCK)

    threading.Thread(target=wait, daemon=True).start()
    return stop_event
