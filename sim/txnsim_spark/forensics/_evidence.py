"""The files on which a verdict rests, and whether they are sound. Pure.

A verdict says what the files say. Whether the files are right is another question. A command that
writes to a log must not follow from files that are wrong. Evidence is **sound** where

- the log was read from the transaction's beginning, or from a snapshot below it, to its end, with
  every CRC right and no offset missing; or a snapshot at the log's end names the transaction, and
  the batch at its start offset is this producer's (where retention has deleted that batch: the
  producer's last batch);
- the log ends where the broker had noted, or behind that;
- every partition of ``__transaction_state`` is there, and the one that matters could be read.

Evidence that is there and makes no sense is **damaged**. Evidence that is missing is
**incomplete**.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from txnsim_spark.forensics._coordinator_entries import Coordinators
from txnsim_spark.forensics._read_notes import CutOff, Gap, ReadNotes, damage_met_again, meaning
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import OpenTxn, Opinion, Reason, TxnSpread


class Status(StrEnum):
    """How far a verdict can be trusted."""

    SOUND = "sound"
    DAMAGED = "damaged"
    INCOMPLETE = "incomplete"


class StartBatch(StrEnum):
    """What lies at the offset where a transaction begins."""

    THIS_PRODUCERS = "this_producers"
    ANOTHERS = "anothers"
    DELETED = "deleted"
    """The batch is below the log's start; the producer's last batch is there and agrees."""
    NOT_THERE = "not_there"


class CoordinatorLogCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """How complete the coordinators' logs are."""

    partitions: Annotated[int, meaning("Of __transaction_state, as far as is known.")]
    missing: tuple[int, ...]
    damaged: Annotated[tuple[int, ...], meaning("Those that could not be read to their end.")]
    cut_off: Annotated[Mapping[int, str], meaning("Partitions that break off: where, and why.")]
    log_partition: Annotated[
        int | None, meaning("That of the transactional id; null where no id is known.")
    ]


class ReplicaEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicas of the partition were seen, of how many that exist."""

    seen: Annotated[tuple[int, ...], meaning("Brokers whose replica is among the directories.")]
    exist: Annotated[
        tuple[int, ...] | None, meaning("By the metadata log; null where no copy of it is there.")
    ]
    in_sync: Annotated[
        tuple[int, ...] | None,
        meaning("By the metadata log: the ISR; where it is empty, the eligible leader replicas."),
    ]
    leader: Annotated[int | None, meaning("By the metadata log; -1 for none.")]
    missing: Annotated[
        tuple[int, ...] | None, meaning("Those that exist and were not seen; null as exist is.")
    ]
    summary: Annotated[str, meaning("All of it in a few words.")]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The files on which a verdict rests, and their flaws."""

    status: Status
    reasons: Annotated[tuple[str, ...], meaning("Why it is not sound; empty where it is.")]
    read_from: Annotated[
        int | None,
        meaning(
            "First offset that was read, its CRC computed; null where a snapshot at the end was"
            " enough."
        ),
    ]
    read_until: Annotated[int | None, meaning("Behind the last offset that was read.")]
    gaps: Annotated[
        tuple[Gap, ...], meaning("Offsets that are missing behind the transaction's beginning.")
    ]
    cut_off: Annotated[CutOff | None, meaning("Where a starting broker cuts this log off.")]
    log_end_offset: int
    high_watermark: Annotated[int | None, meaning("As checkpointed.")]
    recovery_point: Annotated[int | None, meaning("As checkpointed.")]
    snapshot_offset: Annotated[
        int | None, meaning("Of the snapshot of producer state that was gone on from.")
    ]
    start_batch: StartBatch
    coordinator: CoordinatorLogCoverage
    replicas: ReplicaEvidence

    @property
    def is_sound(self) -> bool:
        """Whether the evidence suffices for a repair command."""
        return self.status is Status.SOUND


class ReplicaAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas of a partition, as the metadata log has them."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    """The ISR; where it is empty, the eligible leader replicas (KIP-966)."""
    leader: int


class ReplicaBasis(msgspec.Struct, frozen=True, kw_only=True):
    """The replica on which the verdict is based."""

    state: ReplicaState
    notes: ReadNotes
    gaps: tuple[Gap, ...]
    """Missing offsets after the first offset of the transaction, as segment names and batches show
    them; also where records were not read."""
    start_batch: StartBatch
    brokers_seen: tuple[int, ...]
    assignment: ReplicaAssignment | None = None
    undecided: str = ""
    """Why the files do not show whether the replica belongs to the present topic of this name;
    empty if they do.
    """

    @property
    def lost_end(self) -> str:
        """Signs in its files that the log was longer; empty without any."""
        return next(iter(lost_ends(self.state)), "")


def lost_ends(state: ReplicaState) -> Iterator[str]:
    """Signs in a replica's files that its log was longer: parts of a sentence."""
    for shortcoming in state.shortcomings:
        yield f"the log {shortcoming}"
    if state.lost_end:
        yield state.lost_end


def evidence_of(
    txn_spread: TxnSpread, opinion: Opinion, coordinators: Coordinators, replica_basis: ReplicaBasis
) -> Evidence:
    """The evidence for the verdict on a transaction.

    Args:
        txn_spread: The replicas that have it open.
        opinion: What the coordinators' logs say of it.
        coordinators: The coordinators' logs.
        replica_basis: Facts about the replica on which the verdict is based.
    """
    statuses_and_reasons = [
        *_doubts_on_replica(txn_spread.transaction, replica_basis),
        *_doubts_on_other_replicas(replica_basis),
        *_doubts_on_coordinators(opinion, coordinators),
    ]
    statuses = [status for status, _ in statuses_and_reasons]
    status = Status.SOUND
    if statuses_and_reasons:
        status = Status.DAMAGED if Status.DAMAGED in statuses else Status.INCOMPLETE
    state, notes = replica_basis.state, replica_basis.notes
    read_from = notes.read_from
    entry = opinion.entry
    return Evidence(
        status=status,
        reasons=tuple(reason for _, reason in statuses_and_reasons),
        read_from=read_from,
        read_until=None if read_from is None else state.ends.end_offset,
        gaps=replica_basis.gaps,
        cut_off=notes.cut_off,
        log_end_offset=state.ends.end_offset,
        high_watermark=state.ends.high_watermark,
        recovery_point=state.recovery_point,
        snapshot_offset=state.snapshot_offset,
        start_batch=replica_basis.start_batch,
        coordinator=CoordinatorLogCoverage(
            partitions=coordinators.partition_count,
            missing=coordinators.missing_partitions,
            damaged=tuple(sorted(coordinators.damaged_partitions)),
            cut_off=dict(sorted(coordinators.cut_off_by_partition.items())),
            log_partition=None if entry is None else entry.newest_record.log_partition,
        ),
        replicas=_replica_evidence(replica_basis.brokers_seen, replica_basis.assignment),
    )


def _replica_evidence(
    brokers_seen: tuple[int, ...], assignment: ReplicaAssignment | None
) -> ReplicaEvidence:
    if assignment is None:
        return ReplicaEvidence(
            seen=brokers_seen,
            exist=None,
            in_sync=None,
            leader=None,
            missing=None,
            summary=f"{len(brokers_seen)} replicas seen; no copy of the metadata log is there",
        )
    missing_brokers = tuple(broker for broker in assignment.replicas if broker not in brokers_seen)
    seen_count = sum(broker in brokers_seen for broker in assignment.replicas)
    phrases = [
        f"{seen_count} of {len(assignment.replicas)} replicas seen",
        f"in sync {{{','.join(map(str, sorted(assignment.in_sync)))}}}",
        f"leader {assignment.leader}" if assignment.leader >= 0 else "no leader",
    ]
    not_seen_text = (
        f"; not seen: broker {', '.join(map(str, missing_brokers))}" if missing_brokers else ""
    )
    return ReplicaEvidence(
        seen=brokers_seen,
        exist=assignment.replicas,
        in_sync=assignment.in_sync,
        leader=assignment.leader,
        missing=missing_brokers,
        summary=", ".join(phrases) + not_seen_text,
    )


