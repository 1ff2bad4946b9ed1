"""What the logs show around a finding: its records, by the batches of its producer alone; a new
leader of its partition; the coordinator's epoch at that time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from txnsim.txn.decision_audit import AuditState, AuditVerdict
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


class ProducerBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a producer on a partition."""

    base_offset: int
    last_offset: int
    producer_epoch: int
    is_control: bool
    is_commit: bool
    records: int
    max_timestamp_ms: int
    leader_epoch: int


class ClueReader:
    """Reads what concerns some findings.

    Args:
        engine: Reads the batches.
        logs: The logs that were compared.
        tables: Answers whose a producer id is.
        doubtful: The verdicts that become findings.
        on_problem: Called with what can't be read.
    """

    def __init__(
        self,
        engine: Engine,
        logs: AuditedLogs,
        tables: DecisionTables,
        doubtful: Sequence[DoubtfulVerdict],
        on_problem: OnProblem,
    ) -> None:
        self._logs = logs
        self._tables = tables
        self._times: dict[tuple[int, int], tuple[int | None, int | None]] = {}
        """(coordinator, offset) -> the times around it."""
        self._batches = _batches_of(engine, logs, doubtful, on_problem)
        self._owners = _owners_of(tables, {item.epoch.producer_id for item in doubtful})

    def transactional_id_of(self, producer_id: int) -> str | None:
        """The transactional id of a producer id; None if no coordinator's log has it."""
        owner = self._owners.get(producer_id)
        return None if owner is None else owner[0]

    def clues_of(self, item: DoubtfulVerdict) -> FindingClues:
        place = item.epoch.topic_partition
        batches = self._batches.get((place, item.epoch.producer_id), [])
        concerned = _records_of(item.verdict, item.epoch.producer_epoch, batches)
        owner = self._owners.get(item.epoch.producer_id)
        coordinator = item.epoch.coordinator
        if coordinator is None and owner is not None:
            coordinator = owner[1]
        return FindingClues(
            records=concerned,
            has_new_leader=self._has_new_leader(place, concerned),
            coordinator_epoch=self._coordinator_epoch(coordinator, item.verdict),
            has_moved_twice=item.verdict.state is AuditState.RECORDS_BEHIND
            and self._has_moved_twice(coordinator, _written_ms(concerned, batches)),
        )

    def _has_new_leader(
        self, place: TopicPartition, concerned: RecordsConcerned | None
    ) -> bool | None:
        log = self._logs.by_partition.get(place)
        if log is None or concerned is None or not log.state.ends.epochs:
            return None
        end_offset = concerned.ended_at
        return any(
            start_offset > concerned.first_offset
            and (end_offset is None or start_offset <= end_offset)
            for _, start_offset in log.state.ends.epochs
        )

    def _coordinator_epoch(self, coordinator: int | None, verdict: AuditVerdict) -> int | None:
        """The leader epoch of the coordinator's partition at a decision, or at a marker without
        one; None if no coordinator knows the producer.
        """
        epochs = self._epochs_of(coordinator)
        if not epochs:
            return None
        if verdict.decision is not None:
            decision_offset = verdict.decision.offset
            epoch_numbers = [
                epoch for epoch, start_offset in epochs if start_offset <= decision_offset
            ]
        elif coordinator is not None and verdict.markers:
            marker_ms = verdict.markers[0].at_ms
            epoch_numbers = [
                epoch
                for epoch, start_offset in epochs
                if self._began_before(coordinator, start_offset, marker_ms)
            ]
        else:
            return None
        return epoch_numbers[-1] if epoch_numbers else epochs[0][0]

    def _has_moved_twice(self, coordinator: int | None, written_ms: int | None) -> bool:
        """Whether the coordinator's partition got two leaders between two of its records, and a
        record was written to a partition meanwhile: its entry may have been cut off.
        """
        if coordinator is None or written_ms is None:
            return False
        epochs = self._epochs_of(coordinator)
        return any(
            later_epoch > epoch + 1 and self._is_between(coordinator, later_start, written_ms)
            for (epoch, _), (later_epoch, later_start) in pairwise(epochs)
        )

    def _is_between(self, coordinator: int, offset: int, written_ms: int) -> bool:
        """Whether a time lies between those of a coordinator's record and of the one before it."""
        before_ms, after_ms = self._times_around(coordinator, offset)
        return (before_ms is None or before_ms <= written_ms + SKEW_MS) and (
            after_ms is None or after_ms >= written_ms - SKEW_MS
        )

    def _began_before(self, coordinator: int, start_offset: int, at_ms: int) -> bool:
        """Whether a leader epoch of the coordinator's partition has a record before a time."""
        _, first_ms = self._times_around(coordinator, start_offset)
        return first_ms is not None and first_ms <= at_ms

    def _times_around(self, coordinator: int, offset: int) -> tuple[int | None, int | None]:
        """Times of the coordinator's last record below an offset, and of the first one from there
        on; None without one.
        """
        place = coordinator, offset
        if place not in self._times:
            query = queries.NEIGHBOURS.format(coordinator=coordinator, offset=offset)
            (row,) = self._tables.rows(query)
            self._times[place] = row["before_ms"], row["after_ms"]
        return self._times[place]

    def _epochs_of(self, coordinator: int | None) -> tuple[tuple[int, int], ...]:
        if coordinator is None:
            return ()
        log = self._logs.by_partition.get(TopicPartition(TRANSACTION_STATE_TOPIC, coordinator))
        return () if log is None else log.state.ends.epochs


