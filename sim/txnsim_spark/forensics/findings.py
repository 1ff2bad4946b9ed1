"""The report of ``logs find-hanging``: an object per open transaction, figures per partition, what
was read. These are the values of its JSON; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.shell_text import command_line, continued, option
from txnsim.text import with_clean_descriptions
from txnsim.txn.open_txn_verdict import OpenTxnStatus, partition_options, program_at
from txnsim.txn.past_decision import DecisionEvidence, PastDecision
from txnsim.types import TopicPartition
from txnsim_spark.forensics._coordinator_entries import Coordinators
from txnsim_spark.forensics._evidence import Evidence, ReplicaBasis, evidence_of
from txnsim_spark.forensics._partition_markers import ReadMarkers
from txnsim_spark.forensics._read_notes import meaning
from txnsim_spark.forensics.identity import Stale
from txnsim_spark.forensics.verdicts import (
    MARKER_OUTCOMES,
    OpenTxn,
    Opinion,
    Reason,
    ReplicaEnds,
    TxnSpread,
    is_late,
    is_listed_by_kafka,
    opinion_on,
)

SCHEMA_VERSION: Final = 2
"""Version of the report's JSON. A new field does not raise it; a field that is removed or changes
its meaning does.
"""
NEVER: Final = (1 << 63) - 1
BOOTSTRAP: Final = "localhost:9092"
_MINUTE_MS: Final = 60_000


class AbortCommands(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's own commands that abort this transaction and no other, once the brokers run again."""

    kafka: str
    kafka_before_3_0: Annotated[
        str, meaning("By identity, for brokers that can't look up a start offset.")
    ]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction on a partition, with the verdict on it."""

    topic: str
    partition: int
    topic_id: Annotated[
        str | None, meaning("Of partition.metadata; null where the replica has none.")
    ]
    producer_id: int
    producer_epoch: int
    coordinator_epoch: Annotated[
        int | None,
        meaning("Of the producer's last marker on the partition; null before the first."),
    ]
    start_offset: Annotated[int, meaning("Of its first record.")]
    start_timestamp_ms: Annotated[
        int | None, meaning("Of its first batch; null where that is not there any more.")
    ]
    last_timestamp_ms: Annotated[int, meaning("Of its last batch: what its age is counted from.")]
    age_ms: Annotated[int, meaning("From the last batch to as_of_ms.")]
    verdict: OpenTxnStatus
    rule: Annotated[Reason, meaning("What the coordinator's log decided.")]
    reason: Annotated[str, meaning("A sentence for people.")]
    listed_by_kafka: Annotated[
        bool, meaning("Whether kafka-transactions.sh find-hanging lists it, asked at as_of_ms.")
    ]
    transactional_id: Annotated[
        str | None, meaning("Null where no coordinator knows the producer.")
    ]
    state: Annotated[str | None, meaning("Of the transactional id's entry.")]
    outcome: Annotated[
        str | None,
        meaning(
            "The marker that it should have had: commit, abort or unknown; null where it is not"
            " over."
        ),
    ]
    outcome_because: Annotated[
        str | None, meaning("Why that is taken for the outcome; null as outcome is.")
    ]
    timeout_ms: Annotated[int | None, meaning("transaction.timeout.ms of the producer.")]
    is_late: Annotated[
        bool,
        meaning("Older than its timeout and five minutes, the grace of brokers' late figure."),
    ]
    broker: Annotated[int, meaning("Whose replica counts; -1 where the directory does not tell.")]
    log_dir: Annotated[str, meaning("Where that replica lies.")]
    open_on: Annotated[tuple[int, ...], meaning("Brokers whose replica has it open.")]
    behind: Annotated[
        tuple[int, ...],
        meaning("Brokers whose replica has not come that far, or would cut it off."),
    ]
    against: Annotated[
        tuple[int, ...], meaning("Brokers whose replica contradicts, below what both have.")
    ]
    evidence: Annotated[Evidence, meaning("What the verdict rests on.")]
    recent_until_ms: Annotated[
        int | None, meaning("Of a recent one: as of later than this it would be called hanging.")
    ]
    command: Annotated[
        str | None,
        meaning(
            "What ends it with the marker that was decided, once the brokers run again. Null unless"
            " it hangs, and where the evidence is not sound, unless damage is accepted."
        ),
    ]
    abort: Annotated[
        AbortCommands | None, meaning("The same by Kafka's own tool; null unless outcome is abort.")
    ]

    @property
    def decided_outcome(self) -> DecisionEvidence | None:
        """The decision about a hanging transaction; None for all other transactions."""
        if self.verdict is not OpenTxnStatus.HANGING or self.outcome is None:
            return None
        decision = next(
            decision_kind
            for decision_kind, marker in MARKER_OUTCOMES.items()
            if marker == self.outcome
        )
        return DecisionEvidence(decision=decision, because=self.outcome_because or "")

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class PartitionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets and ages of a partition with an open transaction, from the replica on which the
    verdict is based.
    """

    topic: str
    partition: int
    broker: int
    log_start_offset: int
    last_stable_offset: Annotated[int, meaning("Up to here read_committed consumers come.")]
    high_watermark: Annotated[
        int,
        meaning(
            "The highest that a replica of this leader epoch noted, at most the log's end; the end"
            " where none noted one."
        ),
    ]
    end_offset: int
    lag: Annotated[int, meaning("high_watermark less last_stable_offset: what is withheld.")]
    producer_id: Annotated[int, meaning("Whose transaction is the oldest open one.")]
    stands_since_ms: Annotated[
        int | None,
        meaning("Timestamp of that transaction's first batch, where it is there and has one."),
    ]
    stands_for_ms: Annotated[int | None, meaning("From then to as_of_ms.")]
    open_transactions: int
    has_late_transaction: Annotated[
        bool, meaning("What the broker's gauge PartitionsWithLateTransactionsCount would count.")
    ]


class UncompletedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that its coordinator has decided and not completed."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    decided_at_ms: int
    open_on: Annotated[tuple[str, ...], meaning("Partitions that wait for the marker.")]
    not_open_on: Annotated[
        tuple[str, ...],
        meaning("Listed, and nothing of it is open there: marked already, or not looked at."),
    ]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The amount of data read, and the way of reading."""

    directories: tuple[str, ...]
    replicas: Annotated[int, meaning("Without the stale ones.")]
    from_snapshots: Annotated[
        int,
        meaning("Replicas whose last producer snapshot lies at the log's end: none was scanned."),
    ]
    scanned: int
    scanned_bytes: int
    with_spark: bool
    transaction_log_partitions: Annotated[
        int, meaning("Of __transaction_state, as far as directories tell.")
    ]
    transaction_log_gap: Annotated[
        str, meaning("What of the coordinators' logs is missing; empty if nothing is.")
    ]
    cut_off: Annotated[
        tuple[str, ...],
        meaning("Torn tails that a starting broker cuts off: as a kill leaves them."),
    ]
    problems: Annotated[
        tuple[str, ...], meaning("Files that make no sense otherwise, each with its place.")
    ]
    stale: Annotated[
        tuple[Stale, ...],
        meaning("Replicas of topics that were deleted, by the metadata log; they are not judged."),
    ] = ()
    unserved: Annotated[
        tuple[str, ...],
        meaning(
            "Folders of replicas that no broker serves, each with what its name says; they are not"
            " judged."
        ),
    ] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that txnsim logs find-hanging --json prints."""

    schema_version: int = SCHEMA_VERSION
    as_of_ms: Annotated[int, meaning("The time that ages are counted to.")]
    max_transaction_timeout_ms: Annotated[int, meaning("Younger ones are never called hanging.")]
    accepts_damage: Annotated[
        bool, meaning("Commands are given on evidence that is not sound as well.")
    ]
    findings: Annotated[tuple[Finding, ...], meaning("Every open transaction, oldest write first.")]
    partitions: tuple[PartitionFigures, ...]
    owed: tuple[UncompletedTransaction, ...]
    source: Source

    def with_verdicts(self, *verdicts: OpenTxnStatus) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict in verdicts)


class SearchConditions(msgspec.Struct, frozen=True, kw_only=True):
    """What a search takes as given: times, the timeout limit, where repair commands are sent."""

    as_of_ms: int
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS
    now_ms: int = NEVER
    """This machine's clock; a record with a later time does not show when it was written."""
    bootstrap: str = BOOTSTRAP
    accepts_damage: bool = False
    """Whether repair commands are printed even if the evidence is not sound."""


# Findings


