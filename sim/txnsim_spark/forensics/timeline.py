"""The history of one transactional id, from two sides: the records of its coordinator, and the logs
of the partitions. Both are merged in order of time. Different brokers wrote them, so they may
disagree. A hanging transaction is such a disagreement. A marker may differ from the decision, a
transaction may be open after the coordinator has finished, or a partition may lack its marker. The
timeline lists these facts as they are, and does not decide which side is right. Kafka's
counterparts: TransactionLog, TransactionMetadata, ProducerStateManager.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import pairwise
from typing import Final

import msgspec

from txnsim.txn.decision_audit import (
    AuditedDecision,
    AuditedMarker,
    AuditState,
    LogReach,
    audit_epoch,
)
from txnsim.types import TopicPartition, TransactionVersion
from txnsim_spark.forensics.identity import Stale

NO_ID: Final = -1
DECISIONS: Final = {"PrepareCommit": True, "PrepareAbort": False}
"""State in which the coordinator has decided -> whether it commits."""
COMPLETE: Final = frozenset({"CompleteCommit", "CompleteAbort"})
EVENT_RANKS: Final = {
    "Empty": 0,
    "Ongoing": 0,
    "first": 1,
    "last": 1,
    "PrepareCommit": 2,
    "PrepareAbort": 2,
}
"""Order of events within a millisecond; those that are not named come last."""
_Epoch = tuple[int, int]
"""Producer id and producer epoch."""
_Place = tuple[TopicPartition, _Epoch]


class CoordinatorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of ``__transaction_state`` about the id."""

    brokers: tuple[int, ...]
    """Brokers whose replicas hold the record."""
    partition: int
    offset: int
    timestamp_ms: int = -1
    """Time of the append; CompleteCommit has the time at which it was prepared."""
    state: str | None = None
    """The transaction's state; None for a tombstone."""
    producer_id: int = NO_ID
    producer_epoch: int = -1
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    partitions: tuple[TopicPartition, ...] = ()
    start_timestamp_ms: int | None = None
    client_transaction_version: int | None = None

    @property
    def commits(self) -> bool | None:
        """True for a commit decision, False for an abort, None for other records."""
        return DECISIONS.get(self.state or "")


