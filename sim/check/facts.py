"""What was seen from outside while a story ran: answers on the wire, a metric, and what the fault
itself counted; nothing that only the simulator could know.

Scenarios fill these in step by step; ``check.verdicts`` judges them.
"""

from __future__ import annotations

import msgspec


class ReaderFetch(msgspec.Struct, frozen=True, kw_only=True):
    """One Fetch of a reader at a position it keeps, and the answer."""

    # Asked
    offset: int
    isolation: str
    max_wait_ms: int
    max_bytes: int

    # Answered
    values: tuple[str, ...]
    """Of the records that the isolation level lets through."""
    last_stable_offset: int
    high_watermark: int

    @property
    def asked(self) -> tuple[int, str, int, int]:
        """The question; two Fetches with equal ones are the same."""
        return (self.offset, self.isolation, self.max_wait_ms, self.max_bytes)

    @property
    def starved(self) -> bool:
        """Nothing came, though there is something behind the last stable offset; nobody waited
        either, so an answer on its way can't be the reason.
        """
        return (
            not self.values
            and self.max_wait_ms == 0
            and self.last_stable_offset < self.high_watermark
        )


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The story's partition as clients see it at one moment."""

    open_transaction_offset: int | None
    """CurrentTxnStartOffset of the story's producer (DescribeProducers)."""
    producer_epoch: int | None
    """Its epoch on the partition."""
    uncommitted: tuple[str, ...]
    """Values that a read_uncommitted reader gets from the start."""
    committed: tuple[str, ...]
    """Values that a read_committed reader gets from the start."""
    reader: ReaderFetch
    """What the story's read_committed reader gets at its position."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of find-hanging."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int


class Facts(msgspec.Struct, kw_only=True):
    """What a run has seen so far."""

    scenario: str
    mode: str
    armed: bool
    player: str
    """Who played the producer."""

    # The fault
    struck: int = 0
    """Requests that faults have struck."""
    handled: int = 0
    """Those of them that were held, let go and then handled to the end."""

    # The producer
    late_epoch: int | None = None
    """Its epoch when it sent the late record (DescribeTransactions)."""
    state_after_abort: str = ""
    epoch_after_abort: int | None = None
    """With the state, from DescribeTransactions."""
    marker_epoch: int | None = None
    """Its epoch on the partition once the abort marker was there (DescribeProducers)."""

    # The others
    reader_offset: int | None = None
    """Where a read_committed reader stands that has read everything before the release."""
    appended: tuple[str, ...] = ()
    """Values that somebody else got acknowledged behind the late record."""
    after_release: PartitionFacts | None = None
    late_gauge_before: int | None = None
    """PartitionsWithLateTransactionsCount over all brokers, before the clock was advanced."""
    late_gauge_after: int | None = None
    found: tuple[Finding, ...] = ()
    """What find-hanging named."""
    after_repair: PartitionFacts | None = None
