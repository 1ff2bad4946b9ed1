"""Reads the coordinators' logs and the partitions of a running cluster side by side, in order of
time, for ``decisions``. What is judged is let go (``txn.decision_ledger``).

In each round the coordinators' logs are read on, those that are furthest behind first; then each
partition up to a marker that is later than they are. Kafka's counterparts:
TransactionStateManager.loadTransactionMetadata, EndTransactionMarker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final, NamedTuple

import msgspec

from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection._batch_headers import FetchedBatch, fetch_batches
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, offset_of
from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.releases.rules import LATEST_RULES as LATEST_RULES
from txnsim.txn.decision_audit import AuditedDecision, AuditedMarker, LogReach
from txnsim.txn.decision_ledger import DecisionLedger, EpochPlace, JudgedPlace
from txnsim.txn.decision_records import ProducerBatch
from txnsim.txn.log_format import decode_record
from txnsim.txn.marker_payment import AFTER_ALL_MARKERS_MS, SKEW_MS
from txnsim.txn.state import TxnTransition
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim.wire.batch import COMMIT, read_control_record, read_records

_DECISIONS: Final = {"PrepareCommit": True, "PrepareAbort": False}
"""State -> whether it commits."""
ENTRIES_PER_ROUND: Final = 100_000
"""Records of a coordinator's log that are read before the partitions are read on. A partition's
last piece (8 MB) is fetched again in the next round.
"""
Progress = Callable[[str], object]


class _HeldDecision(NamedTuple):
    """A decision without its completion, with the partitions that it lists."""

    epoch_places: Sequence[EpochPlace]
    decision: AuditedDecision


class EpochStart(NamedTuple):
    """Where a coordinator's epoch begins in its log."""

    coordinator_epoch: int
    first_offset: int
    first_ms: int
    before_ms: int | None
    """Time of the record before; None for the first one."""


class CoordinatorLogReading(msgspec.Struct):
    """A partition of ``__transaction_state``, as it is read."""

    next_offset: int = -1
    """-1 until it is known where it begins."""
    first_read_end: int = -1
    """Where the first reading ends; -1 until it is known."""
    complete_from: int = 0
    """First offset above all gaps."""
    since_ms: int | None = None
    """Time of the first record from there on."""
    first_ms: int | None = None
    """Time of the first record that was read."""
    last_ms: int | None = None
    """Time of the last record that was read."""
    epochs: list[EpochStart] = msgspec.field(default_factory=list)
    held_decisions: dict[str, _HeldDecision] = msgspec.field(default_factory=dict)
    """Transactional id -> its decision that is not complete."""

    @property
    def reach(self) -> LogReach:
        if not self.complete_from:
            return LogReach()
        since_ms = AFTER_ALL_MARKERS_MS if self.since_ms is None else self.since_ms
        reason = f"the cleaner has been at __transaction_state below offset {self.complete_from}"
        return LogReach(since_ms=since_ms, reason=reason)

    def lacks_below(self, offset: int) -> None:
        """Note that the log has lost entries below an offset."""
        self.complete_from, self.since_ms = offset, None


class PartitionLogReading(msgspec.Struct):
    """How far a partition is read, and its batches and markers that are not judged yet."""

    next_offset: int = -1
    """-1 until it is known where reading begins."""
    complete_from: int = 0
    start_offset: int = 0
    leader_epoch: int = -1
    """Of its present leader."""
    first_marker_ms: int | None = None
    """Of the first marker from ``complete_from`` on."""
    batches: dict[int, list[ProducerBatch]] = msgspec.field(default_factory=dict)
    """Producer id -> its batches from the last judged marker on, and those of decisions without a
    marker; batches of one stay and epoch are put together.
    """
    epochs_back: dict[int, int] = msgspec.field(default_factory=dict)
    """Producer id -> its newest epoch, where a batch had an older one than one before."""
    newest_epochs: dict[int, int] = msgspec.field(default_factory=dict)
    judged_until: dict[int, int] = msgspec.field(default_factory=dict)
    """Producer id -> its last judged marker since the batches were pruned."""

    def reach(self, partition: TopicPartition) -> LogReach:
        if not self.complete_from:
            return LogReach()
        reason = (
            f"the log of {partition} begins at offset {self.start_offset}"
            if self.complete_from == self.start_offset
            else f"the cleaner has been at {partition} below offset {self.complete_from}"
        )
        since_ms = AFTER_ALL_MARKERS_MS if self.first_marker_ms is None else self.first_marker_ms
        return LogReach(since_ms=since_ms, reason=reason)


