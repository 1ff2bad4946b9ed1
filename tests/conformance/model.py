"""What the players know: enough to be right on purpose, and wrong on purpose.

This is no third implementation. It remembers what both brokers answered (identities, sequences,
states) so that most requests make sense, and keeps what is over so that some can be stale.
"""

from __future__ import annotations

from typing import Final

import msgspec

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
        self.added: set[Place] = set()
        self.history: list[Identity] = []
        self._sequences: dict[tuple[Identity, Place], int] = {}

    @property
    def identity(self) -> Identity | None:
        """The one that it should use."""
        return self.history[-1] if self.history else None

    def takes(self, identity: Identity) -> None:
        """Go on with this identity."""
        if not self.history or self.history[-1] != identity:
            self.history.append(identity)

    def next_sequence(self, identity: Identity, place: Place) -> int:
        """The sequence that a partition expects of it."""
        return self._sequences.get((identity, place), 0)

    def wrote(self, identity: Identity, place: Place, next_sequence: int) -> None:
        """A batch was appended."""
        self._sequences[identity, place] = next_sequence

    def is_in(self, state: str) -> None:
        """What the coordinator says now."""
        if state != ONGOING:
            self.added.clear()
        self.stuck_for = self.stuck_for + 1 if state in PREPARED else 0
        self.state = state


class World:
    """Topics and producers that a stretch of the play is about."""

    def __init__(self, prefix: str, topics: list[str], producers: list[Producer]) -> None:
        self.prefix = prefix
        self.topics = topics
        self.producers = producers
        self.loose: list[Producer] = []
        """Idempotent producers without a transactional id."""

    @property
    def places(self) -> list[Place]:
        """All partitions."""
        return [(topic, index) for topic in self.topics for index in range(PARTITIONS)]

    @property
    def identities(self) -> list[Identity]:
        """Every identity that anybody has or had."""
        return [one for each in (*self.producers, *self.loose) for one in each.history]

    def has_open(self, place: Place) -> bool:
        """Whether a transaction is open on a partition, as far as we know."""
        return any(place in producer.added for producer in self.producers)


PARTITIONS: Final = 2
"""Of each topic."""
