"""``logs decisions``: every decision of the coordinators' logs against the markers of every
partition that it lists, on the directories of stopped brokers.

1. The driver reads small files: which replica of each partition counts, and how far its log reaches
   (``_log_reach``).
2. Queries divide decisions and markers into those that plainly agree and the rest
   (``_decision_queries``), in DuckDB or on Spark.
3. The rest is judged, one epoch of a producer on a partition at a time (``txn.decision_audit``).
4. What is open at the logs' ends comes from ``find_hanging``; the records of each finding from the
   batches of its producer alone (``_decision_clues``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from txnsim.txn.decision_audit import AuditState, AuditVerdict, LogReach, audit_epoch
from txnsim.txn.decision_report import DecisionReport, FindingClues, ReportBuilder, finding_of
from txnsim.txn.finding_facts import FindingFacts
from txnsim.txn.marker_payment import AFTER_ALL_MARKERS_MS, BEFORE_ALL_MARKERS_MS, SKEW_MS
from txnsim.txn.open_txn_verdict import OpenTxnStatus, program_at
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.engine import Engine, NewSession, Progress
from txnsim_spark.forensics.find_hanging import DirectoryReader, Search, find_hanging
from txnsim_spark.forensics.findings import Finding
from txnsim_spark.questions import _decision_queries as queries
from txnsim_spark.questions._audited_epochs import (
    DoubtfulVerdict,
    epoch_without_decision,
    epochs_of,
)
from txnsim_spark.questions._decision_clues import ClueReader
from txnsim_spark.questions._decision_tables import (
    LOGS_SCHEMA,
    REACH_SCHEMA,
    DecisionTables,
    decision_tables,
    events_query,
)
from txnsim_spark.questions._log_reach import AuditedLogs, audited_logs, other_replicas_of
from txnsim_spark.questions._story_facts import facts_of
from txnsim_spark.scan.log_dirs import OnProblem, ignore_problem

DETAILS_MAX: Final = 2_000
"""Findings whose records are looked up; more are listed without them."""


def find_decisions(
    search: Search,
    *,
    new_session: NewSession | None = None,
    progress: Progress = ignore_problem,
) -> DecisionReport:
    """Judge every decision.

    Args:
        search: The directories, topics and options.
        new_session: Called at most once, and only if there is much to read.
        progress: Called with a line about the present activity.

    Raises:
        BadInputError: A path is wrong, or the directories are of two clusters.
        LogFileError: Spark met a file that can't be read.
    """
    report, _ = find_decisions_and_facts(search, None, new_session=new_session, progress=progress)
    return report


def find_decisions_and_facts(
    search: Search,
    finding_id: str | None,
    *,
    new_session: NewSession | None = None,
    progress: Progress = ignore_problem,
) -> tuple[DecisionReport, FindingFacts | None]:
    """Judge every decision, and read what lies around one finding.

    Args:
        search: The directories, topics and options.
        finding_id: The id of the finding; None for none.
        new_session: Called at most once, and only if there is much to read.
        progress: Called with a line about the present activity.

    Returns:
        The report, and the facts about the finding; None if there is no such finding.

    Raises:
        BadInputError: A path is wrong, or the directories are of two clusters.
        LogFileError: Spark met a file that can't be read.
    """
    problems: dict[str, None] = {}
    hanging_report = find_hanging(search, new_session=new_session, progress=progress)
    problems.update(dict.fromkeys(hanging_report.source.problems))
    directory_reader = DirectoryReader(search)
    logs = audited_logs(directory_reader.living_states(), directory_reader, search.topics)
    engine = Engine(new_session, progress, with_spark=search.with_spark)
    audit = _Audit(search, engine, progress, problems.setdefault, finding_id)
    builder = ReportBuilder()
    disagreeing_partitions = audit.run(logs, hanging_report.findings, builder)
    for other_logs in other_replicas_of(logs, disagreeing_partitions):
        builder_of_others = ReportBuilder()
        audit.run(other_logs, (), builder_of_others)
        builder.add_of_other_replicas(builder_of_others)
    for topic_partition in disagreeing_partitions:
        problems.setdefault(
            f"{topic_partition}: replicas hold different markers; txnsim logs verify says where"
        )
    return builder.report(problems), audit.facts


class _Audit:
    """Compares the decisions with one replica of each partition."""

    def __init__(
        self,
        search: Search,
        engine: Engine,
        progress: Progress,
        on_problem: OnProblem,
        finding_id: str | None,
    ) -> None:
        self.facts: FindingFacts | None = None
        """What lies around the finding of this id."""
        self._finding_id = finding_id
        self._search = search
        self._engine = engine
        self._progress = progress
        self._on_problem = on_problem

    def run(
        self, logs: AuditedLogs, open_transactions: Sequence[Finding], builder: ReportBuilder
    ) -> list[TopicPartition]:
        """Compare decisions and markers of these logs, and add the verdicts to ``builder``. Returns
        the partitions whose replicas hold different markers.
        """
        self._progress("reading decisions and markers")
        tables = decision_tables(self._engine, logs, self._on_problem)
        reaches = _Reaches(logs, tables)
        self._progress("comparing decisions and markers")
        tables.keep_events(events_query(reaches.of_unknown_ids.since_ms, SKEW_MS))
        _count_plain(tables, builder, reaches, logs, self._search.topics)
        doubtful_verdicts: list[DoubtfulVerdict] = []
        unmarked_places: set[tuple[int, TopicPartition]] = set()
        for epoch in epochs_of(tables.rows(queries.DOUBTFUL)):
            for verdict in audit_epoch(
                epoch.decisions,
                epoch.markers,
                partition_reach=reaches.of_partition(epoch.topic_partition),
                coordinator_reach=reaches.of_coordinator(epoch.coordinator_partition),
            ):
                if verdict.decision is not None and not verdict.markers:
                    unmarked_places.add((epoch.producer_id, epoch.topic_partition))
                if builder.count_verdict(verdict):
                    doubtful_verdicts.append(DoubtfulVerdict(epoch=epoch, verdict=verdict))
        doubtful_verdicts += _records_behind(open_transactions, unmarked_places, builder)
        doubtful_verdicts += map(_epoch_back, tables.rows(queries.EPOCHS_BACK))
        self._progress("reading the records of findings")
        self._add_findings(doubtful_verdicts, logs, tables, builder)
        return [
            TopicPartition(row["topic"], row["partition"])
            for row in tables.rows(queries.DISAGREEMENTS)
        ]

    def _add_findings(
        self,
        doubtful_verdicts: Sequence[DoubtfulVerdict],
        logs: AuditedLogs,
        tables: DecisionTables,
        builder: ReportBuilder,
    ) -> None:
        clue_reader = ClueReader(
            self._engine, logs, tables, doubtful_verdicts[:DETAILS_MAX], self._on_problem
        )
        for number, doubtful_verdict in enumerate(doubtful_verdicts):
            clues = (
                clue_reader.clues_of(doubtful_verdict) if number < DETAILS_MAX else FindingClues()
            )
            finding = finding_of(
                doubtful_verdict.verdict,
                topic_partition=doubtful_verdict.epoch.topic_partition,
                producer_id=doubtful_verdict.epoch.producer_id,
                producer_epoch=doubtful_verdict.epoch.producer_epoch,
                transactional_id=doubtful_verdict.epoch.transactional_id
                or clue_reader.transactional_id_of(doubtful_verdict.epoch.producer_id),
                clues=clues,
                program=program_at(self._search.bootstrap),
            )
            builder.add(finding)
            if finding.id == self._finding_id and self.facts is None:
                self.facts = facts_of(
                    finding, doubtful_verdict, clue_reader=clue_reader, logs=logs, tables=tables
                )


class _Reaches:
    """How far each log reaches back, and forth."""

    def __init__(self, logs: AuditedLogs, tables: DecisionTables) -> None:
        self._logs = logs
        complete_from_by_partition = {
            topic_partition: log.complete_from
            for topic_partition, log in logs.log_by_partition.items()
        }
        for row in tables.rows(queries.GAPS):
            topic_partition = TopicPartition(TRANSACTION_STATE_TOPIC, row["partition"])
            if row["complete_from"] is not None:
                complete_from_by_partition[topic_partition] = max(
                    complete_from_by_partition[topic_partition] or 0, row["complete_from"]
                )
        self._complete_from_by_partition = complete_from_by_partition
        tables.set_rows(
            "audited_logs",
            LOGS_SCHEMA,
            [
                (topic_partition.topic, topic_partition.partition, offset)
                for topic_partition, offset in sorted(complete_from_by_partition.items())
            ],
        )
        self._times_ms_by_partition: dict[TopicPartition, tuple[int | None, int | None]] = {
            TopicPartition(row["topic"], row["partition"]): (row["since_ms"], row["newest_ms"])
            for row in tables.rows(queries.REACH)
        }
        coordinators = [
            topic_partition.partition
            for topic_partition in complete_from_by_partition
            if topic_partition.topic == TRANSACTION_STATE_TOPIC
        ]
        reach_by_coordinator = {number: self.of_coordinator(number) for number in coordinators}
        tables.set_rows(
            "coordinator_reach",
            REACH_SCHEMA,
            [
                (number, reach.since_ms)
                for number, reach in sorted(reach_by_coordinator.items())
                if reach.reason
            ],
        )
        self.of_unknown_ids = _common_reach(
            reach_by_coordinator.values(), logs.missing_coordinators
        )

    def of_coordinator(self, coordinator_partition: int | None) -> LogReach:
        """The reach of a coordinator's log; None for a producer that no log knows."""
        if coordinator_partition is None:
            return self.of_unknown_ids
        return self.of_partition(TopicPartition(TRANSACTION_STATE_TOPIC, coordinator_partition))

    def of_partition(self, topic_partition: TopicPartition) -> LogReach:
        log = self._logs.log_by_partition.get(topic_partition)
        if log is None:
            return LogReach.absent(self._logs.why_absent(topic_partition))
        since_ms, newest_ms = self._times_ms_by_partition.get(topic_partition, (None, None))
        until_ms = max(log.until_ms, newest_ms or BEFORE_ALL_MARKERS_MS)
        offset = self._complete_from_by_partition[topic_partition]
        if offset is None:
            return LogReach(until_ms=until_ms)
        reason = log.reason or f"the cleaner has been at __transaction_state below offset {offset}"
        return LogReach(
            since_ms=AFTER_ALL_MARKERS_MS if since_ms is None else since_ms,
            reason=reason,
            until_ms=until_ms,
        )


