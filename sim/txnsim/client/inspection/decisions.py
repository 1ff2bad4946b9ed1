"""``txns decisions``: every decision of the coordinators against the markers of every partition
that it lists, on a running cluster. Nothing is written there.

It reads ``__transaction_state`` and the partitions as any consumer may, and keeps batches' headers.
Producers may go on meanwhile, so the coordinators' logs are read before the partitions, and what
came in between once more after them: then each marker that was read has its decision. A decision
that was not complete at the first reading may still get its marker, and counts as owed without one.

The same judge as for log directories decides (``txn.decision_audit``). Kafka's counterparts:
TransactionStateManager.loadTransactionMetadata, EndTransactionMarker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection._batch_headers import FetchedBatch, fetch_batches
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.offsets import EARLIEST, LATEST, offset_of
from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.releases.rules import LATEST as LATEST_RULES
from txnsim.shell_text import ShellText
from txnsim.txn.decision_audit import (
    AuditedDecision,
    AuditedMarker,
    AuditState,
    AuditVerdict,
    LogReach,
    audit_epoch,
)
from txnsim.txn.decision_records import ProducerBatch, records_of
from txnsim.txn.decision_report import (
    DecisionReport,
    FindingClues,
    RecordsConcerned,
    ReportBuilder,
    finding_of,
)
from txnsim.txn.log_format import decode_record
from txnsim.txn.marker_payment import AFTER_ALL_MARKERS_MS, SKEW_MS
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.state import TxnTransition
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim.wire.batch import COMMIT, read_control_record, read_records

_DECISIONS: Final = {"PrepareCommit": True, "PrepareAbort": False}
"""State -> whether it commits."""
Progress = Callable[[str], object]


def _no_progress(_text: str) -> None:
    """Ignore progress."""


class _Entry(NamedTuple):
    """A record of ``__transaction_state``."""

    coordinator: int
    offset: int
    transactional_id: str
    at_ms: int
    coordinator_epoch: int
    transition: TxnTransition | None
    """None for a tombstone."""


class _EpochPlace(NamedTuple):
    """A producer's epoch on a partition."""

    producer_id: int
    producer_epoch: int
    partition: TopicPartition


class _CoordinatorLog(msgspec.Struct):
    """A partition of ``__transaction_state``, as it is read."""

    next_offset: int = 0
    first_read_end: int = 0
    """Where the first reading ended."""
    complete_from: int = 0
    """First offset above all gaps."""
    entries: list[_Entry] = msgspec.field(default_factory=list)

    @property
    def reach(self) -> LogReach:
        if not self.complete_from:
            return LogReach()
        since_ms = next(
            (entry.at_ms for entry in self.entries if entry.offset >= self.complete_from),
            AFTER_ALL_MARKERS_MS,
        )
        why = f"the cleaner has been at __transaction_state below offset {self.complete_from}"
        return LogReach(since_ms=since_ms, why=why)


class _PartitionLog(msgspec.Struct):
    """A partition, as it is read."""

    complete_from: int = 0
    start_offset: int = 0
    leader_epoch: int = -1
    """Of its present leader."""
    first_marker_ms: int | None = None
    """Of the first marker from ``complete_from`` on."""
    markers: dict[tuple[int, int], list[AuditedMarker]] = msgspec.field(default_factory=dict)
    """(producer id, epoch) -> its markers."""
    batches: dict[int, list[ProducerBatch]] = msgspec.field(default_factory=dict)
    """Producer id -> its batches, those of one stay and epoch put together."""
    epochs_back: dict[int, int] = msgspec.field(default_factory=dict)
    """Producer id -> its newest epoch, where a batch had an older one than one before."""
    newest_epochs: dict[int, int] = msgspec.field(default_factory=dict)

    def reach(self, partition: TopicPartition) -> LogReach:
        if not self.complete_from:
            return LogReach()
        why = (
            f"the log of {partition} begins at offset {self.start_offset}"
            if self.complete_from == self.start_offset
            else f"the cleaner has been at {partition} below offset {self.complete_from}"
        )
        since_ms = AFTER_ALL_MARKERS_MS if self.first_marker_ms is None else self.first_marker_ms
        return LogReach(since_ms=since_ms, why=why)


