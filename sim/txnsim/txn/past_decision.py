"""What was decided about an open transaction that hangs: the marker that it should have had. Pure.

``txnsim txns why``, ``find-hanging --all`` and ``repair`` all read it here. Kafka's own tool
does not ask: it writes an abort, which discards records that were acknowledged as committed
(KAFKA-20734).

Its log says it: the record of PrepareCommit or PrepareAbort that lists the partition, unless the
partition has had the marker of that decision (``txn.marker_payment``). Records behind that marker
were in no transaction, so they get ABORT. Where the log can't be read, or has the decision no more,
the coordinator's newest state may tell of an abort. It never tells of a commit: a complete
transaction no longer lists its partitions, and COMMIT would publish what was in none.

A coordinator tells its newest transaction only. That it is the one that hangs follows from the
epoch and from the clock: transactions v2 raise the epoch with each end, so the transaction at epoch
e was ended as the entry at e + 1 says; before that, one epoch has many transactions, and the
hanging one is the newest if it was written to after that one began. Records carry their producers'
clocks: one that is behind makes the answer ``unknown``. One that is ahead of the coordinator's by
more than the time between two transactions of one epoch could make it wrong, so the answer names
its reason.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from txnsim.txn.marker_payment import DueDecisions, PartitionMarkers, Payment
from txnsim.types import TRANSACTION_STATE_TOPIC

_COMMITS: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORTS: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


READ_THE_LOG: Final = (
    f"the coordinator's log may tell: give this user READ on the topic {TRANSACTION_STATE_TOPIC}"
)


class Decision(StrEnum):
    """How the transaction was ended where it was ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"

    @property
    def marker(self) -> str:
        """What ends a transaction that was so decided; empty where that is unknown."""
        return {self.COMMITTED: "COMMIT", self.ABORTED: "ABORT"}.get(self, "")


GUESSES: Final = {"abort": Decision.ABORTED, "commit": Decision.COMMITTED}
"""Values of ``--guess`` for an unknown decision."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, and the evidence for it."""

    decision: Decision
    because: str
    """A part of a sentence."""
    lacks_right: bool = False
    """Unknown for want of the right to read the coordinator's log."""

    def __str__(self) -> str:
        sentence = f"{_SAID[self.decision]}, as {self.because}"
        return f"{sentence}; {READ_THE_LOG}" if self.lacks_right else sentence

    @staticmethod
    def with_guess(command: str, decided: Decided | None) -> str:
        """The command for people, with ``--guess`` if the decision is unknown."""
        if decided is not None and decided.decision is not Decision.UNKNOWN:
            return command
        return f"{command} --guess abort, which discards its records, or --guess commit"

    @classmethod
    def by_log(
        cls,
        due_decisions: DueDecisions | None,
        markers: PartitionMarkers,
        *,
        last_write_ms: int | None,
    ) -> Decided | None:
        """What was decided about a transaction that a partition has open, by the coordinator's log
        and the markers that the partition has.

        Args:
            due_decisions: The decisions that list the partition; None without one.
            markers: The producer's markers there in front of the open transaction;
                ``NO_MARKERS`` where the log could not be read.
            last_write_ms: Timestamp of the newest record of the open transaction; None if unknown.

        Returns:
            None where no record tells: the partition was in no transaction that was decided.
        """
        if due_decisions is None:
            return None
        decision = due_decisions.newest
        why = f"its coordinator's log has {decision.state} with this partition"
        payment = due_decisions.payment(markers)
        if payment is Payment.PAID:
            return cls(
                decision=Decision.ABORTED,
                because=f"{why}, and the marker at offset {markers.markers[-1].offset} has carried"
                " it out: what was written behind that marker was in no transaction",
            )
        if due_decisions.has_mixed_outcomes(markers):
            return _unknown_decision(
                f"{why}, but an earlier decision with the other outcome has no marker there either"
            )
        if decision.is_commit and due_decisions.is_older_than_write(last_write_ms):
            return _unknown_decision(
                f"{why}, but the newest record here is stamped later than that decision: it was in"
                " no transaction, or its producer's clock is wrong"
            )
        if payment is Payment.UNPAID or not decision.is_commit:
            outcome = Decision.COMMITTED if decision.is_commit else Decision.ABORTED
            return cls(decision=outcome, because=why)
        if not markers.markers:
            return _unknown_decision(
                f"{why}, but the log does not tell whether its marker was there"
            )
        return _unknown_decision(
            f"{why}, but the logs do not tell whether the marker at offset"
            f" {markers.markers[-1].offset} carried it out: then these records were in no"
            " transaction"
        )

    @classmethod
    def by_newest(
        cls,
        producer_id: int,
        producer_epoch: int,
        last_timestamp_ms: int,
        newest: Newest | None,
    ) -> Decided:
        """What was decided about a transaction that a partition has open and no coordinator lists.

        Args:
            producer_id: As the leader tells.
            producer_epoch: As the leader tells.
            last_timestamp_ms: Of the producer's last write there.
            newest: What the coordinator tells of the producer's transactional id; None where no
                coordinator knows it any more.
        """
        if newest is None:
            return _unknown_decision("no coordinator knows the producer any more")
        if newest.producer_id != producer_id:
            return _unknown_decision(
                f"its transactional id goes on as producer {newest.producer_id}"
            )
        later = newest.producer_epoch - producer_epoch
        if newest.state == "Empty" and later == 0:
            why = (
                f"no transaction was begun at epoch {producer_epoch}, so none can have been"
                " committed"
            )
            return cls(decision=Decision.ABORTED, because=why)
        outcome = _outcome(newest.state)
        if outcome is None or later not in (0, 1):
            return _unknown_decision(
                f"its transactional id has gone on: it is {newest.state} at epoch "
                f"{newest.producer_epoch}, and this is of epoch {producer_epoch}"
            )
        if newest.start_time_ms is None or last_timestamp_ms < newest.start_time_ms:
            return _unknown_decision(
                f"its coordinator tells of a later transaction, which is {newest.state}: this one"
                " was written before that began"
            )
        if outcome is Decision.COMMITTED:
            return _unknown_decision(
                f"its coordinator says {newest.state}, but no longer whether this partition was in"
                " that transaction and has had its marker"
            )
        return cls(decision=outcome, because=f"its coordinator says {newest.state}")


_SAID: Final = {
    Decision.COMMITTED: "It was committed: end it with COMMIT",
    Decision.ABORTED: "It was not committed: end it with ABORT, which discards its records",
    Decision.UNKNOWN: "What was decided is unknown",
}


class Newest(msgspec.Struct, frozen=True, kw_only=True):
    """The newest transaction of a transactional id, as its coordinator tells it."""

    state: str
    producer_id: int
    producer_epoch: int
    start_time_ms: int | None
    """None where none has begun under this identity."""


def _outcome(state: str) -> Decision | None:
    if state in _COMMITS:
        return Decision.COMMITTED
    return Decision.ABORTED if state in _ABORTS else None


def _unknown_decision(because: str) -> Decided:
    return Decided(decision=Decision.UNKNOWN, because=because)
