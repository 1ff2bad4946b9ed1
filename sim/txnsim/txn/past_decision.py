"""Finds out how a hanging transaction was decided: the marker that it should have got. Pure.

``txnsim txns why``, ``find-hanging --all`` and ``repair`` all use it. Kafka's own tool does not
find out: it writes an abort, which discards records that were acknowledged as committed
(KAFKA-20734).

The coordinator's log has the answer: the record of PrepareCommit or PrepareAbort that lists the
partition, unless the partition has the marker of that decision (``txn.marker_payment``). Records
after that marker were in no transaction, so they get ABORT. If the log can't be read, or no longer
has the decision, the coordinator's newest state may show an abort. It never shows a commit: a
complete transaction no longer lists its partitions, and COMMIT would publish records that were in
no transaction.

A coordinator describes only its newest transaction. Epoch and clock show that it is the hanging
one: transactions v2 raise the epoch with each end, so the transaction at epoch e was ended as the
entry at e + 1 says. Before v2, one epoch has many transactions, and the hanging one is the newest
if it was written to after the newest one began. Records have their producers' timestamps: a
producer's clock that is behind makes the answer ``unknown``. A clock that is ahead of the
coordinator's by more than the time between two transactions of one epoch could make the answer
wrong, so the answer gives its reason.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from txnsim.txn.marker_payment import DueDecisions, PartitionMarkers, Payment
from txnsim.types import TRANSACTION_STATE_TOPIC

_COMMIT_STATES: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORT_STATES: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


READ_LOG_HINT: Final = (
    f"the coordinator's log may tell: give this user READ on the topic {TRANSACTION_STATE_TOPIC}"
)


class PastDecision(StrEnum):
    """How the transaction was ended on its other partitions."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"

    @property
    def marker(self) -> str:
        """The marker that ends a transaction with this decision; empty if the decision is
        unknown.
        """
        return {self.COMMITTED: "COMMIT", self.ABORTED: "ABORT"}.get(self, "")


GUESSES: Final = {"abort": PastDecision.ABORTED, "commit": PastDecision.COMMITTED}
"""Value of ``--guess`` -> decision to assume if it is unknown."""