def finding_of(
    txn_spread: TxnSpread,
    partition: TopicPartition,
    coordinators: Coordinators,
    conditions: SearchConditions,
    replica_basis: ReplicaBasis,
    markers: ReadMarkers,
) -> Finding:
    """Judge one open transaction.

    Args:
        txn_spread: The replicas that have it open.
        partition: The partition.
        coordinators: The coordinators' logs.
        conditions: The conditions of the search.
        replica_basis: Facts about the replica on which the verdict is based.
        markers: Reads the producer's markers before it.
    """
    txn = txn_spread.transaction
    opinion = opinion_on(
        txn, partition, coordinators, as_of_ms=conditions.as_of_ms, markers=markers
    )
    evidence = evidence_of(txn_spread, opinion, coordinators, replica_basis)
    written_ms = _written_ms(txn, replica_basis, conditions)
    verdict_and_reason = _judge_spread(
        txn_spread, opinion, conditions.as_of_ms - written_ms, conditions
    )
    verdict, reason = _apply_doubt(*verdict_and_reason, txn, replica_basis)
    reason += _file_time_reason(txn, written_ms)
    newest_record = None if opinion.entry is None else opinion.entry.newest_record
    timeout_ms = None if newest_record is None else newest_record.timeout_ms
    command, abort = _repair_commands(txn, partition, verdict, opinion, evidence, conditions)
    return Finding(
        topic=partition.topic,
        partition=partition.partition,
        topic_id=replica_basis.state.topic_id,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        coordinator_epoch=txn.coordinator_epoch,
        start_offset=txn.start_offset,
        start_timestamp_ms=txn.start_timestamp_ms,
        last_timestamp_ms=txn.last_timestamp_ms,
        age_ms=conditions.as_of_ms - txn.last_timestamp_ms,
        verdict=verdict,
        rule=opinion.rule,
        reason=reason,
        listed_by_kafka=_is_listed(txn_spread, partition, coordinators, conditions),
        transactional_id=None if newest_record is None else newest_record.transactional_id,
        state=None if newest_record is None else newest_record.state,
        outcome=opinion.outcome,
        outcome_because=opinion.because or None,
        timeout_ms=timeout_ms,
        is_late=is_late(
            txn.last_timestamp_ms,
            timeout_ms=conditions.max_transaction_timeout_ms if timeout_ms is None else timeout_ms,
            as_of_ms=conditions.as_of_ms,
        ),
        broker=txn_spread.deciding_replica.replica.broker,
        log_dir=txn_spread.deciding_replica.replica.log_dir,
        open_on=_broker_ids(txn_spread.open_on),
        behind=_broker_ids(txn_spread.lagging),
        against=_broker_ids(txn_spread.contradicting),
        evidence=evidence,
        recent_until_ms=_recent_until_ms(verdict, written_ms, conditions),
        command=command,
        abort=abort,
    )


def _is_listed(
    txn_spread: TxnSpread,
    partition: TopicPartition,
    coordinators: Coordinators,
    conditions: SearchConditions,
) -> bool:
    return txn_spread.is_open_on_deciding and is_listed_by_kafka(
        txn_spread.transaction,
        partition,
        coordinators,
        as_of_ms=conditions.as_of_ms,
        max_transaction_timeout_ms=conditions.max_transaction_timeout_ms,
    )


def _apply_doubt(
    verdict: OpenTxnStatus, reason: str, txn: OpenTxn, replica_basis: ReplicaBasis
) -> tuple[OpenTxnStatus, str]:
    """The verdict and its reason, weakened if missing files could contradict it."""
    doubt_sentence = replica_basis.undecided or _possible_end_sentence(verdict, txn, replica_basis)
    return (OpenTxnStatus.UNKNOWN, doubt_sentence) if doubt_sentence else (verdict, reason)


def _possible_end_sentence(
    verdict: OpenTxnStatus, txn: OpenTxn, replica_basis: ReplicaBasis
) -> str:
    """A sentence on where an unseen marker of the transaction may be; empty if there can't be
    one.
    """
    if verdict is OpenTxnStatus.REPLICAS_DISAGREE:
        return ""
    if replica_basis.notes.damage:
        return f"it may have ended: {replica_basis.notes.damage[0]}"
    if verdict not in (OpenTxnStatus.HANGING, OpenTxnStatus.RECENT):
        return ""  # its coordinator tells, whatever the end of the log was
    end_offset = replica_basis.state.ends.end_offset
    is_behind = txn.start_offset >= end_offset
    lost_end = replica_basis.lost_end or (
        f"the log ends at offset {end_offset}" if is_behind else ""
    )
    return f"it may have ended: {lost_end}" if lost_end else ""