class DecisionReading:
    """Reads decisions and markers.

    Args:
        cluster: Connections to use.
        coordinators: Partitions of ``__transaction_state``.
        partitions: The partitions to compare.
        topic: Only decisions about this topic; all if None.
        progress: Called with a line about the present activity.
        entries_per_round: Records of a coordinator's log that are read at once.
    """

    def __init__(
        self,
        cluster: Cluster,
        coordinator_ids: Sequence[int],
        partitions: Sequence[TopicPartition],
        *,
        topic: str | None,
        report_progress: Progress,
        entries_per_round: int = ENTRIES_PER_ROUND,
    ) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._topic = topic
        self._progress = report_progress
        self._entries_per_round = entries_per_round
        self.coordinators: Final = {
            broker_id: CoordinatorLogReading() for broker_id in coordinator_ids
        }
        self.logs: Final[dict[TopicPartition, PartitionLogReading]] = {}
        self.unread: Final[dict[TopicPartition, str]] = {}
        """Partition -> why it could not be read."""
        self.owners: Final[dict[int, tuple[str, int]]] = {}
        """Producer id -> (transactional id, coordinator)."""
        self.ledger: Final = DecisionLedger(self.reaches_of)
        self._since_ms = 0
        """Time of the oldest decision."""

    @property
    def kept(self) -> int:
        """How many decisions, markers and batches are kept."""
        batch_count = sum(
            len(producer_batches)
            for log_reading in self.logs.values()
            for producer_batches in log_reading.batches.values()
        )
        held_count = sum(
            len(log_reading.held_decisions) for log_reading in self.coordinators.values()
        )
        return self.ledger.kept_count + held_count + batch_count

    async def read_round(self) -> int | None:
        """Read on. Returns the time before which everything has been read; None at the end.

        Raises:
            ClientError: ``__transaction_state`` can't be read.
        """
        horizon_ms = await self._read_coordinators_on()
        if not self.logs:
            if any(
                log_reading.first_ms is None and not _is_at_end(log_reading)
                for log_reading in self.coordinators.values()
            ):
                return horizon_ms  # where to begin is not known yet
            times_ms = [
                log_reading.first_ms
                for log_reading in self.coordinators.values()
                if log_reading.first_ms
            ]
            self._since_ms = min(times_ms, default=0)
        for number, partition in enumerate(self._partitions, 1):
            if partition in self.unread:
                continue
            self._progress(f"reading {partition}, partition {number} of {len(self._partitions)}")
            try:
                await self._read_partition_on(partition, horizon_ms)
            except (ClientError, CorruptBatchError) as failure:
                self.unread[partition] = f"{partition} could not be read: {failure}"
                self.logs.pop(partition, None)
        return horizon_ms

    async def read_tails(self) -> None:
        """Read what the coordinators have written since the first reading: then each marker that
        was read has its decision. What is not complete yet counts as owed.
        """
        for number, log_reading in sorted(self.coordinators.items()):
            partition = TopicPartition(TRANSACTION_STATE_TOPIC, number)
            self._progress(f"reading {partition}")
            end_offset = await offset_of(self._cluster, partition, LATEST_TIMESTAMP)
            await self._read_entries(number, log_reading, end_offset, limit=None)
            for held_decision in log_reading.held_decisions.values():
                self._add_decision(held_decision)
            log_reading.held_decisions.clear()

    def settle(self, horizon_ms: int) -> Iterator[JudgedPlace]:
        """Judge what is certain, and forget it. Between two verdicts, the batches that are needed
        to tell about them are still there.
        """
        held_ids = {
            epoch_place.producer_id
            for log_reading in self.coordinators.values()
            for held_decision in log_reading.held_decisions.values()
            for epoch_place in held_decision.epoch_places
        }
        for judged_place in self.ledger.settle(horizon_ms, held_ids):
            yield judged_place
            log_reading = self.logs.get(judged_place.place.partition)
            if log_reading is not None and judged_place.verdict.markers:
                producer_id = judged_place.place.producer_id
                log_reading.judged_until[producer_id] = max(
                    log_reading.judged_until.get(producer_id, -1),
                    judged_place.verdict.markers[-1].offset,
                )
        self._prune()

    def reaches_of(self, epoch_place: EpochPlace) -> tuple[LogReach, LogReach]:
        """The reach of a place's partition and of its coordinator, as far as they were read."""
        log_reading = self.logs.get(epoch_place.partition)
        if log_reading is None:
            reason = self.unread.get(epoch_place.partition, f"there is no {epoch_place.partition}")
            partition_reach = LogReach.absent(reason)
        else:
            partition_reach = log_reading.reach(epoch_place.partition)
        id_and_coordinator = self.owners.get(epoch_place.producer_id)
        if id_and_coordinator is not None:
            return partition_reach, self.coordinators[id_and_coordinator[1]].reach
        if not self.coordinators:
            return partition_reach, LogReach.absent("there is no __transaction_state")
        reaches = [log_reading.reach for log_reading in self.coordinators.values()]
        return partition_reach, max(reaches, key=lambda reach: reach.since_ms)

    # Coordinators

    async def _read_coordinators_on(self) -> int | None:
        """Read the logs that are furthest behind; returns the time up to which all are read."""
        behind_ms = min(
            (
                log_reading.last_ms or 0
                for log_reading in self.coordinators.values()
                if not _is_at_end(log_reading)
            ),
            default=0,
        )
        for number, log_reading in sorted(self.coordinators.items()):
            partition = TopicPartition(TRANSACTION_STATE_TOPIC, number)
            if log_reading.next_offset < 0:
                log_reading.next_offset = await offset_of(
                    self._cluster, partition, EARLIEST_TIMESTAMP
                )
                log_reading.first_read_end = await offset_of(
                    self._cluster, partition, LATEST_TIMESTAMP
                )
                log_reading.lacks_below(log_reading.next_offset)
            if not _is_at_end(log_reading) and (log_reading.last_ms or 0) <= behind_ms:
                self._progress(f"reading {partition}")
                await self._read_entries(
                    number, log_reading, log_reading.first_read_end, limit=self._entries_per_round
                )
        return min(
            (
                log_reading.last_ms or 0
                for log_reading in self.coordinators.values()
                if not _is_at_end(log_reading)
            ),
            default=None,
        )

    async def _read_entries(
        self,
        coordinator_index: int,
        log_reading: CoordinatorLogReading,
        end_offset: int,
        *,
        limit: int | None,
    ) -> None:
        partition = TopicPartition(TRANSACTION_STATE_TOPIC, coordinator_index)
        stop_offset = (
            end_offset if limit is None else min(end_offset, log_reading.next_offset + limit)
        )
        if log_reading.next_offset >= stop_offset:
            return
        async for batch in fetch_batches(
            self._cluster, partition, log_reading.next_offset, stop_offset
        ):
            try:
                self._take_entries(coordinator_index, log_reading, batch)
            except CorruptLogRecordError as error:
                raise ClientError(f"{partition}: {error}") from error
        if (
            log_reading.next_offset < stop_offset
        ):  # up to there nothing is left, or a transaction's marker
            log_reading.next_offset = stop_offset
            if stop_offset < end_offset:
                log_reading.lacks_below(stop_offset)

    def _take_entries(
        self, coordinator_index: int, log_reading: CoordinatorLogReading, batch: FetchedBatch
    ) -> None:
        header = batch.header
        for record in () if header.is_control else read_records(batch.data):
            if record.offset < log_reading.next_offset:
                continue
            if record.offset > log_reading.next_offset:
                log_reading.lacks_below(record.offset)
            log_reading.next_offset = record.offset + 1
            decoded_record = (
                None
                if record.key is None
                else decode_record(record.key, record.value, release_rules=LATEST_RULES)
            )
            if decoded_record is None:
                continue
            transition = decoded_record if isinstance(decoded_record, TxnTransition) else None
            at_ms = header.max_timestamp_ms
            if transition is not None:
                at_ms = transition.last_update_timestamp_ms
            self._take_entry(
                coordinator_index,
                log_reading,
                _Entry(record.offset, decoded_record.transactional_id, at_ms, transition),
            )
            if (
                not log_reading.epochs
                or log_reading.epochs[-1].coordinator_epoch != header.leader_epoch
            ):
                log_reading.epochs.append(
                    EpochStart(header.leader_epoch, record.offset, at_ms, log_reading.last_ms)
                )
            log_reading.since_ms = at_ms if log_reading.since_ms is None else log_reading.since_ms
            log_reading.first_ms = at_ms if log_reading.first_ms is None else log_reading.first_ms
            log_reading.last_ms = at_ms
        if header.last_offset >= log_reading.next_offset:  # what stood there is cleaned away
            log_reading.next_offset = header.last_offset + 1
            log_reading.lacks_below(log_reading.next_offset)

    def _take_entry(
        self, coordinator_index: int, log_reading: CoordinatorLogReading, entry: _Entry
    ) -> None:
        held_decision = log_reading.held_decisions.pop(entry.transactional_id, None)
        if held_decision is not None:
            # What was complete after the first reading may have been marked after the partition
            # was read.
            is_completed = entry.offset < log_reading.first_read_end
            self._add_decision(held_decision, completed_ms=entry.at_ms if is_completed else None)
        transition = entry.transition
        if transition is None:
            return
        for producer_id in (
            transition.prev_producer_id,
            transition.next_producer_id,
            transition.producer_id,
        ):
            self.owners[producer_id] = entry.transactional_id, coordinator_index
        is_commit = _DECISIONS.get(transition.state.wire_name)
        if is_commit is None:
            return
        log_reading.held_decisions[entry.transactional_id] = _HeldDecision(
            epoch_places=[
                EpochPlace(transition.producer_id, transition.producer_epoch, partition)
                for partition in sorted(transition.partitions)
                if self._topic in (None, partition.topic)
            ],
            decision=AuditedDecision(
                coordinator=coordinator_index,
                offset=entry.offset,
                at_ms=entry.at_ms,
                is_commit=is_commit,
                by_epoch=transition.client_version >= 2,
            ),
        )

    def _add_decision(
        self, held_decision: _HeldDecision, *, completed_ms: int | None = None
    ) -> None:
        decision = msgspec.structs.replace(held_decision.decision, completed_ms=completed_ms)
        for epoch_place in held_decision.epoch_places:
            self.ledger.add_decision(epoch_place, decision)

    # Partitions

    async def _read_partition_on(self, partition: TopicPartition, horizon_ms: int | None) -> None:
        """Read a partition up to a marker that is later than a time, or to its end."""
        log_reading = self.logs.get(partition)
        end_offset = await offset_of(self._cluster, partition, LATEST_TIMESTAMP)
        if log_reading is None:
            log_reading = await self._start_of_partition_log(partition, end_offset)
        if log_reading.next_offset >= end_offset:
            return
        async for batch in fetch_batches(
            self._cluster, partition, log_reading.next_offset, end_offset
        ):
            marker_ms = self._take_batch(partition, log_reading, batch)
            if horizon_ms is not None and marker_ms is not None and marker_ms > horizon_ms:
                return

    async def _start_of_partition_log(
        self, partition: TopicPartition, end_offset: int
    ) -> PartitionLogReading:
        log_start = await offset_of(self._cluster, partition, EARLIEST_TIMESTAMP)
        since_ms = self._since_ms - SKEW_MS
        # -1 where nothing is as late.
        start_offset = (
            await offset_of(self._cluster, partition, since_ms) if since_ms > 0 else log_start
        )
        leader = await self._cluster.leader(partition)
        log_reading = PartitionLogReading(
            next_offset=end_offset if start_offset < 0 else start_offset,
            complete_from=log_start,
            start_offset=log_start,
            leader_epoch=leader.leader_epoch,
        )
        self.logs[partition] = log_reading
        return log_reading

    def _take_batch(
        self, partition: TopicPartition, log_reading: PartitionLogReading, batch: FetchedBatch
    ) -> int | None:
        """Take a batch; returns its time if it is a marker."""
        header = batch.header
        is_thinned = header.records_count <= header.last_offset - header.base_offset
        if header.base_offset > log_reading.next_offset or is_thinned:
            log_reading.complete_from = (
                header.base_offset if not is_thinned else header.last_offset + 1
            )
            log_reading.first_marker_ms = None
        log_reading.next_offset = header.last_offset + 1
        if header.producer_id < 0 or not header.is_transactional:
            return None
        control = read_control_record(batch.data) if header.is_control else None
        if header.is_control and (control is None or not control.is_marker):
            return None
        is_commit = control is not None and control.type == COMMIT
        _note_batch(log_reading, batch, is_commit=is_commit)
        if control is None:
            return None
        if log_reading.first_marker_ms is None:
            log_reading.first_marker_ms = header.max_timestamp_ms
        self.ledger.add_marker(
            EpochPlace(header.producer_id, header.producer_epoch, partition),
            AuditedMarker(
                offset=header.base_offset,
                at_ms=header.max_timestamp_ms,
                is_commit=is_commit,
                coordinator_epoch=control.coordinator_epoch,
            ),
        )
        return header.max_timestamp_ms

    def _prune(self) -> None:
        """Forget the batches of transactions that are judged."""
        unmarked_epochs = self.ledger.unmarked_epochs()
        for partition, log_reading in self.logs.items():
            for producer_id, marker_offset in log_reading.judged_until.items():
                if producer_id in log_reading.epochs_back:
                    continue
                kept_epochs = unmarked_epochs.get((producer_id, partition), frozenset())
                log_reading.batches[producer_id] = [
                    *_batches_of_epochs(
                        log_reading.batches[producer_id], kept_epochs, marker_offset
                    ),
                    *(
                        batch
                        for batch in log_reading.batches[producer_id]
                        if batch.base_offset >= marker_offset
                    ),
                ]
            log_reading.judged_until.clear()


