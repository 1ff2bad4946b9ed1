"""What the logs show around a finding: its records, by the batches of its producer alone; a new
leader of its partition; the coordinator's epoch at that time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from txnsim.txn.decision_audit import AuditState, AuditVerdict
from txnsim.txn.decision_report import FindingClues, RecordsConcerned
from txnsim.txn.marker_payment import SKEW_MS
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.engine import Engine
from txnsim_spark.log_query import RowScope
from txnsim_spark.questions import _decision_queries as queries
from txnsim_spark.questions._decision_tables import DecisionTables
from txnsim_spark.questions._log_reach import AuditedLogs
from txnsim_spark.scan.log_dirs import OnProblem
from txnsim_spark.tables.replica_jobs import kept_rows

if TYPE_CHECKING:
    from txnsim_spark.questions.decisions import DoubtfulVerdict

MOVED_TWICE_MS: Final = 60_000
"""Two moves of the coordinator that come this soon after a record may have cut its entry off."""


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
            has_moved_twice=self._has_moved_twice(coordinator),
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
        """The leader epoch of the coordinator's partition at a decision, or the newest one."""
        epochs = self._epochs_of(coordinator)
        if not epochs:
            return None
        if verdict.decision is None:
            return epochs[-1][0] if len(epochs) == 1 else epochs[0][0]
        epoch_numbers = [
            epoch for epoch, start_offset in epochs if start_offset <= verdict.decision.offset
        ]
        return epoch_numbers[-1] if epoch_numbers else None

    def _has_moved_twice(self, coordinator: int | None) -> bool:
        """Whether two leaders of the coordinator's partition begin close together, so that the
        second one may have cut off what the first had answered from.
        """
        epochs = self._epochs_of(coordinator)
        return any(
            later_start - start_offset <= 1
            for (_, start_offset), (_, later_start) in pairwise(epochs[1:])
        )

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
        case AuditState.CONTRADICTS | AuditState.WITHOUT_DECISION:
            marker_offset = verdict.markers[0].offset
        case _:  # twice: what the repetition has ended
            marker_offset = verdict.markers[-1].offset
    return _records_between(batches, _marker_offset_before(batches, marker_offset), marker_offset)


def _unmarked_records(
    verdict: AuditVerdict, producer_epoch: int, batches: Sequence[ProducerBatch]
) -> RecordsConcerned | None:
    """The records of a decision without a marker: those of its epoch, or those that were written
    before it, up to the next marker; None if there are none.
    """
    decision = verdict.decision
    assert decision is not None
    start_offset = -1
    own_batches: list[ProducerBatch] = []
    for batch in batches:
        if batch.is_control:
            if own_batches:
                return _concerned(own_batches, batch)
            start_offset = batch.base_offset
        elif batch.base_offset > start_offset and _is_of_decision(
            batch, producer_epoch, decision.at_ms, by_epoch=decision.by_epoch
        ):
            own_batches.append(batch)
    return _concerned(own_batches, None) if own_batches else None


def _is_of_decision(
    batch: ProducerBatch, marker_epoch: int, decided_ms: int, *, by_epoch: bool
) -> bool:
    if by_epoch:
        return batch.producer_epoch == marker_epoch - 1
    is_near = abs(decided_ms - batch.max_timestamp_ms) <= SKEW_MS
    return batch.producer_epoch <= marker_epoch and (
        batch.max_timestamp_ms <= decided_ms or is_near
    )


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