async def check_decisions(
    admin: TransactionAdmin,
    *,
    now_ms: int,
    topic: str | None = None,
    program: ShellText,
    progress: Progress = _no_progress,
) -> DecisionReport:
    """Judge every decision about the partitions of a cluster, or of one topic.

    Args:
        admin: The cluster.
        now_ms: The wall clock, for open transactions.
        topic: Only its partitions; all if None.
        program: ``txnsim txns`` with its global options, for printed commands.
        progress: Called with a line about the present activity.

    Raises:
        ClientError: This user may not read ``__transaction_state``, or topics can't be listed.
    """
    cluster = admin.cluster
    targets = await admin.search_targets(topic)
    if targets.unread_topics:  # a decision may list its partitions
        raise next(iter(targets.unread_topics.values()))
    partitions = [
        partition for partition in targets.partitions if partition.topic != TRANSACTION_STATE_TOPIC
    ]
    coordinator_targets = await admin.search_targets(TRANSACTION_STATE_TOPIC)
    coordinators = {
        partition.partition: _CoordinatorLog() for partition in coordinator_targets.partitions
    }
    await _read_coordinators(cluster, coordinators, progress)
    for log in coordinators.values():
        log.first_read_end = log.next_offset
    since_ms = min(
        (entry.at_ms for log in coordinators.values() for entry in log.entries), default=0
    )
    logs: dict[TopicPartition, _PartitionLog] = {}
    unread: dict[TopicPartition, str] = {}
    for number, partition in enumerate(partitions, 1):
        progress(f"reading {partition}, partition {number} of {len(partitions)}")
        try:
            logs[partition] = await _read_partition(cluster, partition, since_ms - SKEW_MS)
        except (ClientError, CorruptBatchError) as failure:
            unread[partition] = f"{partition} could not be read: {failure}"
    await _read_coordinators(cluster, coordinators, progress)
    surveyed = await survey(admin, now_ms=now_ms, partitions=[*logs], older_than_ms=ANY_AGE)
    hanging = {
        (finding.transaction.producer.producer_id, finding.transaction.partition)
        for finding in surveyed.findings
        if finding.verdict is OpenTxnStatus.HANGING
    }
    checked = _Check(coordinators, logs, unread, topic=topic, program=program)
    return checked.report(hanging, {str(why) for why in surveyed.unread.values()})


async def _read_coordinators(
    cluster: Cluster, coordinators: Mapping[int, _CoordinatorLog], progress: Progress
) -> None:
    """Read each partition of ``__transaction_state`` to its end, from where it was left."""
    for number, log in sorted(coordinators.items()):
        partition = TopicPartition(TRANSACTION_STATE_TOPIC, number)
        progress(f"reading {partition}")
        if not log.next_offset:
            log.next_offset = await offset_of(cluster, partition, EARLIEST)
            log.complete_from = log.next_offset
        end_offset = await offset_of(cluster, partition, LATEST)
        async for batch in fetch_batches(cluster, partition, log.next_offset, end_offset):
            try:
                _take_entries(log, number, batch)
            except CorruptLogRecordError as error:
                raise ClientError(f"{partition}: {error}") from error


def _take_entries(log: _CoordinatorLog, coordinator: int, batch: FetchedBatch) -> None:
    header = batch.header
    for record in () if header.is_control else read_records(batch.data):
        if record.offset > log.next_offset:
            log.complete_from = record.offset
        log.next_offset = record.offset + 1
        decoded = (
            None
            if record.key is None
            else decode_record(record.key, record.value, release_rules=LATEST_RULES)
        )
        if decoded is None:
            continue
        transition = decoded if isinstance(decoded, TxnTransition) else None
        at_ms = header.max_timestamp_ms
        if transition is not None:
            at_ms = transition.last_update_timestamp_ms
        log.entries.append(
            _Entry(
                coordinator=coordinator,
                offset=record.offset,
                transactional_id=decoded.transactional_id,
                at_ms=at_ms,
                coordinator_epoch=header.leader_epoch,
                transition=transition,
            )
        )
    if header.last_offset >= log.next_offset:  # what stood there is cleaned away
        log.next_offset = log.complete_from = header.last_offset + 1


async def _read_partition(
    cluster: Cluster, partition: TopicPartition, since_ms: int
) -> _PartitionLog:
    log_start = await offset_of(cluster, partition, EARLIEST)
    # -1 where nothing is as late.
    start_offset = await offset_of(cluster, partition, since_ms) if since_ms > 0 else log_start
    end_offset = await offset_of(cluster, partition, LATEST)
    leader = await cluster.leader(partition)
    log = _PartitionLog(
        complete_from=log_start, start_offset=log_start, leader_epoch=leader.leader_epoch
    )
    next_offset = end_offset if start_offset < 0 else start_offset
    if next_offset < end_offset:
        async for batch in fetch_batches(cluster, partition, next_offset, end_offset):
            header = batch.header
            is_thinned = header.records_count <= header.last_offset - header.base_offset
            if header.base_offset > next_offset or is_thinned:
                log.complete_from = header.base_offset if not is_thinned else header.last_offset + 1
                log.first_marker_ms = None
            next_offset = header.last_offset + 1
            if header.producer_id >= 0 and header.is_transactional:
                _take_batch(log, batch)
    return log