class PartitionTxn(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction on one partition: first record, last record, marker."""

    brokers: tuple[int, ...]
    """Brokers whose replicas agree; other replicas may be behind."""
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    """Epoch of the data; of the marker for a transaction without data."""
    first_offset: int | None
    """Offset of the first record; None if the marker ended nothing."""
    last_offset: int | None
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    records: int
    marker_offset: int | None
    """Offset of the marker; None while the transaction is open."""
    marker_epoch: int | None
    marker_timestamp_ms: int | None
    committed: bool | None
    coordinator_epoch: int | None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the timeline."""

    timestamp_ms: int
    source: str
    """``coordinator`` or ``partition``: who wrote it."""
    event: str
    """A state, ``Tombstone``, ``first``, ``last``, ``marker``."""
    topic: str
    partition: int
    offset: int
    brokers: tuple[int, ...]
    text: str
    """The event as a sentence."""
    producer_id: int
    producer_epoch: int
    added: tuple[TopicPartition, ...] = ()
    """Partitions that this record adds to the transaction."""
    committed: bool | None = None
    coordinator_epoch: int | None = None
    after_decision_ms: int | None = None


class OpenStay(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction without a marker."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    first_timestamp_ms: int
    brokers: tuple[int, ...]
    state: str | None
    """State in the coordinator's newest record of this id; None if there is none."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The history of a transactional id."""

    transactional_id: str
    producer_ids: tuple[int, ...]
    coordinator_partition: int | None
    events: tuple[Event, ...]
    open: tuple[OpenStay, ...]
    disagreements: tuple[str, ...]
    """Where the two sides, or replicas, contradict each other."""
    stale: tuple[Stale, ...] = ()
    """Replicas of topics that were deleted; they are left out."""
    problems: tuple[str, ...] = ()
    """Unreadable files, whose events may be missing here."""


def timeline_of(
    transactional_id: str, records: Sequence[CoordinatorRecord], txns: Sequence[PartitionTxn]
) -> Timeline:
    """Merge both sides in order of time.

    Args:
        transactional_id: The transactional id.
        records: The coordinator's records, by offset.
        txns: The transactions of all its producer ids on the partitions.
    """
    paired_decisions = _Decisions(records, txns)
    events = [*_coordinator_events(records)]
    for txn in txns:
        events += _stay_events(txn, paired_decisions)
    newest_state = records[-1].state if records else None
    return Timeline(
        transactional_id=transactional_id,
        producer_ids=producer_ids_of(records),
        coordinator_partition=records[0].partition if records else None,
        events=_ordered_events(events),
        open=tuple(_open_stay(txn, newest_state) for txn in txns if txn.marker_offset is None),
        disagreements=tuple(dict.fromkeys(_find_disagreements(records, txns, paired_decisions))),
    )


def producer_ids_of(records: Iterable[CoordinatorRecord]) -> tuple[int, ...]:
    """Every producer id that the coordinator ever gave to the transactional id."""
    named_ids = (
        producer_id
        for record in records
        for producer_id in (
            record.producer_id,
            record.previous_producer_id,
            record.next_producer_id,
        )
    )
    return tuple(sorted({producer_id for producer_id in named_ids if producer_id != NO_ID}))


class _Decisions:
    """The decision that each marker carries out, as ``txn.decision_audit`` pairs them, epoch by
    epoch on each partition. A marker that fits no decision about its partition may carry out one
    that does not list it.
    """

    def __init__(self, records: Sequence[CoordinatorRecord], txns: Sequence[PartitionTxn]) -> None:
        self._record_by_offset = {record.offset: record for record in records}
        self._next_time_by_offset = {
            record.offset: next_record.timestamp_ms for record, next_record in pairwise(records)
        }
        self._record_by_marker: dict[tuple[TopicPartition, int], CoordinatorRecord] = {}
        self._unmarked_places: set[tuple[int, TopicPartition]] = set()
        decisions_by_epoch: defaultdict[_Epoch, list[CoordinatorRecord]] = defaultdict(list)
        decisions_by_place: defaultdict[_Place, list[CoordinatorRecord]] = defaultdict(list)
        read_partitions = {txn.topic_partition for txn in txns}
        for record in records:
            if record.commits is not None:
                epoch = (record.producer_id, record.producer_epoch)
                decisions_by_epoch[epoch].append(record)
                for partition in read_partitions.intersection(record.partitions):
                    decisions_by_place[partition, epoch].append(record)
        markers_by_place: defaultdict[_Place, list[AuditedMarker]] = defaultdict(list)
        for txn in sorted(txns, key=lambda txn: txn.marker_offset or 0):
            if txn.marker_offset is not None and txn.marker_epoch is not None:
                place = (txn.topic_partition, (txn.producer_id, txn.marker_epoch))
                markers_by_place[place].append(_audited_marker(txn))
        for place in decisions_by_place.keys() | markers_by_place.keys():
            partition, epoch = place
            lone_markers = self._pair(
                partition, decisions_by_place[place], markers_by_place[place], lists_partition=True
            )
            if lone_markers:
                other_decisions = [
                    decision
                    for decision in decisions_by_epoch[epoch]
                    if partition not in decision.partitions
                ]
                self._pair(partition, other_decisions, lone_markers, lists_partition=False)

    def _pair(
        self,
        partition: TopicPartition,
        decisions: Iterable[CoordinatorRecord],
        markers: Sequence[AuditedMarker],
        *,
        lists_partition: bool,
    ) -> list[AuditedMarker]:
        """Pair decisions of an epoch with markers; returns the markers that belong to none."""
        audited_decisions = [
            _audited_decision(decision, self._next_time_by_offset.get(decision.offset))
            for decision in decisions
        ]
        lone_markers: list[AuditedMarker] = []
        for verdict in audit_epoch(
            audited_decisions,
            markers,
            partition_reach=LogReach(),
            coordinator_reach=LogReach(),
        ):
            if verdict.decision is None:
                lone_markers += verdict.markers
                continue
            if verdict.state is AuditState.NO_MARKER and lists_partition:
                self._unmarked_places.add((verdict.decision.offset, partition))
            for marker in verdict.markers:
                record = self._record_by_offset[verdict.decision.offset]
                self._record_by_marker[partition, marker.offset] = record
        return lone_markers

    def about(self, txn: PartitionTxn) -> CoordinatorRecord | None:
        """The decision that the marker of a transaction on a partition carries out, if the log
        still has it.
        """
        if txn.marker_offset is None:
            return None
        return self._record_by_marker.get((txn.topic_partition, txn.marker_offset))

    def has_no_marker(self, decision: CoordinatorRecord, partition: TopicPartition) -> bool:
        """Whether a decision was carried out elsewhere, and a partition lacks its marker."""
        return (decision.offset, partition) in self._unmarked_places


def _audited_decision(decision: CoordinatorRecord, completed_ms: int | None) -> AuditedDecision:
    return AuditedDecision(
        coordinator=decision.partition,
        offset=decision.offset,
        at_ms=decision.timestamp_ms,
        is_commit=decision.commits is True,
        by_epoch=(decision.client_transaction_version or 0) >= TransactionVersion.TV_2,
        completed_ms=completed_ms,
    )


def _audited_marker(txn: PartitionTxn) -> AuditedMarker:
    assert txn.marker_offset is not None
    return AuditedMarker(
        offset=txn.marker_offset,
        at_ms=-1 if txn.marker_timestamp_ms is None else txn.marker_timestamp_ms,
        is_commit=txn.committed is True,
    )


# Events


def _ordered_events(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events by time, but never against the order of one log: clients choose the timestamps of
    data, and these may be wrong.
    """
    events_by_log: defaultdict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in events:
        events_by_log[event.topic, event.partition].append(event)
    timed_events_by_log = [
        _timed_log(sorted(events_by_log[log], key=lambda event: event.offset))
        for log in sorted(events_by_log)
    ]
    # Only the fronts of the logs are compared, so each keeps its order.
    return tuple(
        event for *_, event in merge(*timed_events_by_log, key=lambda timed_event: timed_event[:2])
    )


def _timed_log(log: Iterable[Event]) -> Iterator[tuple[int, int, Event]]:
    latest_ms = -1
    for event in log:
        latest_ms = max(latest_ms, event.timestamp_ms)
        yield latest_ms, EVENT_RANKS.get(event.event, 3), event


def _coordinator_events(records: Sequence[CoordinatorRecord]) -> Iterator[Event]:
    record_before: CoordinatorRecord | None = None
    for record in records:
        added_partitions = _added_partitions(record_before, record)
        yield Event(
            timestamp_ms=record.timestamp_ms,
            source="coordinator",
            event=record.state or "Tombstone",
            topic="__transaction_state",
            partition=record.partition,
            offset=record.offset,
            brokers=record.brokers,
            text=_record_text(record_before, record, added_partitions),
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            added=added_partitions,
            committed=record.commits,
        )
        record_before = record


def _added_partitions(
    record_before: CoordinatorRecord | None, record: CoordinatorRecord
) -> tuple[TopicPartition, ...]:
    if record.state != "Ongoing":
        return ()
    listed_before = (
        record_before.partitions
        if record_before is not None and record_before.state == "Ongoing"
        else ()
    )
    return tuple(partition for partition in record.partitions if partition not in listed_before)


def _record_text(
    record_before: CoordinatorRecord | None,
    record: CoordinatorRecord,
    added_partitions: Sequence[TopicPartition],
) -> str:
    phrases: list[str] = []
    match record.state:
        case None:
            return "the coordinator forgets the transactional id"
        case "Empty":
            phrases.append("InitProducerId")
        case "Ongoing" if record_before is None or record_before.state != "Ongoing":
            phrases.append("the transaction begins")
        case "PrepareCommit" | "PrepareAbort":
            ending_word = "commit" if record.commits else "abort"
            started_ms = record.start_timestamp_ms
            delay_text = (
                ""
                if started_ms is None
                else f", {record.timestamp_ms - started_ms} ms after its beginning"
            )
            phrases.append(f"decided to {ending_word}{delay_text}")
        case "CompleteCommit" | "CompleteAbort":
            phrases.append("every partition has its marker")
        case _:
            pass
    if added_partitions:
        phrases.append(f"added {', '.join(map(str, added_partitions))}")
    phrases += _changed_ids(record_before, record)
    return "; ".join(phrases) or "written again"


def _changed_ids(
    record_before: CoordinatorRecord | None, record: CoordinatorRecord
) -> Iterator[str]:
    """Changes of producer id and epoch between two records, in words."""
    if record_before is None or record_before.state is None:
        yield f"producer {record.producer_id} epoch {record.producer_epoch}"
    elif record_before.producer_id != record.producer_id:
        yield (
            f"producer {record_before.producer_id} -> {record.producer_id},"
            f" epoch {record.producer_epoch}"
        )
    elif record_before.producer_epoch != record.producer_epoch:
        yield f"epoch {record_before.producer_epoch} -> {record.producer_epoch}"


def _stay_events(txn: PartitionTxn, paired_decisions: _Decisions) -> Iterator[Event]:
    if txn.first_offset is not None and txn.last_offset is not None:
        yield _stay_event(
            txn,
            "first",
            txn.first_timestamp_ms,
            txn.first_offset,
            f"first record (epoch {txn.producer_epoch})",
        )
        yield _stay_event(
            txn,
            "last",
            txn.last_timestamp_ms,
            txn.last_offset,
            _record_count_text(txn.records),
        )
    if txn.marker_offset is None:
        return
    decision = paired_decisions.about(txn)
    after_decision_ms = None
    if decision is not None and txn.marker_timestamp_ms is not None:
        after_decision_ms = txn.marker_timestamp_ms - decision.timestamp_ms
    phrases = [
        f"{'COMMIT' if txn.committed else 'ABORT'}, coordinator epoch {txn.coordinator_epoch}"
    ]
    if after_decision_ms is not None:
        phrases.append(f"{after_decision_ms} ms after the decision")
    if txn.first_offset is None:
        phrases.append("nothing was written here")
    event = _stay_event(
        txn, "marker", txn.marker_timestamp_ms, txn.marker_offset, ", ".join(phrases)
    )
    yield msgspec.structs.replace(
        event,
        producer_epoch=-1 if txn.marker_epoch is None else txn.marker_epoch,
        committed=txn.committed,
        coordinator_epoch=txn.coordinator_epoch,
        after_decision_ms=after_decision_ms,
    )


def _record_count_text(record_count: int) -> str:
    match record_count:
        case 0:
            return "last record; the cleaner has taken it"
        case 1:
            return "the only record"
        case _:
            return f"last of {record_count} records"


def _stay_event(
    txn: PartitionTxn, event: str, timestamp_ms: int | None, offset: int, text: str
) -> Event:
    return Event(
        timestamp_ms=-1 if timestamp_ms is None else timestamp_ms,
        source="partition",
        event=event,
        topic=txn.topic,
        partition=txn.partition,
        offset=offset,
        brokers=txn.brokers,
        text=text,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
    )


def _open_stay(txn: PartitionTxn, state: str | None) -> OpenStay:
    assert txn.first_offset is not None
    return OpenStay(
        topic=txn.topic,
        partition=txn.partition,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        first_offset=txn.first_offset,
        first_timestamp_ms=-1 if txn.first_timestamp_ms is None else txn.first_timestamp_ms,
        brokers=txn.brokers,
        state=state,
    )


# Disagreements


def _find_disagreements(
    records: Sequence[CoordinatorRecord], txns: Sequence[PartitionTxn], paired_decisions: _Decisions
) -> Iterator[str]:
    newest_record = records[-1] if records else None
    for txn in txns:
        place_text = f"{txn.topic_partition}"
        if txn.marker_offset is None:
            for text in _open_problems(txn, newest_record):
                yield f"{text}{_earlier_marker_remark(txn, records, txns, paired_decisions)}"
            continue
        decision = paired_decisions.about(txn)
        if decision is None:
            continue  # compacted away, or an operator's marker
        if decision.commits != txn.committed:
            yield (
                f"{place_text}: the marker at offset {txn.marker_offset} "
                f"{'commits' if txn.committed else 'aborts'}, the coordinator had decided to "
                f"{'commit' if decision.commits else 'abort'} (offset {decision.offset})"
            )
        if txn.first_offset is not None and txn.topic_partition not in decision.partitions:
            yield (
                f"{place_text}: records from offset {txn.first_offset} on were ended at "
                f"{txn.marker_offset}, but the partition is not among those of the transaction"
            )
    yield from _completed_without_marker(records, paired_decisions)


def _open_problems(txn: PartitionTxn, newest_record: CoordinatorRecord | None) -> Iterator[str]:
    open_text = f"{txn.topic_partition}: open since offset {txn.first_offset}"
    if newest_record is None or newest_record.state is None:
        yield f"{open_text}; the coordinator knows nothing of it"
    elif (
        newest_record.producer_id != txn.producer_id
        or newest_record.producer_epoch < txn.producer_epoch
    ):
        yield (
            f"{open_text} by producer {txn.producer_id} epoch {txn.producer_epoch}; the"
            " coordinator "
            f"has producer {newest_record.producer_id} epoch {newest_record.producer_epoch},"
            f" {newest_record.state}"
        )
    elif newest_record.state not in ("Ongoing", *DECISIONS):
        yield f"{open_text}; for the coordinator it is {newest_record.state}"
    elif txn.topic_partition not in newest_record.partitions:
        yield (
            f"{open_text}; the partition is not among those of the transaction"
            f" ({newest_record.state})"
        )


def _earlier_marker_remark(
    txn: PartitionTxn,
    records: Sequence[CoordinatorRecord],
    txns: Sequence[PartitionTxn],
    paired_decisions: _Decisions,
) -> str:
    """The remark that the last decision on the partition has its marker before the open records;
    empty if it has not.
    """
    assert txn.first_offset is not None
    partition_decisions = [
        record
        for record in records
        if record.commits is not None
        and record.producer_id == txn.producer_id
        and txn.topic_partition in record.partitions
    ]
    for earlier_txn in txns:
        precedes_first_record = (
            earlier_txn.topic_partition == txn.topic_partition
            and earlier_txn.marker_offset is not None
            and earlier_txn.marker_offset < txn.first_offset
        )
        if (
            precedes_first_record
            and partition_decisions
            and paired_decisions.about(earlier_txn) is partition_decisions[-1]
        ):
            return (
                f"; the marker at offset {earlier_txn.marker_offset} carried out the last"
                " decision with"
                f" this partition (offset {partition_decisions[-1].offset}), so these records"
                " were in no"
                " transaction"
            )
    return ""


def _completed_without_marker(
    records: Sequence[CoordinatorRecord], paired_decisions: _Decisions
) -> Iterator[str]:
    """Sentences on transactions that the coordinator has completed although a log among the
    directories lacks their marker.
    """
    for decision, record in pairwise(records):
        if record.state not in COMPLETE:
            continue
        for partition in decision.partitions:
            if paired_decisions.has_no_marker(decision, partition):
                yield (
                    f"{partition}: no marker of the transaction that the coordinator has as "
                    f"{record.state} (offset {record.offset})"
                )