def _common_reach(reaches: Iterable[LogReach], missing_coordinators: str) -> LogReach:
    """The reach of all coordinators' logs together."""
    if missing_coordinators:
        return LogReach.absent(missing_coordinators)
    reach_list = [*reaches]
    if not reach_list:
        return LogReach.absent("no replica of __transaction_state is among the directories")
    latest_reach = max(reach_list, key=lambda reach: reach.since_ms)
    return LogReach(
        since_ms=latest_reach.since_ms,
        reason=latest_reach.reason,
        until_ms=min(reach.until_ms for reach in reach_list),
    )


def _count_plain(
    tables: DecisionTables,
    builder: ReportBuilder,
    reaches: _Reaches,
    logs: AuditedLogs,
    topics: frozenset[str],
) -> None:
    """Count what needs no judgement: decisions that agree, and what is out of reach."""
    for row in tables.rows(queries.COUNTED):
        if row["kind"] == "agrees":
            builder.count_agreeing(row["decisions"], row["first_ms"])
        else:
            builder.count_unknown(row["markers"], reaches.of_coordinator(row["coordinator"]).reason)
    for row in tables.rows(queries.ABSENT):
        if not topics or row["topic"] in topics:
            topic_partition = TopicPartition(row["topic"], row["partition"])
            builder.count_unknown(row["decisions"], logs.why_absent(topic_partition))