def _take_batch(log: _PartitionLog, batch: FetchedBatch) -> None:
    header = batch.header
    control = read_control_record(batch.data) if header.is_control else None
    if header.is_control and (control is None or not control.is_marker):
        return
    is_commit = control is not None and control.type == COMMIT
    described = ProducerBatch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        producer_epoch=header.producer_epoch,
        is_control=header.is_control,
        is_commit=is_commit,
        records=header.records_count,
        max_timestamp_ms=header.max_timestamp_ms,
        leader_epoch=header.leader_epoch,
    )
    newest_epoch = log.newest_epochs.get(header.producer_id, -1)
    if header.producer_epoch < newest_epoch and not header.is_control:
        log.epochs_back[header.producer_id] = newest_epoch
    log.newest_epochs[header.producer_id] = max(newest_epoch, header.producer_epoch)
    batches = log.batches.setdefault(header.producer_id, [])
    if batches and _are_of_one_stay(batches[-1], described):
        batches[-1] = msgspec.structs.replace(
            described,
            base_offset=batches[-1].base_offset,
            records=batches[-1].records + described.records,
        )
    else:
        batches.append(described)
    if control is None:
        return
    if log.first_marker_ms is None:
        log.first_marker_ms = header.max_timestamp_ms
    log.markers.setdefault((header.producer_id, header.producer_epoch), []).append(
        AuditedMarker(
            offset=header.base_offset,
            at_ms=header.max_timestamp_ms,
            is_commit=is_commit,
            coordinator_epoch=control.coordinator_epoch,
        )
    )


def _are_of_one_stay(batch: ProducerBatch, next_batch: ProducerBatch) -> bool:
    """Whether two batches of a producer may be put together: data of one epoch and millisecond."""
    return (
        not batch.is_control
        and not next_batch.is_control
        and batch.producer_epoch == next_batch.producer_epoch
        and batch.leader_epoch == next_batch.leader_epoch
        and batch.max_timestamp_ms == next_batch.max_timestamp_ms
    )