def _batches_of(
    engine: Engine,
    logs: AuditedLogs,
    doubtful: Sequence[DoubtfulVerdict],
    on_problem: OnProblem,
) -> Mapping[tuple[TopicPartition, int], list[ProducerBatch]]:
    """(partition, producer id) -> its batches there, in order."""
    places = {item.epoch.topic_partition for item in doubtful} & logs.by_partition.keys()
    paths = [Path(logs.by_partition[place].state.replica.path) for place in sorted(places)]
    batches: defaultdict[tuple[TopicPartition, int], list[ProducerBatch]] = defaultdict(list)
    if not paths:
        return batches
    scope = RowScope(producer_ids=frozenset(item.epoch.producer_id for item in doubtful))
    for rows in kept_rows(engine, "batches", paths, _keep_all, scope=scope, on_problem=on_problem):
        for row in rows.to_pylist():
            place = TopicPartition(row["topic"], row["partition"])
            batches[place, row["producer_id"]].append(_batch_of(row))
    for batches_of_producer in batches.values():
        batches_of_producer.sort(key=lambda batch: batch.base_offset)
    return batches


def _keep_all(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _batch_of(row: Mapping[str, Any]) -> ProducerBatch:
    return ProducerBatch(
        base_offset=row["base_offset"],
        last_offset=row["last_offset"],
        producer_epoch=row["producer_epoch"],
        is_control=row["is_control"],
        is_commit=row["control_type"] == "commit",
        records=row["records"],
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


def _records_of(
    verdict: AuditVerdict, producer_epoch: int, batches: Sequence[ProducerBatch]
) -> RecordsConcerned | None:
    """The records that a verdict concerns."""
    match verdict.state:
        case AuditState.NO_MARKER:
            return _unmarked_records(verdict, producer_epoch, batches)
        case AuditState.RECORDS_BEHIND:
            return _records_between(batches, _last_marker_offset(batches), None)
        case AuditState.EPOCH_BACK:
            return _records_of_older_epochs(batches)
        case AuditState.CONTRADICTS | AuditState.WITHOUT_DECISION:
            marker_offset = verdict.markers[0].offset
        case _:  # twice: what the repetition has ended
            marker_offset = verdict.markers[-1].offset
    return _records_between(batches, _marker_offset_before(batches, marker_offset), marker_offset)


def _unmarked_records(
    verdict: AuditVerdict, producer_epoch: int, batches: Sequence[ProducerBatch]
) -> RecordsConcerned | None:
    """The records of a decision without a marker; None if there are none. By transactions v2 they
    have its epoch, less one. In the old flow they lie in front of the first marker after the
    decision, or are open, and were written before the decision.
    """
    decision = verdict.decision
    assert decision is not None
    stay: list[ProducerBatch] = []
    for batch in batches:
        if not batch.is_control:
            is_own = (
                batch.producer_epoch == producer_epoch - 1
                if decision.by_epoch
                else batch.producer_epoch <= producer_epoch
            )
            stay += [batch] if is_own else []
            continue
        if stay and (decision.by_epoch or batch.max_timestamp_ms >= decision.at_ms):
            return _concerned(_written_before(stay, decision.at_ms), batch)
        stay = []
    return _concerned(_written_before(stay, decision.at_ms), None) if stay else None


def _written_before(batches: Sequence[ProducerBatch], at_ms: int) -> Sequence[ProducerBatch]:
    """Batches that were written before a time, by their producer's clock; all of them if none was,
    as such a clock may be wrong.
    """
    return [batch for batch in batches if batch.max_timestamp_ms <= at_ms] or batches


def _records_of_older_epochs(batches: Sequence[ProducerBatch]) -> RecordsConcerned | None:
    newest_epoch = -1
    older_batches = []
    for batch in batches:
        if batch.producer_epoch < newest_epoch and not batch.is_control:
            older_batches.append(batch)
        newest_epoch = max(newest_epoch, batch.producer_epoch)
    if not older_batches:
        return None
    marker = next(
        (
            batch
            for batch in batches
            if batch.is_control and batch.base_offset > older_batches[-1].last_offset
        ),
        None,
    )
    return _concerned(older_batches, marker)


def _concerned(batches: Sequence[ProducerBatch], marker: ProducerBatch | None) -> RecordsConcerned:
    return RecordsConcerned(
        first_offset=batches[0].base_offset,
        last_offset=batches[-1].last_offset,
        records=sum(batch.records for batch in batches),
        ended_at=None if marker is None else marker.base_offset,
        ended_by_commit=None if marker is None else marker.is_commit,
    )


def _records_between(
    batches: Sequence[ProducerBatch], after_offset: int, marker_offset: int | None
) -> RecordsConcerned | None:
    own_batches = [
        batch
        for batch in batches
        if not batch.is_control
        and batch.base_offset > after_offset
        and (marker_offset is None or batch.base_offset < marker_offset)
    ]
    marker = next((batch for batch in batches if batch.base_offset == marker_offset), None)
    return _concerned(own_batches, marker) if own_batches else None


def _written_ms(concerned: RecordsConcerned | None, batches: Sequence[ProducerBatch]) -> int | None:
    """When the first of some records was written, by its producer's clock."""
    if concerned is None:
        return None
    return next(
        batch.max_timestamp_ms for batch in batches if batch.base_offset == concerned.first_offset
    )


def _last_marker_offset(batches: Sequence[ProducerBatch]) -> int:
    return max((batch.base_offset for batch in batches if batch.is_control), default=-1)


def _marker_offset_before(batches: Sequence[ProducerBatch], marker_offset: int) -> int:
    return max(
        (
            batch.base_offset
            for batch in batches
            if batch.is_control and batch.base_offset < marker_offset
        ),
        default=-1,
    )
