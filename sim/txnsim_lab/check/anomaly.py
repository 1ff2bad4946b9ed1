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
    """G1b: a record was read of a transaction that went on writing to the partition."""
    CIRCULAR_INFORMATION_FLOW = "circular-information-flow"
    """G1c: committed transactions read from and overwrote one another in a circle."""
    LOST_UPDATE = "lost-update"
    """Two committed transactions each replaced the same version that both had read."""
    READ_SKEW = "read-skew"
    """G-single: a committed transaction read a list without another's record, and depends on it."""

    # Broken promises
    LOST_WRITE = "lost-write"
    """Acknowledged and committed, and readers pass its place without it."""
    LOST_COMMIT = "lost-commit"
    """The same of all records of a committed transaction of several."""
    TORN_TRANSACTION = "torn-transaction"
    """A part of a transaction is visible, another part never will be."""
    DUPLICATE = "duplicate"
    """One unit of work is visible twice."""
    OUT_OF_ORDER = "out-of-order"
    """A producer's records were turned around, or one can't be delivered any more."""
    POSITIONS_BEFORE_DECISION = "positions-before-decision"
    """A group's positions were visible of a transaction that was not committed."""

    SKIPPED_INPUT = "skipped-input"
    """A group's position was committed past input that no member of it processed."""

    # Share groups (KIP-932)
    BEYOND_DELIVERY_LIMIT = "beyond-delivery-limit"
    """A record was delivered more often than its share group allows."""
    DELIVERED_AFTER_ACKNOWLEDGEMENT = "delivered-after-acknowledgement"
    """A record was delivered though its share group had accepted or rejected it."""
    TWO_OWNERS = "two-owners"
    """Two members of a share group had one record at the same time."""
    NEVER_DELIVERED = "never-delivered"
    """A share group went on behind a committed record that no member was given."""

    # Liveness
    READER_WENT_BACK = "reader-went-back"
    """The last stable offset regressed."""
    STARVING_READER = "starving-reader"
    """A reader gets no records for longer than any transaction timeout, without a cause."""
    STUCK_LAST_STABLE_OFFSET = "stuck-last-stable-offset"
    """A transaction without an owner is open on a partition (KIP-664: hanging)."""
    STUCK_COORDINATOR = "stuck-coordinator"
    """A transactional id is neither decided nor free again, for longer than its timeout."""
    FALSE_FENCING = "false-fencing"
    """A producer is fenced or refused without an error or a successor of its own."""
    REFUSED_PRODUCER = "refused-producer"
    """A producer that kept the rules is stopped for good."""
    UNCLEANABLE_LOG = "uncleanable-log"
    """The cleaner can't pass a hanging transaction."""


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One conviction."""

    kind: Kind
    because: str
    """A sentence about this very case."""
    evidence: tuple[int, ...]
    """Indexes of the observations that prove it, in order."""


def convict(kind: Kind, because: str, *evidence: int) -> Anomaly:
    """An anomaly whose evidence is in order, each observation once."""
    return Anomaly(kind=kind, because=because, evidence=tuple(sorted(set(evidence))))
