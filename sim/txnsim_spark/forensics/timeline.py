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

from txnsim.types import TopicPartition
from txnsim_spark.forensics.identity import Stale

NO_ID: Final = -1
DECISIONS: Final = {"PrepareCommit": True, "PrepareAbort": False}
"""State in which the coordinator has decided -> whether it commits."""
COMPLETE: Final = frozenset({"CompleteCommit", "CompleteAbort"})
RANKS: Final = {
    "Empty": 0,
    "Ongoing": 0,
    "first": 1,
    "last": 1,
    "PrepareCommit": 2,
    "PrepareAbort": 2,
}
"""Order of events within a millisecond; those that are not named come last."""
SKEW_MS: Final = 1_000
"""Limit by which a marker's time may precede its decision, since the clocks of two brokers
differ.
"""


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

    @property
    def commits(self) -> bool | None:
        """True for a commit decision, False for an abort, None for other records."""
        return DECISIONS.get(self.state or "")


class Stay(msgspec.Struct, frozen=True, kw_only=True):
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
    transactional_id: str, records: Sequence[CoordinatorRecord], stays: Sequence[Stay]
) -> Timeline:
    """Merge both sides in order of time.

    Args:
        transactional_id: The transactional id.
        records: The coordinator's records, by offset.
        stays: The transactions of all its producer ids on the partitions.
    """
    decided = _Decisions(records, stays)
    events = [*_coordinator_events(records)]
    for stay in stays:
        events += _stay_events(stay, decided)
    newest = records[-1].state if records else None
    return Timeline(
        transactional_id=transactional_id,
        producer_ids=producer_ids_of(records),
        coordinator_partition=records[0].partition if records else None,
        events=_in_order(events),
        open=tuple(_open(stay, newest) for stay in stays if stay.marker_offset is None),
        disagreements=tuple(dict.fromkeys(_disagreements(records, stays, decided))),
    )


def producer_ids_of(records: Iterable[CoordinatorRecord]) -> tuple[int, ...]:
    """Every producer id that the coordinator ever gave to the transactional id."""
    named = (
        producer_id
        for record in records
        for producer_id in (
            record.producer_id,
            record.previous_producer_id,
            record.next_producer_id,
        )
    )
    return tuple(sorted({producer_id for producer_id in named if producer_id != NO_ID}))


class _Decisions:
    """Pairs each marker with the decision that it carries out.

    Before transactions v2 an epoch has many transactions. So markers and decisions of an epoch are
    matched backwards, from the end of both logs. A marker belongs to the latest decision that names
    its partition, is not newer than the marker, and is not taken by a later marker there. A marker
    that ended nothing may be a repeated one, and takes none away.
    """

    def __init__(self, records: Iterable[CoordinatorRecord], stays: Iterable[Stay]) -> None:
        self._made: defaultdict[tuple[int, int], list[CoordinatorRecord]] = defaultdict(list)
        for record in records:
            if record.commits is not None:
                self._made[record.producer_id, record.producer_epoch].append(record)
        ended = [stay for stay in stays if stay.marker_offset is not None]
        self._of: dict[tuple[TopicPartition, int | None], CoordinatorRecord] = {}
        bounds: dict[tuple[TopicPartition, int, int | None], int] = {}
        for stay in sorted(ended, key=lambda stay: stay.marker_offset or 0, reverse=True):
            whose = (stay.topic_partition, stay.producer_id, stay.marker_epoch)
            latest = self._latest(stay, bounds.get(whose))
            if latest is None:
                continue
            number, decision = latest
            self._of[stay.topic_partition, stay.marker_offset] = decision
            if stay.first_offset is not None:
                bounds[whose] = number

    def about(self, stay: Stay) -> CoordinatorRecord | None:
        """The decision that the marker of a transaction on a partition carries out, if the log
        still has it.
        """
        return self._of.get((stay.topic_partition, stay.marker_offset))

    def _latest(self, stay: Stay, bound: int | None) -> tuple[int, CoordinatorRecord] | None:
        """(decision, its number): the latest one below a bound that fits a transaction on a
        partition.
        """
        epoch = -1 if stay.marker_epoch is None else stay.marker_epoch
        decisions = self._made.get((stay.producer_id, epoch), [])
        end = len(decisions) if bound is None else bound
        at_ms = -1 if stay.marker_timestamp_ms is None else stay.marker_timestamp_ms
        for names_it in (True, False):
            late: int | None = None
            for number in range(end - 1, -1, -1):
                decision = decisions[number]
                if names_it and stay.topic_partition not in decision.partitions:
                    continue
                if decision.timestamp_ms <= at_ms:
                    return number, decision
                if decision.timestamp_ms <= at_ms + SKEW_MS:
                    late = number  # the earliest of those that only another clock explains
            if late is not None:
                return late, decisions[late]
        return None