class _Check:
    """Compares what was read."""

    def __init__(
        self,
        coordinators: Mapping[int, _CoordinatorLog],
        logs: Mapping[TopicPartition, _PartitionLog],
        unread: Mapping[TopicPartition, str],
        *,
        topic: str | None,
        program: ShellText,
    ) -> None:
        self._coordinators = coordinators
        self._logs = logs
        self._unread = unread
        self._topic = topic
        self._program = program
        self._builder = ReportBuilder()
        self._decisions: defaultdict[_EpochPlace, list[AuditedDecision]] = defaultdict(list)
        self._owners: dict[int, tuple[str, int]] = {}
        """Producer id -> (transactional id, coordinator)."""
        for coordinator, log in coordinators.items():
            self._take_decisions(coordinator, log)
        self._coordinator_reaches = {number: log.reach for number, log in coordinators.items()}

    def report(
        self, hanging: Iterable[tuple[int, TopicPartition]], problems: Iterable[str]
    ) -> DecisionReport:
        """The report.

        Args:
            hanging: (producer id, partition) of transactions that no coordinator will end.
            problems: What could not be read besides.
        """
        epoch_places = {
            _EpochPlace(producer_id, producer_epoch, partition)
            for partition, log in self._logs.items()
            for producer_id, producer_epoch in log.markers
        }
        unmarked: set[tuple[int, TopicPartition]] = set()
        for epoch_place in sorted({*epoch_places, *self._decisions}):
            for verdict in self._verdicts_at(epoch_place):
                if verdict.decision is not None and not verdict.markers:
                    unmarked.add((epoch_place.producer_id, epoch_place.partition))
                if self._builder.count_verdict(verdict):
                    self._add(epoch_place, verdict)
        for producer_id, partition in sorted(set(hanging) - unmarked):
            newest_epoch = self._logs[partition].newest_epochs.get(producer_id, -1)
            self._add(
                _EpochPlace(producer_id, newest_epoch, partition),
                AuditVerdict(state=AuditState.RECORDS_BEHIND),
            )
        for partition, log in sorted(self._logs.items(), key=lambda item: item[0]):
            for producer_id, newest_epoch in log.epochs_back.items():
                self._add(
                    _EpochPlace(producer_id, newest_epoch, partition),
                    AuditVerdict(state=AuditState.EPOCH_BACK),
                )
        return self._builder.report({*problems, *self._unread.values()})

    def _take_decisions(self, coordinator: int, log: _CoordinatorLog) -> None:
        next_entries: dict[str, _Entry] = {}
        decided: list[tuple[_EpochPlace, AuditedDecision]] = []
        for entry in reversed(log.entries):
            next_entry = next_entries.get(entry.transactional_id)
            next_entries[entry.transactional_id] = entry
            transition = entry.transition
            if transition is None:
                continue
            for producer_id in (
                transition.producer_id,
                transition.prev_producer_id,
                transition.next_producer_id,
            ):
                self._owners.setdefault(producer_id, (entry.transactional_id, coordinator))
            is_commit = _DECISIONS.get(transition.state.wire_name)
            if is_commit is None:
                continue
            # What was complete after the first reading may have been marked after the partition
            # was read.
            is_completed = next_entry is not None and next_entry.offset < log.first_read_end
            decision = AuditedDecision(
                coordinator=coordinator,
                offset=entry.offset,
                at_ms=entry.at_ms,
                is_commit=is_commit,
                by_epoch=transition.client_version >= 2,
                completed_ms=next_entry.at_ms if next_entry and is_completed else None,
            )
            decided += [
                (
                    _EpochPlace(transition.producer_id, transition.producer_epoch, partition),
                    decision,
                )
                for partition in transition.partitions
            ]
        for epoch_place, decision in reversed(decided):
            if self._topic in (None, epoch_place.partition.topic):
                self._decisions[epoch_place].append(decision)

    def _verdicts_at(self, epoch_place: _EpochPlace) -> list[AuditVerdict]:
        log = self._logs.get(epoch_place.partition)
        decisions = self._decisions.get(epoch_place, [])
        owner = self._owners.get(epoch_place.producer_id)
        if log is None:
            why = self._unread.get(epoch_place.partition, f"there is no {epoch_place.partition}")
            partition_reach, markers = LogReach.absent(why), []
        else:
            partition_reach = log.reach(epoch_place.partition)
            markers = log.markers.get((epoch_place.producer_id, epoch_place.producer_epoch), [])
        return audit_epoch(
            decisions,
            markers,
            partition_reach=partition_reach,
            coordinator_reach=self._reach_of_unknown_ids()
            if owner is None
            else self._coordinator_reaches[owner[1]],
        )

    def _reach_of_unknown_ids(self) -> LogReach:
        if not self._coordinator_reaches:
            return LogReach.absent("there is no __transaction_state")
        return max(self._coordinator_reaches.values(), key=lambda reach: reach.since_ms)

    def _add(self, epoch_place: _EpochPlace, verdict: AuditVerdict) -> None:
        owner = self._owners.get(epoch_place.producer_id)
        self._builder.add(
            finding_of(
                verdict,
                topic_partition=epoch_place.partition,
                producer_id=epoch_place.producer_id,
                producer_epoch=epoch_place.producer_epoch,
                transactional_id=None if owner is None else owner[0],
                clues=self._clues(epoch_place, verdict),
                program=self._program,
            )
        )

    def _clues(self, epoch_place: _EpochPlace, verdict: AuditVerdict) -> FindingClues:
        log = self._logs[epoch_place.partition]
        batches = log.batches.get(epoch_place.producer_id, [])
        concerned = records_of(verdict, epoch_place.producer_epoch, batches)
        owner = self._owners.get(epoch_place.producer_id)
        entries = [] if owner is None else self._coordinators[owner[1]].entries
        return FindingClues(
            records=concerned,
            has_new_leader=_has_new_leader(log, batches, concerned),
            coordinator_epoch=_coordinator_epoch(entries, verdict),
            has_moved_twice=_has_moved_twice(entries, batches, concerned),
        )


def _has_new_leader(
    log: _PartitionLog, batches: Sequence[ProducerBatch], concerned: RecordsConcerned | None
) -> bool | None:
    """Whether the partition got a new leader between some records and their end."""
    if concerned is None:
        return None
    epochs = {batch.base_offset: batch.leader_epoch for batch in batches}
    end_epoch = log.leader_epoch if concerned.ended_at is None else epochs[concerned.ended_at]
    return end_epoch > epochs[concerned.first_offset]


def _coordinator_epoch(entries: Sequence[_Entry], verdict: AuditVerdict) -> int | None:
    """The coordinator's epoch at a decision, or at a marker without one."""
    epochs = [
        entry.coordinator_epoch
        for entry in entries
        if (
            entry.offset <= verdict.decision.offset
            if verdict.decision is not None
            else bool(verdict.markers) and entry.at_ms <= verdict.markers[0].at_ms
        )
    ]
    return epochs[-1] if epochs else None


def _has_moved_twice(
    entries: Sequence[_Entry],
    batches: Sequence[ProducerBatch],
    concerned: RecordsConcerned | None,
) -> bool:
    """Whether the coordinator moved twice between two of its records, around some records."""
    if concerned is None:
        return False
    written_ms = next(
        batch.max_timestamp_ms for batch in batches if batch.base_offset == concerned.first_offset
    )
    return any(
        later.coordinator_epoch > entry.coordinator_epoch + 1
        and entry.at_ms <= written_ms + SKEW_MS
        and later.at_ms >= written_ms - SKEW_MS
        for entry, later in pairwise(entries)
    )
