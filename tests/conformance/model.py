"""What the players know: enough to be right on purpose, and wrong on purpose.

This is no third implementation. It remembers what both brokers answered (identities, sequences,
states) so that most requests make sense, and keeps what is over so that some can be stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from tests.conformance.operations import Operation

Place = tuple[str, int]
"""(topic, partition)."""

ABSENT: Final = "absent"
EMPTY: Final = "Empty"
ONGOING: Final = "Ongoing"
PREPARED: Final = frozenset({"PrepareCommit", "PrepareAbort"})
STATES: Final = (
    *(ABSENT, EMPTY, ONGOING, "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort"),
)
"""States of a transactional id as DescribeTransactions shows them."""


class Identity(msgspec.Struct, frozen=True):
    """A producer id, by the order in which it was handed out, and an epoch."""

    pid: int
    epoch: int


class Producer:
    """One producer: transactional where it has a transactional id.

    Args:
        name: The transactional id, or None.
        timeout_ms: Of its transactions.
        style: ``old`` or ``new`` protocol, or ``mixed``.
    """

    def __init__(self, name: str | None, *, timeout_ms: int, style: str) -> None:
        self.name = name
        self.timeout_ms = timeout_ms
        self.style = style
        self.state = ABSENT
        self.stuck_for = 0
        self.wedged = False
        """Its coordinator could not write the record of a new transaction at level 0, and waits."""
        self.current: Identity | None = None
        """What its coordinator holds; after a time-out that is not what the producer was given."""
        self.last: Operation | None = None
        self.added: set[Place] = set()
        self.history: list[Identity] = []
        self._sequences: dict[tuple[Identity, Place], int] = {}

    @property
    def identity(self) -> Identity | None:
        return self.history[-1] if self.history else None

    def takes(self, identity: Identity) -> None:
        if not self.history or self.history[-1] != identity:
            self.history.append(identity)

    def next_sequence(self, identity: Identity, topic_partition: Place) -> int:
        """The sequence that a partition expects next of an identity."""
        return self._sequences.get((identity, topic_partition), 0)

    def wrote(self, identity: Identity, topic_partition: Place, next_sequence: int) -> None:
        """Note that a batch was appended."""
        self._sequences[identity, topic_partition] = next_sequence

    def forget(self, topic: str) -> None:
        """Forget the sequences of the partitions of a deleted topic."""
        self._sequences = {
            (identity, topic_partition): sequence
            for (identity, topic_partition), sequence in self._sequences.items()
            if topic_partition[0] != topic
        }

    def take_over(
        self, state: str, current_identity: Identity | None, added_partitions: set[Place]
    ) -> None:
        """Take over the state, identity and partitions that the coordinator describes."""
        self.stuck_for = self.stuck_for + 1 if state in PREPARED or self.wedged else 0
        self.state, self.current, self.added = state, current_identity, added_partitions

    def start_anew(self, name: str) -> None:
        """Reset the producer under another transactional id."""
        self.name, self.state, self.stuck_for, self.wedged = name, ABSENT, 0, False
        self.current, self.last = None, None
        self.added = set()
        self.history = []


class Transaction(msgspec.Struct, frozen=True):
    """An opened transaction: its producer, the producer's identity, its first partition."""

    producer: Producer
    identity: Identity
    place: Place


class Position(msgspec.Struct, frozen=True):
    """A partition and an offset at which a reader may go on."""

    place: Place
    offset: int


class World:
    """Topics and producers of one play.

    Args:
        prefix: Of every name.
        topics: Names, without the prefix.
    """

    def __init__(self, prefix: str, *topics: str) -> None:
        self.prefix = prefix
        self.group = f"{prefix}-group"
        self.partitions = {f"{prefix}-{topic}": PARTITIONS for topic in topics}
        """Of each topic, also of one that was deleted."""
        self.deleted: set[str] = set()
        self.altered: dict[str, dict[str, str]] = {}
        """Topic -> its configs that are not as they were at first."""
        self.verifies = True
        self.producers: list[Producer] = []
        self.loose: list[Producer] = []
        """Idempotent producers without a transactional id."""

    @property
    def topics(self) -> list[str]:
        return list(self.partitions)

    @property
    def places(self) -> list[Place]:
        """All partitions, those of a deleted topic last."""
        topics = sorted(self.partitions, key=lambda topic: topic in self.deleted)
        return [(topic, index) for topic in topics for index in range(self.partitions[topic])]

    @property
    def identities(self) -> list[Identity]:
        return [
            identity for producer in (*self.producers, *self.loose) for identity in producer.history
        ]

    def named(self, name: str | None) -> Producer | None:
        """The producer with a transactional id; None for an unknown id."""
        return next((producer for producer in self.producers if producer.name == name), None)

    def has_open(self, topic_partition: Place) -> bool:
        """Whether a transaction is open on a partition, as far as we know."""
        return any(topic_partition in producer.added for producer in self.producers)

    def deletes(self, topic: str) -> None:
        self.deleted.add(topic)
        self.altered.pop(topic, None)
        self.partitions[topic] = PARTITIONS
        for producer in (*self.producers, *self.loose):
            producer.forget(topic)


PARTITIONS: Final = 2
"""Of a new topic."""