def _epoch_back(row: Mapping[str, Any]) -> DoubtfulVerdict:
    return DoubtfulVerdict(
        epoch=epoch_without_decision(
            row["producer_id"],
            row["newest_epoch"],
            TopicPartition(row["topic"], row["partition"]),
            None,
        ),
        verdict=AuditVerdict(state=AuditState.EPOCH_BACK),
    )


def _records_behind(
    open_transactions: Sequence[Finding],
    unmarked_places: Set[tuple[int, TopicPartition]],
    builder: ReportBuilder,
) -> Iterator[DoubtfulVerdict]:
    """What is open at the end of a log, and belongs to no decision without a marker."""
    for finding in open_transactions:
        topic_partition = TopicPartition(finding.topic, finding.partition)
        if (finding.producer_id, topic_partition) in unmarked_places:
            continue
        match finding.verdict:
            case OpenTxnStatus.HANGING:
                verdict = AuditVerdict(state=AuditState.RECORDS_BEHIND)
                epoch = epoch_without_decision(
                    finding.producer_id,
                    finding.producer_epoch,
                    topic_partition,
                    finding.transactional_id,
                )
                yield DoubtfulVerdict(epoch=epoch, verdict=verdict)
            case OpenTxnStatus.RECENT | OpenTxnStatus.UNKNOWN | OpenTxnStatus.REPLICAS_DISAGREE:
                builder.count_unknown(
                    1, f"open on {topic_partition}, and {finding.verdict}: {finding.reason}"
                )
            case _:
                pass