class _Entry(NamedTuple):
    """A record of ``__transaction_state``."""

    offset: int
    transactional_id: str
    at_ms: int
    transition: TxnTransition | None
    """None for a tombstone."""


def _is_at_end(log_reading: CoordinatorLogReading) -> bool:
    return log_reading.next_offset >= log_reading.first_read_end >= 0


def _batches_of_epochs(
    batches: Sequence[ProducerBatch], epochs: Set[int], before_offset: int
) -> Iterator[ProducerBatch]:
    """Of the batches below an offset the records of decisions without a marker, each stay with the
    marker that ended it. By transactions v2 records have the epoch of their decision, less one.
    """
    is_needed = False
    for batch in batches:
        if batch.base_offset >= before_offset:
            return
        if not batch.is_control:
            is_needed = batch.producer_epoch + 1 in epochs or batch.producer_epoch in epochs
        if is_needed:
            yield batch
        if batch.is_control:
            is_needed = False


def _note_batch(log_reading: PartitionLogReading, batch: FetchedBatch, *, is_commit: bool) -> None:
    """Keep what is needed of a batch, and the producer's epoch."""
    header = batch.header
    producer_batch = ProducerBatch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        producer_epoch=header.producer_epoch,
        is_control=header.is_control,
        is_commit=is_commit,
        record_count=header.records_count,
        max_timestamp_ms=header.max_timestamp_ms,
        leader_epoch=header.leader_epoch,
    )
    newest_epoch = log_reading.newest_epochs.get(header.producer_id, -1)
    if header.producer_epoch < newest_epoch and not header.is_control:
        log_reading.epochs_back[header.producer_id] = newest_epoch
    log_reading.newest_epochs[header.producer_id] = max(newest_epoch, header.producer_epoch)
    batches = log_reading.batches.setdefault(header.producer_id, [])
    if batches and _are_of_one_stay(batches[-1], producer_batch):
        batches[-1] = msgspec.structs.replace(
            producer_batch,
            base_offset=batches[-1].base_offset,
            record_count=batches[-1].record_count + producer_batch.record_count,
        )
    else:
        batches.append(producer_batch)


def _are_of_one_stay(batch: ProducerBatch, next_batch: ProducerBatch) -> bool:
    """Whether two batches of a producer may be put together: data of one epoch and millisecond."""
    return (
        not batch.is_control
        and not next_batch.is_control
        and batch.producer_epoch == next_batch.producer_epoch
        and batch.leader_epoch == next_batch.leader_epoch
        and batch.max_timestamp_ms == next_batch.max_timestamp_ms
    )
