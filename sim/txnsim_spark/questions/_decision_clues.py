"""What the logs show around a finding: its records, by the batches of its producer alone; a new
leader of its partition; the coordinator's epoch at that time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from txnsim.txn.decision_audit import AuditState, AuditVerdict
from txnsim.txn.decision_records import ProducerBatch, records_of, written_ms_of
from txnsim.txn.decision_report import FindingClues, RecordsConcerned
from txnsim.txn.marker_payment import SKEW_MS
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.engine import Engine
from txnsim_spark.log_query import RowScope
from txnsim_spark.questions import _decision_queries as queries
from txnsim_spark.questions._audited_epochs import DoubtfulVerdict
from txnsim_spark.questions._decision_tables import DecisionTables
from txnsim_spark.questions._log_reach import AuditedLogs
from txnsim_spark.scan.log_dirs import OnProblem
from txnsim_spark.tables.replica_jobs import kept_rows


class ClueReader:
    """Reads what concerns some findings.

    Args:
        engine: Reads the batches.
        logs: The logs that were compared.
        tables: Answers whose a producer id is.
        doubtful_verdicts: The verdicts that become findings.
        on_problem: Called with what can't be read.
    """

    def __init__(
        self,
        engine: Engine,
        logs: AuditedLogs,
        tables: DecisionTables,
        doubtful_verdicts: Sequence[DoubtfulVerdict],
        on_problem: OnProblem,
    ) -> None:
        self._logs = logs
        self._tables = tables
        self._times_by_place: dict[tuple[int, int], tuple[int | None, int | None]] = {}
        """(coordinator, offset) -> the times around it."""
        self._batches = _batches_of(engine, logs, doubtful_verdicts, on_problem)
        self._owner_by_producer = _owners_of(
            tables, {doubtful_verdict.epoch.producer_id for doubtful_verdict in doubtful_verdicts}
        )

    def transactional_id_of(self, producer_id: int) -> str | None:
        """The transactional id of a producer id; None if no coordinator's log has it."""
        owner = self._owner_by_producer.get(producer_id)
        return None if owner is None else owner[0]

    def batches_of(self, doubtful_verdict: DoubtfulVerdict) -> Sequence[ProducerBatch]:
        """The batches of a verdict's producer on its partition, in order."""
        return self._batches.get(
            (doubtful_verdict.epoch.topic_partition, doubtful_verdict.epoch.producer_id), ()
        )

    def records_of(self, doubtful_verdict: DoubtfulVerdict) -> RecordsConcerned | None:
        return records_of(
            doubtful_verdict.verdict,
            doubtful_verdict.epoch.producer_epoch,
            self.batches_of(doubtful_verdict),
        )

    def clues_of(self, doubtful_verdict: DoubtfulVerdict) -> FindingClues:
        topic_partition = doubtful_verdict.epoch.topic_partition
        batches = self.batches_of(doubtful_verdict)
        concerned_records = self.records_of(doubtful_verdict)
        owner = self._owner_by_producer.get(doubtful_verdict.epoch.producer_id)
        coordinator = doubtful_verdict.epoch.coordinator_partition
        if coordinator is None and owner is not None:
            coordinator = owner[1]
        return FindingClues(
            records=concerned_records,
            has_new_leader=self._has_new_leader(topic_partition, concerned_records),
            coordinator_epoch=self._coordinator_epoch(coordinator, doubtful_verdict.verdict),
            has_moved_twice=doubtful_verdict.verdict.state is AuditState.RECORDS_BEHIND
            and self._has_moved_twice(coordinator, written_ms_of(concerned_records, batches)),
        )

    def _has_new_leader(
        self, topic_partition: TopicPartition, concerned_records: RecordsConcerned | None
    ) -> bool | None:
        log = self._logs.log_by_partition.get(topic_partition)
        if log is None or concerned_records is None or not log.state.ends.epochs:
            return None
        end_offset = concerned_records.ended_at
        return any(
            start_offset > concerned_records.first_offset
            and (end_offset is None or start_offset <= end_offset)
            for _, start_offset in log.state.ends.epochs
        )

    def _coordinator_epoch(
        self, coordinator_partition: int | None, verdict: AuditVerdict
    ) -> int | None:
        """The leader epoch of the coordinator's partition at a decision, or at a marker without
        one; None if no coordinator knows the producer.
        """
        epochs_and_starts = self._epochs_of(coordinator_partition)
        if not epochs_and_starts:
            return None
        if verdict.decision is not None:
            decision_offset = verdict.decision.offset
            known_epochs = [
                epoch
                for epoch, start_offset in epochs_and_starts
                if start_offset <= decision_offset
            ]
        elif coordinator_partition is not None and verdict.markers:
            marker_ms = verdict.markers[0].at_ms
            known_epochs = [
                epoch
                for epoch, start_offset in epochs_and_starts
                if self._began_before(coordinator_partition, start_offset, marker_ms)
            ]
        else:
            return None
        return known_epochs[-1] if known_epochs else epochs_and_starts[0][0]

    def _has_moved_twice(self, coordinator_partition: int | None, written_ms: int | None) -> bool:
        """Whether the coordinator's partition got two leaders between two of its records, and a
        record was written to a partition meanwhile: its entry may have been cut off.
        """
        if coordinator_partition is None or written_ms is None:
            return False
        epochs_and_starts = self._epochs_of(coordinator_partition)
        return any(
            later_epoch > epoch + 1
            and self._is_between(coordinator_partition, later_start, written_ms)
            for (epoch, _), (later_epoch, later_start) in pairwise(epochs_and_starts)
        )

    def _is_between(self, coordinator_partition: int, offset: int, written_ms: int) -> bool:
        """Whether a time lies between those of a coordinator's record and of the one before it."""
        before_ms, after_ms = self._times_around(coordinator_partition, offset)
        return (before_ms is None or before_ms <= written_ms + SKEW_MS) and (
            after_ms is None or after_ms >= written_ms - SKEW_MS
        )

    def _began_before(self, coordinator_partition: int, start_offset: int, at_ms: int) -> bool:
        """Whether a leader epoch of the coordinator's partition has a record before a time."""
        _, first_ms = self._times_around(coordinator_partition, start_offset)
        return first_ms is not None and first_ms <= at_ms

    def _times_around(
        self, coordinator_partition: int, offset: int
    ) -> tuple[int | None, int | None]:
        """Times of the coordinator's last record below an offset, and of the first one from there
        on; None without one.
        """
        partition_and_offset = coordinator_partition, offset
        if partition_and_offset not in self._times_by_place:
            query = queries.NEIGHBOURS.format(coordinator=coordinator_partition, offset=offset)
            (row,) = self._tables.rows(query)
            self._times_by_place[partition_and_offset] = row["before_ms"], row["after_ms"]
        return self._times_by_place[partition_and_offset]

    def _epochs_of(self, coordinator_partition: int | None) -> tuple[tuple[int, int], ...]:
        if coordinator_partition is None:
            return ()
        log = self._logs.log_by_partition.get(
            TopicPartition(TRANSACTION_STATE_TOPIC, coordinator_partition)
        )
        return () if log is None else log.state.ends.epochs