class DecisionEvidence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a coordinator has decided of a past transaction, and how that is known."""

    decision: PastDecision
    because: str
    """The evidence, as a part of a sentence."""
    lacks_right: bool = False
    """Whether the decision is unknown because the right to read the coordinator's log is
    missing.
    """

    def __str__(self) -> str:
        sentence = f"{_DECISION_SENTENCES[self.decision]}, as {self.because}"
        return f"{sentence}; {READ_LOG_HINT}" if self.lacks_right else sentence

    @staticmethod
    def with_guess(command: str, evidence: DecisionEvidence | None) -> str:
        """The command to show to users. It ends the text, without a full stop, as people paste it.
        If the decision is unknown it ends with ``--guess``, and the words before it say what to
        add.
        """
        if evidence is not None and evidence.decision is not PastDecision.UNKNOWN:
            return command
        return f"add abort, which discards its records, or commit: {command} --guess"

    @classmethod
    def from_log(
        cls,
        due_decisions: DueDecisions | None,
        markers: PartitionMarkers,
        *,
        last_write_ms: int | None,
    ) -> DecisionEvidence | None:
        """The decision about an open transaction of a partition, by the coordinator's log and the
        partition's markers.

        Args:
            due_decisions: The decisions that list the partition; None if there are none.
            markers: The producer's markers on the partition before its open transaction;
                ``NO_MARKERS`` if the log could not be read.
            last_write_ms: Timestamp of the newest record of the open transaction; None if unknown.

        Returns:
            The decision; None if no record has one: the partition was in no decided transaction.
        """
        if due_decisions is None:
            return None
        decision = due_decisions.newest_decision
        log_words = f"its coordinator's log has {decision.state} with this partition"
        payment = due_decisions.payment(markers)
        if payment is Payment.PAID:
            return cls(
                decision=PastDecision.ABORTED,
                because=f"{log_words}, and the marker at offset {markers.markers[-1].offset} has"
                " carried it out: what was written behind that marker was in no transaction",
            )
        if due_decisions.has_mixed_outcomes(markers):
            return _unknown_decision(
                f"{log_words}, but an earlier decision with the other outcome has no marker there"
                " either"
            )
        if decision.is_commit and due_decisions.is_older_than_write(last_write_ms):
            return _unknown_decision(
                f"{log_words}, but the newest record here is stamped later than that decision: it"
                " was in no transaction, or its producer's clock is wrong"
            )
        if payment is Payment.UNPAID or not decision.is_commit:
            past_decision = PastDecision.COMMITTED if decision.is_commit else PastDecision.ABORTED
            return cls(decision=past_decision, because=log_words)
        if not markers.markers:
            return _unknown_decision(
                f"{log_words}, but the log does not tell whether its marker was there"
            )
        return _unknown_decision(
            f"{log_words}, but the logs do not tell whether the marker at offset"
            f" {markers.markers[-1].offset} carried it out: then these records were in no"
            " transaction"
        )

    @classmethod
    def from_newest_txn(
        cls,
        producer_id: int,
        producer_epoch: int,
        last_timestamp_ms: int,
        newest_txn: NewestTxn | None,
    ) -> DecisionEvidence:
        """The decision about an open transaction that no coordinator lists, by the coordinator's
        newest state.

        Args:
            producer_id: Producer id, from the leader.
            producer_epoch: Producer epoch, from the leader.
            last_timestamp_ms: Timestamp of the producer's last write to the partition.
            newest_txn: The newest transaction of the producer's transactional id; None if no
                coordinator knows the id any more.
        """
        if newest_txn is None:
            return _UNKNOWN_PRODUCER
        if newest_txn.producer_id != producer_id:
            return _unknown_decision(
                f"its transactional id goes on as producer {newest_txn.producer_id}"
            )
        epochs_later = newest_txn.producer_epoch - producer_epoch
        if newest_txn.state == "Empty" and epochs_later == 0:
            because = (
                f"no transaction was begun at epoch {producer_epoch}, so none can have been"
                " committed"
            )
            return cls(decision=PastDecision.ABORTED, because=because)
        past_decision = _outcome(newest_txn.state)
        if past_decision is None or epochs_later not in (0, 1):
            return _unknown_decision(
                f"its transactional id has gone on: it is {newest_txn.state} at epoch "
                f"{newest_txn.producer_epoch}, and this is of epoch {producer_epoch}"
            )
        if newest_txn.start_time_ms is None or last_timestamp_ms < newest_txn.start_time_ms:
            return _unknown_decision(
                f"its coordinator tells of a later transaction, which is {newest_txn.state}: this"
                " one"
                " was written before that began"
            )
        if past_decision is PastDecision.COMMITTED:
            return _unknown_decision(
                f"its coordinator says {newest_txn.state}, but no longer whether this partition"
                " was in"
                " that transaction and has had its marker"
            )
        return cls(decision=past_decision, because=f"its coordinator says {newest_txn.state}")


_DECISION_SENTENCES: Final = {
    PastDecision.COMMITTED: "It was committed: end it with COMMIT",
    PastDecision.ABORTED: "It was not committed: end it with ABORT, which discards its records",
    PastDecision.UNKNOWN: "What was decided is unknown",
}


class NewestTxn(msgspec.Struct, frozen=True, kw_only=True):
    """The newest transaction of a transactional id, as its coordinator describes it."""

    state: str
    producer_id: int
    producer_epoch: int
    start_time_ms: int | None
    """Start of the transaction; None if none has begun with this producer id and epoch."""


def _outcome(state: str) -> PastDecision | None:
    if state in _COMMIT_STATES:
        return PastDecision.COMMITTED
    return PastDecision.ABORTED if state in _ABORT_STATES else None


def _unknown_decision(reason: str) -> DecisionEvidence:
    return DecisionEvidence(decision=PastDecision.UNKNOWN, because=reason)


_UNKNOWN_PRODUCER: Final = _unknown_decision("no coordinator knows the producer any more")
"""One for all: there may be 100,000 such transactions."""