# Events


def _in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events by time, but never against the order of one log: clients choose the timestamps of
    data, and these may be wrong.
    """
    logs: defaultdict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in events:
        logs[event.topic, event.partition].append(event)
    placed = [
        _with_places(sorted(logs[log], key=lambda event: event.offset)) for log in sorted(logs)
    ]
    # Only the fronts of the logs are compared, so each keeps its order.
    return tuple(event for *_, event in merge(*placed, key=lambda timed_event: timed_event[:2]))


def _with_places(log: Iterable[Event]) -> Iterator[tuple[int, int, Event]]:
    at_ms = -1
    for event in log:
        at_ms = max(at_ms, event.timestamp_ms)
        yield at_ms, RANKS.get(event.event, 3), event


def _coordinator_events(records: Sequence[CoordinatorRecord]) -> Iterator[Event]:
    record_before: CoordinatorRecord | None = None
    for record in records:
        added = _added_partitions(record_before, record)
        yield Event(
            timestamp_ms=record.timestamp_ms,
            source="coordinator",
            event=record.state or "Tombstone",
            topic="__transaction_state",
            partition=record.partition,
            offset=record.offset,
            brokers=record.brokers,
            text=_text_of(record_before, record, added),
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            added=added,
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


def _text_of(
    record_before: CoordinatorRecord | None,
    record: CoordinatorRecord,
    added: Sequence[TopicPartition],
) -> str:
    parts: list[str] = []
    match record.state:
        case None:
            return "the coordinator forgets the transactional id"
        case "Empty":
            parts.append("InitProducerId")
        case "Ongoing" if record_before is None or record_before.state != "Ongoing":
            parts.append("the transaction begins")
        case "PrepareCommit" | "PrepareAbort":
            outcome = "commit" if record.commits else "abort"
            since = record.start_timestamp_ms
            delay_text = (
                "" if since is None else f", {record.timestamp_ms - since} ms after its beginning"
            )
            parts.append(f"decided to {outcome}{delay_text}")
        case "CompleteCommit" | "CompleteAbort":
            parts.append("every partition has its marker")
        case _:
            pass
    if added:
        parts.append(f"added {', '.join(map(str, added))}")
    parts += _changed_ids(record_before, record)
    return "; ".join(parts) or "written again"


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


def _stay_events(stay: Stay, decided: _Decisions) -> Iterator[Event]:
    if stay.first_offset is not None and stay.last_offset is not None:
        yield _stay_event(
            stay,
            "first",
            stay.first_timestamp_ms,
            stay.first_offset,
            f"first record (epoch {stay.producer_epoch})",
        )
        yield _stay_event(
            stay,
            "last",
            stay.last_timestamp_ms,
            stay.last_offset,
            _count_of(stay.records),
        )
    if stay.marker_offset is None:
        return
    decision = decided.about(stay)
    after_decision_ms = None
    if decision is not None and stay.marker_timestamp_ms is not None:
        after_decision_ms = stay.marker_timestamp_ms - decision.timestamp_ms
    parts = [
        f"{'COMMIT' if stay.committed else 'ABORT'}, coordinator epoch {stay.coordinator_epoch}"
    ]
    if after_decision_ms is not None:
        parts.append(f"{after_decision_ms} ms after the decision")
    if stay.first_offset is None:
        parts.append("nothing was written here")
    event = _stay_event(
        stay, "marker", stay.marker_timestamp_ms, stay.marker_offset, ", ".join(parts)
    )
    yield msgspec.structs.replace(
        event,
        producer_epoch=-1 if stay.marker_epoch is None else stay.marker_epoch,
        committed=stay.committed,
        coordinator_epoch=stay.coordinator_epoch,
        after_decision_ms=after_decision_ms,
    )


def _count_of(records: int) -> str:
    match records:
        case 0:
            return "last record; the cleaner has taken it"
        case 1:
            return "the only record"
        case _:
            return f"last of {records} records"


def _stay_event(stay: Stay, event: str, timestamp_ms: int | None, offset: int, text: str) -> Event:
    return Event(
        timestamp_ms=-1 if timestamp_ms is None else timestamp_ms,
        source="partition",
        event=event,
        topic=stay.topic,
        partition=stay.partition,
        offset=offset,
        brokers=stay.brokers,
        text=text,
        producer_id=stay.producer_id,
        producer_epoch=stay.producer_epoch,
    )


def _open(stay: Stay, state: str | None) -> OpenStay:
    assert stay.first_offset is not None
    return OpenStay(
        topic=stay.topic,
        partition=stay.partition,
        producer_id=stay.producer_id,
        producer_epoch=stay.producer_epoch,
        first_offset=stay.first_offset,
        first_timestamp_ms=-1 if stay.first_timestamp_ms is None else stay.first_timestamp_ms,
        brokers=stay.brokers,
        state=state,
    )


# Disagreements


def _disagreements(
    records: Sequence[CoordinatorRecord], stays: Sequence[Stay], decided: _Decisions
) -> Iterator[str]:
    newest = records[-1] if records else None
    for stay in stays:
        where = f"{stay.topic_partition}"
        if stay.marker_offset is None:
            for text in _about_open(stay, newest):
                yield f"{text}{_about_marker_in_front(stay, records, stays, decided)}"
            continue
        decision = decided.about(stay)
        if decision is None:
            continue  # compacted away, or an operator's marker
        if decision.commits != stay.committed:
            yield (
                f"{where}: the marker at offset {stay.marker_offset} "
                f"{'commits' if stay.committed else 'aborts'}, the coordinator had decided to "
                f"{'commit' if decision.commits else 'abort'} (offset {decision.offset})"
            )
        if stay.first_offset is not None and stay.topic_partition not in decision.partitions:
            yield (
                f"{where}: records from offset {stay.first_offset} on were ended at "
                f"{stay.marker_offset}, but the partition is not among those of the transaction"
            )
    yield from _without_marker(records, stays, decided)


def _about_open(stay: Stay, newest: CoordinatorRecord | None) -> Iterator[str]:
    since = f"{stay.topic_partition}: open since offset {stay.first_offset}"
    if newest is None or newest.state is None:
        yield f"{since}; the coordinator knows nothing of it"
    elif newest.producer_id != stay.producer_id or newest.producer_epoch < stay.producer_epoch:
        yield (
            f"{since} by producer {stay.producer_id} epoch {stay.producer_epoch}; the coordinator "
            f"has producer {newest.producer_id} epoch {newest.producer_epoch}, {newest.state}"
        )
    elif newest.state not in ("Ongoing", *DECISIONS):
        yield f"{since}; for the coordinator it is {newest.state}"
    elif stay.topic_partition not in newest.partitions:
        yield f"{since}; the partition is not among those of the transaction ({newest.state})"


def _about_marker_in_front(
    stay: Stay, records: Sequence[CoordinatorRecord], stays: Sequence[Stay], decided: _Decisions
) -> str:
    """The remark that the last decision on the partition has its marker before the open records;
    empty if it has not.
    """
    assert stay.first_offset is not None
    decisions = [
        record
        for record in records
        if record.commits is not None
        and record.producer_id == stay.producer_id
        and stay.topic_partition in record.partitions
    ]
    for earlier in stays:
        is_in_front = (
            earlier.topic_partition == stay.topic_partition
            and earlier.marker_offset is not None
            and earlier.marker_offset < stay.first_offset
        )
        if is_in_front and decisions and decided.about(earlier) is decisions[-1]:
            return (
                f"; the marker at offset {earlier.marker_offset} carried out the last decision with"
                f" this partition (offset {decisions[-1].offset}), so these records were in no"
                " transaction"
            )
    return ""


def _without_marker(
    records: Sequence[CoordinatorRecord], stays: Sequence[Stay], decided: _Decisions
) -> Iterator[str]:
    """Sentences on transactions that the coordinator has completed although a log among the
    directories lacks their marker.
    """
    marked = {
        (id(decision), stay.topic_partition)
        for stay in stays
        if (decision := decided.about(stay)) is not None
    }
    partitions_with_stays = {stay.topic_partition for stay in stays}
    for decision, record in pairwise(records):
        if decision.commits is None or record.state not in COMPLETE:
            continue
        for partition in decision.partitions:
            if partition in partitions_with_stays and (id(decision), partition) not in marked:
                yield (
                    f"{partition}: no marker of the transaction that the coordinator has as "
                    f"{record.state} (offset {record.offset})"
                )