Doubts = Iterator[tuple[Status, str]]


def _doubts_on_replica(txn: OpenTxn, replica_basis: ReplicaBasis) -> Doubts:
    ends, notes = replica_basis.state.ends, replica_basis.notes
    repeated_damage_texts = damage_met_again(replica_basis.state.damage, notes)
    for damage_text in dict.fromkeys((*notes.damage, *replica_basis.state.damage)):
        if damage_text not in repeated_damage_texts:
            yield Status.DAMAGED, damage_text
    if notes.cut_off is not None:
        yield Status.DAMAGED, f"a starting broker cuts the log off: {notes.cut_off.text}"
    for gap in replica_basis.gaps:
        last_missing_offset = gap.next_offset - 1
        yield Status.INCOMPLETE, f"offsets {gap.first_offset} to {last_missing_offset} are missing"
    for lost_end_text in lost_ends(replica_basis.state):
        yield Status.INCOMPLETE, lost_end_text
    match replica_basis.start_batch:
        case StartBatch.ANOTHERS:
            yield (
                Status.DAMAGED,
                f"at offset {txn.start_offset} no sound batch of producer {txn.producer_id} and"
                f" epoch {txn.producer_epoch} begins: the snapshot may be of another partition",
            )
        case StartBatch.NOT_THERE:
            yield (
                Status.INCOMPLETE,
                f"the batch at offset {txn.start_offset} is not there: the log begins at"
                f" {ends.log_start_offset} and ends at {ends.end_offset}",
            )
        case StartBatch.THIS_PRODUCERS | StartBatch.DELETED:
            pass


def _doubts_on_other_replicas(replica_basis: ReplicaBasis) -> Doubts:
    if replica_basis.undecided:
        yield (
            Status.INCOMPLETE,
            "nothing tells whether this replica is of the topic that lives",
        )
    assignment = replica_basis.assignment
    if (
        assignment is None
        or assignment.leader < 0
        or assignment.leader in replica_basis.brokers_seen
    ):
        return
    yield (
        Status.INCOMPLETE,
        f"the leader's replica, broker {assignment.leader}'s, is not among the directories",
    )


def _doubts_on_coordinators(opinion: Opinion, coordinators: Coordinators) -> Doubts:
    if not coordinators.partition_count:
        yield Status.INCOMPLETE, coordinators.gap_text
        return
    if coordinators.missing_partitions:
        yield (
            Status.INCOMPLETE,
            _partitions_text("is not among the directories", coordinators.missing_partitions),
        )
    entry = opinion.entry
    relevant_partition = (
        None
        if entry is None or opinion.rule is Reason.FORGOTTEN
        else entry.newest_record.log_partition
    )
    damaged_partitions = [
        partition
        for partition in sorted(
            coordinators.damaged_partitions - set(coordinators.cut_off_by_partition)
        )
        if relevant_partition in (None, partition)
    ]
    if damaged_partitions:
        yield Status.DAMAGED, _partitions_text("can't be read to its end", damaged_partitions)
    for partition, reason in sorted(coordinators.cut_off_by_partition.items()):
        if relevant_partition in (None, partition):
            yield (
                Status.DAMAGED,
                _partitions_text(f"has lost its end: {reason}", [partition]),
            )
    for partition, reason in sorted(coordinators.not_in_sync_text_by_partition.items()):
        if relevant_partition in (None, partition):
            yield Status.INCOMPLETE, _partitions_text(reason, [partition])


def _partitions_text(state_text: str, partitions: Sequence[int]) -> str:
    numbers_text = ", ".join(map(str, partitions))
    return f"__transaction_state, partition {numbers_text}, {state_text}"
