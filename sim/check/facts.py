"""What was seen from outside while a story ran: answers on the wire, and nothing that only the
simulator could know.

Scenarios fill these in step by step; ``check.verdicts`` judges them.
"""

from __future__ import annotations

import msgspec


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One partition as clients see it at one moment."""

    high_watermark: int
    last_stable_offset: int
    open_transaction_offset: int | None
    """CurrentTxnStartOffset of the story's producer (DescribeProducers)."""
    producer_epoch: int | None
    """Its epoch on the partition."""
    uncommitted: tuple[str, ...]
    """Values that a read_uncommitted consumer gets from the start."""
    committed: tuple[str, ...]
    """Values that a read_committed consumer gets from the start."""
    starved: bool
    """A read_committed Fetch at the last stable offset that waits for nothing brings nothing,
    though the high watermark is further on.
    """


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
    struck: int = 0
    """Requests that the fault held."""
    late_epoch: int | None = None
    """The producer's epoch when it sent the late record (DescribeTransactions)."""
    state_after_abort: str = ""
    marker_epoch: int | None = None
    """The producer's epoch on the partition once the abort marker was there (DescribeProducers)."""
    after_release: PartitionFacts | None = None
    late_gauge_before: int | None = None
    """PartitionsWithLateTransactionsCount before the clock was advanced."""
    late_gauge_after: int | None = None
    found: tuple[Finding, ...] = ()
    after_repair: PartitionFacts | None = None
