"""Judges open transactions from the files of stopped brokers. Pure. Three things are compared: the
open transactions of a partition's replicas, the coordinator's records of the producer, and the age
of the last write.

- No coordinator will ever write the marker: it **hangs** (KIP-664; ``Reason`` says why).
- The coordinator has decided and lists the partition: **decided**, it sends the marker once it
  runs again.
- The coordinator has the transaction Ongoing with this partition: **alive**.
- Open on one replica, and ended or absent on another below what both have: the **replicas
  disagree**, which no marker explains.
- No coordinator lists it, but it was written to a moment ago: **recent**. Copies of directories
  that were taken one after the other look like that; Kafka's tool does not list it either.
- The coordinator's log is not among the directories, or not readable: **unknown**, no guess.

Kafka's tool compares only whether the coordinator lists the partition; which of these it would list
is reported as well, by its own rule (``txnsim.client.inspection.hanging``). Kafka's counterpart:
TransactionsCommand.FindHangingTransactionsCommand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS, OpenTransaction
from txnsim.client.inspection.hanging import OpenTransaction as Candidate
from txnsim.client.inspection.txn_views import ProducerState, TransactionDescription
from txnsim.log.partition_log import LATE_TRANSACTION_GRACE_MS
from txnsim.txn.marker_payment import NO_MARKERS, CoordinatorRecord, DueDecisions
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence, NewestTxn, PastDecision
from txnsim.types import TopicPartition
from txnsim_spark.forensics._coordinator_entries import (
    COMPLETE_STATES,
    DECIDED_STATES,
    OUTCOMES,
    CoordinatorEntry,
    Coordinators,
)
from txnsim_spark.forensics._partition_markers import ReadMarkers
from txnsim_spark.scan.segments import Replica

NO_EPOCHS: Final = -1


class Reason(StrEnum):
    """The reason of a verdict, regarding the coordinator. With the first six reasons a transaction
    hangs.
    """

    NO_ENTRY = "no_entry"
    """No coordinator has an entry for the producer id (ListTransactions would not name it)."""
    FORGOTTEN = "forgotten"
    """The transactional id expired or was deleted: a tombstone."""
    OTHER_PRODUCER_ID = "other_producer_id"
    """The transactional id goes on under another producer id (KIP-890: its epochs are used up)."""
    COMPLETED_UNMARKED = "completed_unmarked"
    """The coordinator has decided with this partition and completed, but no marker ended the
    transaction here.
    """
    NOT_LISTED = "not_listed"
    """The coordinator's transaction does not have this partition (DescribeTransactions)."""
    OTHER_EPOCH = "other_epoch"
    """The coordinator has the partition in a transaction with another producer epoch."""
    MARKER_OWED = "marker_owed"
    """The coordinator has PrepareCommit or PrepareAbort with this partition."""
    LISTED = "listed"
    """The coordinator has Ongoing with this partition."""
    LOG_MISSING = "log_missing"
    """The coordinator's log is not among the directories, or can't be read to its end."""


class ReplicaEnds(msgspec.Struct, frozen=True, kw_only=True):
    """The ends of a replica's log: offsets and leader epochs."""

    replica: Replica
    log_start_offset: int
    end_offset: int
    high_watermark: int | None = None
    """From the checkpoint, written every 5 s and at shutdown; None if missing."""
    epochs: tuple[tuple[int, int], ...] = ()
    """(leader epoch, first offset), as checkpointed."""

    @property
    def last_epoch(self) -> int:
        """Epoch of the last leader known to the replica."""
        return self.epochs[-1][0] if self.epochs else NO_EPOCHS


