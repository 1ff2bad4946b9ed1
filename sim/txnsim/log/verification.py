"""Guards against the late append (KIP-890; Kafka's VerificationGuard and VerificationStateEntry).

Before the first append of a transaction to a partition the leader asks the coordinator whether the
transaction is really open. The answer takes time, so this race would remain:

1. a Produce asks, the coordinator says yes; 2. the transaction is aborted and its marker written
here; 3. the Produce goes on to append, and opens a transaction that no marker will ever end.

So the leader creates an entry with a *guard* before it asks. The marker of step 2 removes the
entry; the append of step 3 has a guard that no longer matches, and is refused. Entries exist only
in the leader's memory.

A guard is a number that this log has never used before; 0 (``SENTINEL``) never matches.
"""

from __future__ import annotations

from typing import Final

import msgspec

SENTINEL: Final = 0
"""No guard: the transaction was already open on this partition and needed no check."""


class VerificationEntry(msgspec.Struct, kw_only=True, eq=False):
    """The pending verification of one producer."""

    guard: int
    created_ms: int
    producer_epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool
    """Whether the client uses transactions v2; fixed when the entry is created."""


class VerificationEntries:
    """Entries of one partition, by producer id."""

    __slots__ = ("_guard_last", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, VerificationEntry] = {}
        self._guard_last = SENTINEL

    # Commands

    def start(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> int:
        """Create the producer's entry, or use the existing one; returns its guard, to be passed
        with the append.

        The guard stays the same for the life of the entry. A lower sequence in the same epoch
        lowers the entry's, so that a batch that has overtaken it fails the sequence check until the
        lower one is written; a higher epoch replaces the entry.
        """
        verification_entry = self.entries.get(producer_id)
        if verification_entry is None:
            self._guard_last += 1
            self.entries[producer_id] = VerificationEntry(
                guard=self._guard_last,
                created_ms=now_ms,
                producer_epoch=producer_epoch,
                lowest_sequence=base_sequence,
                supports_epoch_bump=supports_epoch_bump,
            )
            return self._guard_last
        if producer_epoch > verification_entry.producer_epoch:
            verification_entry.producer_epoch = producer_epoch
            verification_entry.lowest_sequence = base_sequence
        elif (
            producer_epoch == verification_entry.producer_epoch
            and base_sequence < verification_entry.lowest_sequence
        ):
            verification_entry.lowest_sequence = base_sequence
        return verification_entry.guard

    def on_marker(
        self, producer_id: int, producer_epoch: int, *, spares_own_epoch: bool = True
    ) -> None:
        """End the producer's verifications, because its marker was written.

        But not if the marker has the epoch that is being verified and the client uses transactions
        v2: there a marker bumps the epoch, so this marker is a retry for the previous transaction,
        and must not remove the guard of the next (KAFKA-18575, ``spares_own_epoch``).
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        if (
            spares_own_epoch
            and entry.supports_epoch_bump
            and entry.producer_epoch == producer_epoch
        ):
            return
        del self.entries[producer_id]

    def expire(self, *, now_ms: int, expiration_ms: int) -> None:
        """Remove entries that are at least ``expiration_ms`` old."""
        for producer_id, entry in list(self.entries.items()):
            if now_ms - entry.created_ms >= expiration_ms:
                del self.entries[producer_id]

    def clear(self) -> None:
        """Remove all entries when a broker starts. Guards from before never match again."""
        self.entries.clear()

    # Queries

    def find(self, producer_id: int) -> VerificationEntry | None:
        """The producer's entry, if a verification is pending."""
        return self.entries.get(producer_id)
