"""Where read_committed readers of a partition stand, and what keeps them there. Pure.

Such a reader gets only records below the last stable offset: the first offset of the oldest
transaction that is still open (``UnifiedLog.fetchLastStableOffsetMetadata``).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from txnsim.shell_text import ShellText
from txnsim.txn.open_txn_verdict import PROGRAM, OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence
from txnsim.types import TopicPartition
from txnsim.verdict.facts import OpenTxnFacts, OwedMarkerFacts, PartitionFacts


class Cause(StrEnum):
    """What holds readers back."""

    NOTHING = "nothing"
    """No open transaction; readers can read up to the high watermark."""
    HANGING = "hanging transaction"
    DECIDED = "marker outstanding"
    ALIVE = "open transaction"
    UNSERVED = "open transaction without a coordinator that serves"
    UNREPLICATED = "marker not replicated"
    """The transaction has ended at the leader, and its marker is above the high watermark."""
    WRITTEN = "not yet on all replicas"
    """No transaction is open at the leader; the high watermark is unknown."""
    UNTOLD = "open transaction that can't be judged"
    """The brokers are too old to tell how the transaction ends."""
    OFFLINE = "no leader"

    @classmethod
    def of_status(cls, verdict: OpenTxnStatus) -> Cause:
        """The cause that belongs to the verdict on an open transaction whose leader answered."""
        return {
            OpenTxnStatus.HANGING: cls.HANGING,
            OpenTxnStatus.DECIDED: cls.DECIDED,
            OpenTxnStatus.ALIVE: cls.ALIVE,
            OpenTxnStatus.UNKNOWN: cls.UNSERVED,
        }[verdict]


class BlockingTxn(msgspec.Struct, frozen=True, kw_only=True):
    """The open transaction at which readers stop."""

    producer_id: int
    producer_epoch: int
    quiet_ms: int
    """Milliseconds since the timestamp of its newest record. The producer sets timestamps, so it
    may be longer than the transaction has been open.
    """
    verdict: OpenTxnStatus
    reason: str
    """The reason of the verdict, as a sentence without its full stop."""
    transactional_id: str | None
    coordinator_id: int | None
    is_two_phase: bool = False
    decided: DecisionEvidence | None = None
    """The decision about a hanging transaction; None unless a coordinator answered."""
    owed_marker: OwedMarkerFacts | None = None
    """The marker of a decided transaction; None if it is unknown what becomes of it."""
    is_beginning_deleted: bool = False
    """Whether its first records are deleted."""


class ReaderStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How far readers of a partition get, and why not further (``words.standing_sentences``)."""

    partition: TopicPartition
    cause: Cause
    last_stable_offset: int
    high_watermark: int
    blocking_txn: BlockingTxn | None = None
    later_open_count: int = 0
    """Number of open transactions after the blocking one."""
    not_in_sync: Sequence[int] = ()
    """Ids of replicas that are not in sync."""
    share_groups: Sequence[tuple[str, int | None]] | None = ()
    """(name, start offset) of the share groups with read_committed; None if unknown."""
    readers: Sequence[str] | None = None
    """Client ids of the consumers that wait there; None if unknown."""
    program: ShellText = PROGRAM
    """The command line of ``txnsim txns`` for this cluster."""


def blocking_txn_of(facts: PartitionFacts) -> OpenTxnFacts | None:
    """The open transaction at which readers stand; None if they stand at none of those that are
    told.

    DeleteRecords may have deleted its first records: readers then stand at the log's start, or at
    the batch that has it (KAFKA-17803), and get nothing from there on.
    """
    for open_txn in sorted(facts.open_txns, key=lambda txn: txn.first_offset):
        if open_txn.first_offset >= facts.log_start:
            if open_txn.first_offset == facts.last_stable_offset:
                return open_txn
        elif facts.last_stable_offset <= facts.log_start:
            return open_txn
    return None


def cause_of_standing(facts: PartitionFacts, status: OpenTxnStatus | None) -> Cause:
    """What holds readers back.

    Args:
        facts: A partition with a leader that is up.
        status: The verdict on the transaction at which they stand; None if they stand at none.
    """
    if status is not None:
        return Cause.of_status(status)
    if facts.last_stable_offset >= facts.high_watermark:
        return Cause.NOTHING
    return Cause.UNREPLICATED if facts.is_watermark_known else Cause.WRITTEN