class OpenTxn(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction without an end on one replica."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    start_position: int | None = None
    """Position of the first batch in its segment; None if not known yet."""
    start_timestamp_ms: int | None = None
    """Timestamp of the first batch; None if the batch was not read."""
    last_timestamp_ms: int
    """Timestamp of the last batch."""
    coordinator_epoch: int | None = None
    """Coordinator epoch in the producer's last marker on the replica; None before the first
    marker.
    """


HasMarker = Callable[[ReplicaEnds, int, int], bool]
"""Whether a replica has a marker of (producer id) at or after (offset)."""


class TxnSpread(msgspec.Struct, frozen=True, kw_only=True):
    """Which replicas of a partition have a transaction open."""

    transaction: OpenTxn
    deciding_replica: ReplicaEnds
    """The replica that decides: the longest one of the newest leader epoch."""
    is_open_on_deciding: bool = True
    open_on: tuple[ReplicaEnds, ...]
    lagging: tuple[ReplicaEnds, ...] = ()
    """Replicas that are shorter, or that would cut off what they have (KIP-101)."""
    contradicting: tuple[ReplicaEnds, ...] = ()


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """What the coordinators' logs say about an open transaction."""

    verdict: OpenTxnStatus
    rule: Reason
    reason: str
    """One sentence without a full stop."""
    entry: CoordinatorEntry | None = None
    outcome: str | None = None
    """The due marker: ``commit``, ``abort`` or ``unknown``; None while still open."""
    because: str = ""
    """Evidence for the outcome, as part of a sentence."""


# Across replicas


def elected_replica(replicas: Sequence[ReplicaEnds]) -> ReplicaEnds:
    """The replica that an election would choose: no other replica has a newer leader epoch, and of
    those with the same epoch none has a longer log.
    """
    return max(replicas, key=lambda ends: (ends.last_epoch, ends.end_offset, -ends.replica.broker))


def common_end(ends: ReplicaEnds, other_ends: ReplicaEnds) -> int:
    """The offset up to which two replicas must hold the same: the end of the shorter one, or the
    start of the newer leader epoch where one of them does not know that epoch (KIP-101,
    OffsetsForLeaderEpoch).
    """
    shorter_end = min(ends.end_offset, other_ends.end_offset)
    if not ends.epochs or not other_ends.epochs:
        return shorter_end
    older_replica, newer_replica = sorted(
        (ends, other_ends), key=lambda replica_ends: replica_ends.last_epoch
    )
    unknown_epoch_starts = [
        start for epoch, start in newer_replica.epochs if epoch > older_replica.last_epoch
    ]
    return min(shorter_end, *unknown_epoch_starts[:1]) if unknown_epoch_starts else shorter_end


def spread_of(
    replicas: Sequence[ReplicaEnds],
    open_by_path: Mapping[str, OpenTxn],
    has_marker: HasMarker,
) -> TxnSpread | None:
    """Find the replicas of a partition that have a producer's transaction open.

    Args:
        replicas: Replicas of the partition in the directories.
        open_by_path: Path of a replica -> its open transaction.
        has_marker: Called as rarely as possible, since it may have to read.

    Returns:
        None if the transaction is open only on replicas that lag behind others, which know its end,
        or on replicas that would have to cut it off.
    """
    deciding_replica = elected_replica(replicas)
    holding_replicas = tuple(
        replica for replica in replicas if replica.replica.path in open_by_path
    )
    replicas_without_txn = tuple(
        replica for replica in replicas if replica.replica.path not in open_by_path
    )
    leading_txn = open_by_path.get(deciding_replica.replica.path)
    if leading_txn is not None:
        contradicting_replicas = [
            replica
            for replica in replicas_without_txn
            if _has_ended(leading_txn, deciding_replica, replica, has_marker)
        ]
        lagging_replicas = [
            replica for replica in replicas_without_txn if replica not in contradicting_replicas
        ]
        contradicting_replicas += [
            replica
            for replica in holding_replicas
            if _began_elsewhere(
                leading_txn, deciding_replica, open_by_path[replica.replica.path], replica
            )
        ]
        return TxnSpread(
            transaction=leading_txn,
            deciding_replica=deciding_replica,
            open_on=holding_replicas,
            lagging=tuple(lagging_replicas),
            contradicting=tuple(contradicting_replicas),
        )
    replicas_that_contradict = [
        replica
        for replica in holding_replicas
        if _has_ended(open_by_path[replica.replica.path], replica, deciding_replica, has_marker)
    ]
    if not replicas_that_contradict:
        return None
    return TxnSpread(
        transaction=open_by_path[elected_replica(replicas_that_contradict).replica.path],
        deciding_replica=deciding_replica,
        is_open_on_deciding=False,
        open_on=holding_replicas,
        lagging=tuple(
            replica for replica in replicas_without_txn if replica is not deciding_replica
        ),
        contradicting=(deciding_replica,),
    )


def _has_ended(
    txn: OpenTxn, holding_replica: ReplicaEnds, other_replica: ReplicaEnds, has_marker: HasMarker
) -> bool:
    """Whether ``other_replica`` ended or never had a transaction within what both replicas have."""
    common_offset = common_end(holding_replica, other_replica)
    if txn.start_offset >= common_offset:
        return False
    return other_replica.end_offset <= common_offset or not has_marker(
        other_replica, common_offset, txn.producer_id
    )


def _began_elsewhere(
    txn: OpenTxn, deciding_replica: ReplicaEnds, other_txn: OpenTxn, other_replica: ReplicaEnds
) -> bool:
    later_start = max(txn.start_offset, other_txn.start_offset)
    if txn.start_offset == other_txn.start_offset or later_start >= common_end(
        deciding_replica, other_replica
    ):
        return False
    # After a deleted segment the first record that is left looks like the beginning.
    return later_start > max(deciding_replica.log_start_offset, other_replica.log_start_offset)


# The coordinator


def opinion_on(
    txn: OpenTxn,
    partition: TopicPartition,
    coordinators: Coordinators,
    *,
    as_of_ms: int,
    markers: ReadMarkers,
) -> Opinion:
    """What the coordinators' logs say about an open transaction.

    Args:
        txn: The open transaction.
        partition: The partition.
        coordinators: The coordinators' logs.
        as_of_ms: The time of the verdict.
        markers: Reads the producer's markers before it; called only if it hangs.
    """
    opinion = _judge_txn(txn, partition, coordinators, as_of_ms)
    if opinion.verdict is not OpenTxnStatus.HANGING:
        return opinion
    decision_evidence = _decide_outcome(txn, partition, coordinators, opinion.entry, markers)
    return msgspec.structs.replace(
        opinion,
        outcome=MARKER_OUTCOMES[decision_evidence.decision],
        because=decision_evidence.because,
    )


MARKER_OUTCOMES: Final = {
    PastDecision.COMMITTED: "commit",
    PastDecision.ABORTED: "abort",
    PastDecision.UNKNOWN: "unknown",
}


def _decide_outcome(
    txn: OpenTxn,
    partition: TopicPartition,
    coordinators: Coordinators,
    entry: CoordinatorEntry | None,
    markers: ReadMarkers,
) -> DecisionEvidence:
    """The decision about a hanging transaction, found by the functions that repair a running
    cluster. It is found even if the id has gone on since, as after a commit without a leader
    (KAFKA-20734).
    """
    coordinator_records = [
        CoordinatorRecord(
            state=decision.state,
            producer_id=decision.producer_id,
            producer_epoch=decision.producer_epoch,
            partitions=decision.partitions,
            is_v2=decision.is_v2,
            timestamp_ms=decision.last_update_timestamp_ms,
            start_timestamp_ms=decision.start_timestamp_ms
            if decision.start_timestamp_ms >= 0
            else decision.last_update_timestamp_ms,
        )
        for decision in coordinators.decisions_by_producer.get(txn.producer_id, ())
    ]
    due_decisions = DueDecisions.for_partition(
        partition, txn.producer_id, txn.producer_epoch, coordinator_records
    )
    decision_evidence = DecisionEvidence.from_log(
        due_decisions,
        NO_MARKERS if due_decisions is None else markers(due_decisions.markers_needed_since_ms),
        last_write_ms=txn.last_timestamp_ms,
    )
    if decision_evidence is not None:
        return decision_evidence
    newest_record = None if entry is None else entry.newest_record
    return DecisionEvidence.from_newest_txn(
        txn.producer_id,
        txn.producer_epoch,
        txn.last_timestamp_ms,
        None
        if newest_record is None
        else NewestTxn(
            state=newest_record.state,
            producer_id=newest_record.producer_id,
            producer_epoch=newest_record.producer_epoch,
            start_time_ms=newest_record.start_timestamp_ms
            if newest_record.start_timestamp_ms >= 0
            else None,
        ),
    )


def _judge_txn(
    txn: OpenTxn, partition: TopicPartition, coordinators: Coordinators, as_of_ms: int
) -> Opinion:
    entry = coordinators.entry_by_producer.get(txn.producer_id)
    if entry is None:
        return _opinion_without_entry(txn, coordinators)
    newest_record = entry.newest_record
    id_text = f"transactional id {newest_record.transactional_id}"
    if newest_record.log_partition in coordinators.damaged_partitions:
        return Opinion(
            verdict=OpenTxnStatus.UNKNOWN,
            rule=Reason.LOG_MISSING,
            reason=f"{id_text} may have gone on: {coordinators.gap_text}",
            entry=entry,
        )
    if partition not in newest_record.partitions:
        return _unlisted_opinion(txn, partition, entry)
    if newest_record.state in DECIDED_STATES:
        outcome_word = OUTCOMES[newest_record.state]
        return Opinion(
            verdict=OpenTxnStatus.DECIDED,
            rule=Reason.MARKER_OWED,
            reason=f"{id_text} is {newest_record.state}: to {outcome_word} it is decided, and its"
            " coordinator has"
            " yet to get the marker written here",
            entry=entry,
            outcome=outcome_word,
            because=f"its coordinator's log has {newest_record.state} with this partition",
        )
    if newest_record.producer_epoch != txn.producer_epoch:
        return Opinion(
            verdict=OpenTxnStatus.HANGING,
            rule=Reason.OTHER_EPOCH,
            reason=f"{id_text} is {newest_record.state} with this partition and epoch"
            f" {newest_record.producer_epoch}; this transaction is of epoch {txn.producer_epoch},"
            " which is"
            " over, and would share the outcome of the later one",
            entry=entry,
        )
    return Opinion(
        verdict=OpenTxnStatus.ALIVE,
        rule=Reason.LISTED,
        reason=_alive_reason(entry, as_of_ms),
        entry=entry,
    )


def _alive_reason(entry: CoordinatorEntry, as_of_ms: int) -> str:
    newest_record = entry.newest_record
    state_text = (
        f"transactional id {newest_record.transactional_id} is {newest_record.state}"
        " with this partition: "
    )
    over_ms = as_of_ms - newest_record.start_timestamp_ms - newest_record.timeout_ms
    if over_ms > 0:
        return (
            f"{state_text}its transaction.timeout.ms={newest_record.timeout_ms} is over for"
            f" {over_ms} ms,"
            " so its coordinator aborts it as soon as it runs"
        )
    return (
        f"{state_text}it ends with its producer, or after"
        f" transaction.timeout.ms={newest_record.timeout_ms}"
    )


def _opinion_without_entry(txn: OpenTxn, coordinators: Coordinators) -> Opinion:
    other_entry = coordinators.entry_by_other_producer.get(txn.producer_id)
    if other_entry is not None:
        id_text = f"transactional id {other_entry.newest_record.transactional_id}"
        return Opinion(
            verdict=OpenTxnStatus.HANGING,
            rule=Reason.OTHER_PRODUCER_ID,
            reason=f"{id_text} goes on with producer id {other_entry.newest_record.producer_id}; of"
            f" {txn.producer_id} its coordinator has no transaction any more",
            entry=other_entry,
        )
    forgotten_text = coordinators.forgotten_id_by_producer.get(txn.producer_id)
    if forgotten_text is not None:
        return Opinion(
            verdict=OpenTxnStatus.HANGING,
            rule=Reason.FORGOTTEN,
            reason=f"its coordinator has forgotten transactional id {forgotten_text}",
        )
    if not coordinators.is_complete:
        return Opinion(
            verdict=OpenTxnStatus.UNKNOWN,
            rule=Reason.LOG_MISSING,
            reason=f"no entry of producer id {txn.producer_id} was found,"
            f" and {coordinators.gap_text}",
        )
    return Opinion(
        verdict=OpenTxnStatus.HANGING,
        rule=Reason.NO_ENTRY,
        reason=f"no coordinator knows producer id {txn.producer_id}",
    )


def _unlisted_opinion(txn: OpenTxn, partition: TopicPartition, entry: CoordinatorEntry) -> Opinion:
    newest_record = entry.newest_record
    id_text = f"transactional id {newest_record.transactional_id}"
    outcome = _owed_outcome(txn, partition, entry)
    if newest_record.state in COMPLETE_STATES and outcome is not None:
        return Opinion(
            verdict=OpenTxnStatus.HANGING,
            rule=Reason.COMPLETED_UNMARKED,
            reason=f"{id_text} is {newest_record.state} and had this partition, but no marker"
            " ended it here:"
            f" the decision was to {outcome}; either the marker was lost, or the records were"
            " written behind it",
            entry=entry,
        )
    return Opinion(
        verdict=OpenTxnStatus.HANGING,
        rule=Reason.NOT_LISTED,
        reason=f"{id_text} is {newest_record.state} without this partition, so its coordinator"
        " will send no"
        " marker here",
        entry=entry,
    )


def _owed_outcome(txn: OpenTxn, partition: TopicPartition, entry: CoordinatorEntry) -> str | None:
    """The last decision about this producer, if it was about this transaction and
    this partition.
    """
    decision = entry.decision
    if decision is None or partition not in decision.partitions:
        return None
    if decision.producer_id != txn.producer_id or decision.producer_epoch < txn.producer_epoch:
        return None
    return OUTCOMES[decision.state]


# Kafka's tool


def is_listed_by_kafka(
    txn: OpenTxn,
    partition: TopicPartition,
    coordinators: Coordinators,
    *,
    as_of_ms: int,
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
) -> bool:
    """Whether ``kafka-transactions.sh find-hanging`` would list the transaction at that time."""
    producer = ProducerState(
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        last_sequence=-1,
        last_timestamp_ms=txn.last_timestamp_ms,
        coordinator_epoch=txn.coordinator_epoch,
        txn_start_offset=txn.start_offset,
    )
    old_candidates: tuple[Candidate, ...] = OpenTransaction.candidates(
        {partition: (producer,)},
        now_ms=as_of_ms,
        max_transaction_timeout_ms=max_transaction_timeout_ms,
    )
    entry = coordinators.entry_by_producer.get(txn.producer_id)
    if entry is None:
        return bool(OpenTransaction.hanging(old_candidates, {}, {}))
    newest_record = entry.newest_record
    description = TransactionDescription(
        coordinator_id=-1,
        transactional_id=newest_record.transactional_id,
        state=newest_record.state,
        producer_id=newest_record.producer_id,
        producer_epoch=newest_record.producer_epoch,
        timeout_ms=newest_record.timeout_ms,
        start_time_ms=newest_record.start_timestamp_ms,
        partitions=tuple(newest_record.partitions),
    )
    id_by_producer = {txn.producer_id: newest_record.transactional_id}
    return bool(
        OpenTransaction.hanging(
            old_candidates, id_by_producer, {newest_record.transactional_id: description}
        )
    )


def is_late(last_timestamp_ms: int, *, timeout_ms: int, as_of_ms: int) -> bool:
    """Whether the last write of a transaction is longer ago than its timeout plus the grace that
    brokers allow (UnifiedLog.hasLateTransaction).
    """
    return last_timestamp_ms > 0 and (
        as_of_ms - last_timestamp_ms > timeout_ms + LATE_TRANSACTION_GRACE_MS
    )
