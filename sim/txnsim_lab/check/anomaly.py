"""The names of the anomalies, and the result of a checker.

Names follow Adya (Weak Consistency, 1999) where he has one, and Kafka's own words where the anomaly
is one of logs and coordinators. What each demands as evidence: docs/checkers.md.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """One kind of anomaly."""

    # Writes and reads (Adya)
    DIRTY_WRITE = "dirty-write"
    """G0: committed transactions overwrote one another in a circle."""
    ABORTED_READ = "aborted-read"
    """G1a: a read_committed reader got a record of a transaction that did not commit."""
    INTERMEDIATE_READ = "intermediate-read"
    """G1b: a reader got a record of a transaction that later wrote to the same partition."""
    CIRCULAR_INFORMATION_FLOW = "circular-information-flow"
    """G1c: committed transactions read from and overwrote one another in a circle."""
    LOST_UPDATE = "lost-update"
    """P4: two committed transactions each replaced the same version that both had read."""
    READ_SKEW = "read-skew"
    """G-single: a committed transaction read a list without another's record, and depends on it."""

    # Broken promises
    LOST_WRITE = "lost-write"
    """A record was acknowledged and committed, but readers pass its offset without getting it."""
    LOST_COMMIT = "lost-commit"
    """All records of a committed transaction with several records are lost."""
    TORN_TRANSACTION = "torn-transaction"
    """A part of a transaction is visible, another part never will be."""
    DUPLICATE = "duplicate"
    """One unit of work is visible twice."""
    OUT_OF_ORDER = "out-of-order"
    """A producer's records are in the wrong order, or one can't be written any more."""
    POSITIONS_BEFORE_DECISION = "positions-before-decision"
    """A group's positions were visible although their transaction was not committed."""

    SKIPPED_INPUT = "skipped-input"
    """A group's position was committed past input that no member of it processed."""

    # Share groups (KIP-932)
    BEYOND_DELIVERY_LIMIT = "beyond-delivery-limit"
    """A record was delivered more often than its share group allows."""
    DELIVERED_AFTER_ACKNOWLEDGEMENT = "delivered-after-acknowledgement"
    """A record was delivered although its share group had accepted or rejected it."""
    TWO_OWNERS = "two-owners"
    """Two members of a share group had one record at the same time."""
    NEVER_DELIVERED = "never-delivered"
    """A share group's start offset passed a committed record that no member got."""

    # Liveness
    READER_WENT_BACK = "reader-went-back"
    """The last stable offset regressed."""
    STARVING_READER = "starving-reader"
    """A reader gets no records for longer than any transaction timeout, without a cause."""
    STUCK_LAST_STABLE_OFFSET = "stuck-last-stable-offset"
    """A transaction without an owner is open on a partition (KIP-664: hanging)."""
    STUCK_COORDINATOR = "stuck-coordinator"
    """The transaction of a transactional id does not end, for longer than its timeout."""
    FALSE_FENCING = "false-fencing"
    """A producer gets a fencing error although it made no mistake and has no successor."""
    REFUSED_PRODUCER = "refused-producer"
    """A producer that made no mistake can't go on any more."""
    UNCLEANABLE_LOG = "uncleanable-log"
    """The cleaner can't pass a hanging transaction."""


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One anomaly in a history, with its evidence."""

    kind: Kind
    because: str
    """A sentence about this case."""
    evidence: tuple[int, ...]
    """Indexes of the observations that prove it, in order."""


def convict(kind: Kind, reason: str, *evidence: int) -> Anomaly:
    """Make an anomaly; sort the evidence and remove duplicates."""
    return Anomaly(kind=kind, because=reason, evidence=tuple(sorted(set(evidence))))