def _recent_until_ms(
    verdict: OpenTxnStatus, written_ms: int, conditions: SearchConditions
) -> int | None:
    is_recent = verdict is OpenTxnStatus.RECENT
    return written_ms + conditions.max_transaction_timeout_ms if is_recent else None


def _written_ms(txn: OpenTxn, replica_basis: ReplicaBasis, conditions: SearchConditions) -> int:
    """Time of the transaction's last write, by the timestamps of its records. If they have none
    (-1), or a future one, the time of the newest file.
    """
    if 0 <= txn.last_timestamp_ms <= conditions.now_ms or replica_basis.state.newest_ms < 0:
        return txn.last_timestamp_ms
    return min(replica_basis.state.newest_ms, conditions.now_ms)


def _file_time_reason(txn: OpenTxn, written_ms: int) -> str:
    """Why the time of a file is used, if it is."""
    if written_ms == txn.last_timestamp_ms:
        return ""
    time_problem = "no time" if txn.last_timestamp_ms < 0 else "a time in the future"
    return f"; its records bear {time_problem}, so the time of the file counts"


def _judge_spread(
    txn_spread: TxnSpread, opinion: Opinion, age_ms: int, conditions: SearchConditions
) -> tuple[OpenTxnStatus, str]:
    if txn_spread.contradicting:
        return (
            OpenTxnStatus.REPLICAS_DISAGREE,
            f"{_contradiction_text(txn_spread)}; {opinion.reason}",
        )
    if opinion.verdict is not OpenTxnStatus.HANGING:
        return opinion.verdict, opinion.reason
    if age_ms <= conditions.max_transaction_timeout_ms:
        return OpenTxnStatus.RECENT, (
            f"{opinion.reason}; but it was written to {age_ms} ms before, and only what is older"
            f" than {conditions.max_transaction_timeout_ms} ms is called hanging"
        )
    return OpenTxnStatus.HANGING, opinion.reason


def _contradiction_text(txn_spread: TxnSpread) -> str:
    start_offset = txn_spread.transaction.start_offset
    shared_end = min(
        replica.end_offset for replica in (*txn_spread.open_on, *txn_spread.contradicting)
    )
    high_watermarks = [
        replica.high_watermark
        for replica in txn_spread.contradicting
        if replica.high_watermark is not None
    ]
    below_text = (
        ", below a high watermark too"
        if any(start_offset < offset for offset in high_watermarks)
        else ""
    )
    return (
        f"open since offset {start_offset} on broker {_replica_names(txn_spread.open_on)}, and"
        f" not so on broker {_replica_names(txn_spread.contradicting)}, although both have the log"
        f" up to offset {shared_end}{below_text}"
    )


def _replica_names(replicas: Sequence[ReplicaEnds]) -> str:
    return ", ".join(map(str, _broker_ids(replicas)))


def _broker_ids(replicas: Sequence[ReplicaEnds]) -> tuple[int, ...]:
    return tuple(sorted(replica.replica.broker for replica in replicas))


def _repair_commands(
    txn: OpenTxn,
    partition: TopicPartition,
    verdict: OpenTxnStatus,
    opinion: Opinion,
    evidence: Evidence,
    conditions: SearchConditions,
) -> tuple[str | None, AbortCommands | None]:
    """The repair command, and Kafka's equivalent, which can only abort."""
    if not evidence.is_sound and not conditions.accepts_damage:
        return None, None
    command = verdict.repair_command(partition, program=program_at(conditions.bootstrap))
    if command is None or opinion.outcome != MARKER_OUTCOMES[PastDecision.ABORTED]:
        return command, None
    return command, abort_commands(txn, partition, conditions.bootstrap)