def _batches_of(
    engine: Engine,
    logs: AuditedLogs,
    doubtful_verdicts: Sequence[DoubtfulVerdict],
    on_problem: OnProblem,
) -> Mapping[tuple[TopicPartition, int], list[ProducerBatch]]:
    """(partition, producer id) -> its batches there, in order."""
    partitions = {
        doubtful_verdict.epoch.topic_partition for doubtful_verdict in doubtful_verdicts
    } & logs.log_by_partition.keys()
    paths = [
        Path(logs.log_by_partition[topic_partition].state.replica.path)
        for topic_partition in sorted(partitions)
    ]
    batches_by_producer: defaultdict[tuple[TopicPartition, int], list[ProducerBatch]] = defaultdict(
        list
    )
    if not paths:
        return batches_by_producer
    scope = RowScope(
        producer_ids=frozenset(
            doubtful_verdict.epoch.producer_id for doubtful_verdict in doubtful_verdicts
        )
    )
    for rows in kept_rows(engine, "batches", paths, _keep_all, scope=scope, on_problem=on_problem):
        for row in rows.to_pylist():
            topic_partition = TopicPartition(row["topic"], row["partition"])
            batches_by_producer[topic_partition, row["producer_id"]].append(_batch_of(row))
    for batches_of_producer in batches_by_producer.values():
        batches_of_producer.sort(key=lambda batch: batch.base_offset)
    return batches_by_producer


def _keep_all(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _batch_of(row: Mapping[str, Any]) -> ProducerBatch:
    return ProducerBatch(
        base_offset=row["base_offset"],
        last_offset=row["last_offset"],
        producer_epoch=row["producer_epoch"],
        is_control=row["is_control"],
        is_commit=row["control_type"] == "commit",
        record_count=row["records"],
        max_timestamp_ms=row["max_timestamp_ms"],
        leader_epoch=row["leader_epoch"],
    )


def _owners_of(tables: DecisionTables, producer_ids: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Producer id -> (transactional id, partition of its coordinator)."""
    id_list = ", ".join(map(str, sorted(producer_ids)))
    if not id_list:
        return {}
    rows = tables.rows(queries.OWNERS.replace(":producer_ids", id_list))
    return {row["producer_id"]: (row["transactional_id"], row["coordinator"]) for row in rows}
