"""Reads what a story needs to make a finding of ``logs decisions`` again
(``txn.finding_facts``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from txnsim.txn.decision_records import ProducerBatch
from txnsim.txn.decision_report import DecisionFinding, RecordsConcerned
from txnsim.txn.finding_facts import EndingMarker, FindingFacts
from txnsim.txn.marker_payment import SKEW_MS
from txnsim.types import TopicPartition
from txnsim_spark.questions import _decision_queries as queries
from txnsim_spark.questions._audited_epochs import DoubtfulVerdict
from txnsim_spark.questions._decision_clues import ClueReader
from txnsim_spark.questions._decision_tables import DecisionTables
from txnsim_spark.questions._log_reach import AuditedLogs


def facts_of(
    finding: DecisionFinding,
    doubtful_verdict: DoubtfulVerdict,
    *,
    clue_reader: ClueReader,
    logs: AuditedLogs,
    tables: DecisionTables,
) -> FindingFacts:
    """The facts about a finding.

    Args:
        finding: The finding.
        doubtful_verdict: Its verdict.
        clue_reader: Has read the batches of its producer.
        logs: The logs that were compared.
        tables: Answers what else the decision lists.
    """
    topic_partition = doubtful_verdict.epoch.topic_partition
    batches = clue_reader.batches_of(doubtful_verdict)
    concerned_records = clue_reader.records_of(doubtful_verdict)
    first_offset = _first_offset(doubtful_verdict, concerned_records)
    decision = doubtful_verdict.verdict.decision
    return FindingFacts(
        finding=finding,
        is_v2=_is_v2(finding, doubtful_verdict, tables),
        other_partitions=_other_partitions(finding, topic_partition, tables),
        ended_by=_ending_marker(finding, concerned_records, tables),
        last_outcome_is_commit=_outcome_before(first_offset, batches),
        leader_moves=_count_leader_moves(topic_partition, first_offset, concerned_records, logs),
        is_late_marker=decision is not None
        and decision.completed_ms is not None
        and any(
            marker.at_ms > decision.completed_ms + SKEW_MS
            for marker in doubtful_verdict.verdict.markers
        ),
        brokers=len({log.state.replica.broker for log in logs.log_by_partition.values()}),
    )


def _first_offset(
    doubtful_verdict: DoubtfulVerdict, concerned_records: RecordsConcerned | None
) -> int | None:
    if concerned_records is not None:
        return concerned_records.first_offset
    return doubtful_verdict.verdict.markers[0].offset if doubtful_verdict.verdict.markers else None


def _is_v2(
    finding: DecisionFinding, doubtful_verdict: DoubtfulVerdict, tables: DecisionTables
) -> bool:
    if doubtful_verdict.verdict.decision is not None:
        return doubtful_verdict.verdict.decision.by_epoch
    query = queries.CLIENT_VERSION.format(producer_id=finding.producer_id)
    (row,) = tables.rows(query)
    return (row["client_version"] or 0) >= 2


def _other_partitions(
    finding: DecisionFinding, topic_partition: TopicPartition, tables: DecisionTables
) -> tuple[TopicPartition, ...]:
    if finding.decision is None:
        return ()
    query = queries.LISTED.format(
        coordinator=finding.decision.partition, offset=finding.decision.offset
    )
    listed = [TopicPartition(row["topic"], row["partition"]) for row in tables.rows(query)]
    return tuple(sorted({*listed} - {topic_partition}))


def _ending_marker(
    finding: DecisionFinding, concerned_records: RecordsConcerned | None, tables: DecisionTables
) -> EndingMarker | None:
    if (
        concerned_records is None
        or concerned_records.ended_by_commit is None
        or concerned_records.ended_at is None
    ):
        return None
    if any(marker.offset == concerned_records.ended_at for marker in finding.markers):
        return None
    query = queries.LATER_DECISIONS.format(
        producer_id=finding.producer_id,
        topic=finding.topic.replace("'", "''"),
        partition=finding.partition,
        offset=-1 if finding.decision is None else finding.decision.offset,
        is_commit="true" if concerned_records.ended_by_commit else "false",
    )
    (row,) = tables.rows(query)
    return EndingMarker(
        is_commit=concerned_records.ended_by_commit, is_decided=row["decisions"] > 0
    )


def _outcome_before(first_offset: int | None, batches: Sequence[ProducerBatch]) -> bool | None:
    outcomes = [
        batch.is_commit
        for batch in batches
        if batch.is_control and (first_offset is None or batch.base_offset < first_offset)
    ]
    return outcomes[-1] if outcomes else None


def _count_leader_moves(
    topic_partition: TopicPartition,
    first_offset: int | None,
    concerned_records: RecordsConcerned | None,
    logs: AuditedLogs,
) -> int:
    log = logs.log_by_partition.get(topic_partition)
    if log is None or first_offset is None:
        return 0
    end_offset = None if concerned_records is None else concerned_records.ended_at
    return sum(
        later_epoch - epoch
        for (epoch, _), (later_epoch, start_offset) in pairwise(log.state.ends.epochs)
        if start_offset > first_offset and (end_offset is None or start_offset <= end_offset)
    )