def abort_commands(txn: OpenTxn, partition: TopicPartition, bootstrap: str) -> AbortCommands:
    """Kafka's commands that abort the transaction. If it hangs before its producer's first marker,
    there is no coordinator epoch yet; then it is 0, which is never higher than a real one
    (AbortTransactionCommand).
    """
    command_start = command_line(
        "kafka-transactions.sh", *option("--bootstrap-server", bootstrap), "abort"
    )
    partition_arguments = partition_options(partition)
    identity_arguments = (
        *option("--producer-id", txn.producer_id),
        *option("--producer-epoch", txn.producer_epoch),
        *option("--coordinator-epoch", max(0, txn.coordinator_epoch or 0)),
    )
    return AbortCommands(
        kafka=continued(
            command_start, *partition_arguments, *option("--start-offset", txn.start_offset)
        ),
        kafka_before_3_0=continued(command_start, *partition_arguments, *identity_arguments),
    )


def duration_min(finding: Finding) -> int:
    """Whole minutes since the last write, towards zero as Java's TimeUnit rounds."""
    age_ms = finding.age_ms
    return age_ms // _MINUTE_MS if age_ms >= 0 else -(-age_ms // _MINUTE_MS)


# Figures


def figures_of(
    replicas: Sequence[ReplicaEnds],
    leading_replica: ReplicaEnds,
    transactions: Sequence[OpenTxn],
    conditions: SearchConditions,
) -> PartitionFigures:
    """The figures of a partition.

    Args:
        replicas: All replicas in the directories. A follower gets the high watermark later than the
            leader, so the highest one of their checkpoints is nearest to the truth.
        leading_replica: The replica on which the verdict is based.
        transactions: Its open transactions, at least one.
        conditions: The conditions of the search, with the time for ages.
    """
    oldest_txn = min(transactions, key=lambda txn: txn.start_offset)
    high_watermarks = [
        replica.high_watermark
        for replica in replicas
        if replica.high_watermark is not None and replica.last_epoch == leading_replica.last_epoch
    ]
    high_watermark = min(
        max(high_watermarks, default=leading_replica.end_offset), leading_replica.end_offset
    )
    last_stable_offset = min(
        high_watermark, max(oldest_txn.start_offset, leading_replica.log_start_offset)
    )
    open_since_ms = oldest_txn.start_timestamp_ms
    if open_since_ms is not None and open_since_ms < 0:
        open_since_ms = None
    return PartitionFigures(
        topic=leading_replica.replica.topic,
        partition=leading_replica.replica.partition,
        broker=leading_replica.replica.broker,
        log_start_offset=leading_replica.log_start_offset,
        last_stable_offset=last_stable_offset,
        high_watermark=high_watermark,
        end_offset=leading_replica.end_offset,
        lag=high_watermark - last_stable_offset,
        producer_id=oldest_txn.producer_id,
        stands_since_ms=open_since_ms,
        stands_for_ms=None if open_since_ms is None else conditions.as_of_ms - open_since_ms,
        open_transactions=len(transactions),
        has_late_transaction=is_late(
            oldest_txn.last_timestamp_ms,
            timeout_ms=conditions.max_transaction_timeout_ms,
            as_of_ms=conditions.as_of_ms,
        ),
    )


def owed_by(
    coordinators: Coordinators, findings: Sequence[Finding]
) -> tuple[UncompletedTransaction, ...]:
    """Transactions that are decided and not completed, with the partitions that await
    their marker.
    """
    open_producers_and_partitions = {
        (finding.producer_id, finding.topic_partition) for finding in findings
    }
    uncompleted_transactions = []
    for entry in coordinators.owing_entries:
        newest_record = entry.newest_record
        listed_partitions = sorted(newest_record.partitions)
        open_partitions = [
            partition
            for partition in listed_partitions
            if (newest_record.producer_id, partition) in open_producers_and_partitions
        ]
        uncompleted_transactions.append(
            UncompletedTransaction(
                transactional_id=newest_record.transactional_id,
                producer_id=newest_record.producer_id,
                producer_epoch=newest_record.producer_epoch,
                state=newest_record.state,
                decided_at_ms=newest_record.last_update_timestamp_ms,
                open_on=tuple(map(str, open_partitions)),
                not_open_on=tuple(
                    str(partition)
                    for partition in listed_partitions
                    if partition not in open_partitions
                ),
            )
        )
    return tuple(uncompleted_transactions)


def json_schema() -> dict[str, object]:
    """The JSON Schema of a report."""
    schema: dict[str, object] = with_clean_descriptions(msgspec.json.schema(Report))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
