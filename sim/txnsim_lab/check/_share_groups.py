"""What a share group owes to its members and to producers (KIP-932): each committed record is
delivered, to one member at a time, until it is accepted or rejected, and not more often than the
group allows; of a read_committed group no aborted record is.

A broker forgets locks when its leadership ends and when a member's session does, and counts of
deliveries that were not written then. So evidence is of one leader, and none is drawn from a member
that has left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check._coordinators import stuck_partitions
from txnsim_lab.check._hanging import hanging
from txnsim_lab.check._starvation import blocking_limit_ms
from txnsim_lab.check._topics import deleted_topics
from txnsim_lab.check._visibility import visibility
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    UNKNOWN_OFFSET,
    AcknowledgeType,
    AcquiredRecord,
    Isolation,
    Observation,
    Outcome,
    ShareAcknowledged,
    ShareFetched,
    ShareLeft,
    ShareStart,
    Wrote,
)

_FINAL: Final = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})


class _Delivery(NamedTuple):
    """One record in the answer to a ShareFetch, with the number of the observation."""

    history_index: int
    fetch: ShareFetched
    record: AcquiredRecord


class _Consumption(msgspec.Struct, frozen=True):
    """Observations of one share group on one partition."""

    group: str
    topic_partition: TopicPartition
    fetches: list[tuple[int, ShareFetched]]
    acknowledgements: list[tuple[int, ShareAcknowledged]]
    starts: list[tuple[int, ShareStart]]
    leavers: Sequence[tuple[int, ShareLeft]]

    def deliveries(self) -> Iterator[_Delivery]:
        for index, fetch in self.fetches:
            for record in fetch.records:
                yield _Delivery(index, fetch, record)

    def is_set_between(self, first_index: int, last_index: int) -> bool:
        """Whether an operator may have set the start offset between two observations."""
        return any(first_index < index < last_index for index, start in self.starts if start.is_set)


def _consumptions(history: History) -> tuple[_Consumption, ...]:
    leavers: dict[str, list[tuple[int, ShareLeft]]] = defaultdict(list)
    for index, member in history.all_of(ShareLeft):
        leavers[member.group].append((index, member))
    by_partition: dict[tuple[str, TopicPartition], _Consumption] = {}

    def consumption_of(observation: ShareFetched | ShareAcknowledged | ShareStart) -> _Consumption:
        key = (observation.group, observation.place)
        if key not in by_partition:
            by_partition[key] = _Consumption(*key, [], [], [], leavers[observation.group])
        return by_partition[key]

    for index, fetch in history.all_of(ShareFetched):
        consumption_of(fetch).fetches.append((index, fetch))
    for index, acknowledged in history.all_of(ShareAcknowledged):
        consumption_of(acknowledged).acknowledgements.append((index, acknowledged))
    for index, start in history.all_of(ShareStart):
        consumption_of(start).starts.append((index, start))
    return tuple(by_partition.values())


def aborted_deliveries(history: History) -> tuple[Anomaly, ...]:
    """G1a for a share group: the group is read_committed, and got a record of a transaction that
    can't have committed (see ``aborted_reads``).
    """
    visible = visibility(history)
    anomalies = []
    for consumption in history.derived(_consumptions):
        for index, fetch, record in consumption.deliveries():
            if record.value is None or fetch.isolation is not Isolation.READ_COMMITTED:
                continue
            write = visible.writers.get((consumption.topic_partition, record.value), ())
            indexed_writers = [
                (write_index, history.transaction_of(writer)) for write_index, writer in write
            ]
            if not indexed_writers or not all(
                writer and writer.fate.is_aborted for _, writer in indexed_writers
            ):
                continue
            reason = (
                f"{fetch.who} of {consumption.group} was given {record.value!r} at "
                f"{consumption.topic_partition}@{record.offset}, which was not committed"
            )
            end_indexes = (
                end_index for _, writer in indexed_writers if writer for end_index, _ in writer.ends
            )
            evidence = (index, *(write_index for write_index, _ in indexed_writers), *end_indexes)
            anomalies.append(convict(Kind.ABORTED_READ, reason, *evidence))
    return tuple(anomalies)


def beyond_delivery_limit(history: History) -> tuple[Anomaly, ...]:
    """A record was delivered more often than the group's limit, by the broker's own count."""
    return tuple(
        convict(
            Kind.BEYOND_DELIVERY_LIMIT,
            f"{fetch.who} of {consumption.group} was given"
            f" {consumption.topic_partition}@{record.offset} as "
            f"delivery {record.delivery_count} of at most {fetch.delivery_limit}",
            index,
        )
        for consumption in history.derived(_consumptions)
        for index, fetch, record in consumption.deliveries()
        if fetch.delivery_limit is not None and record.delivery_count > fetch.delivery_limit
    )


def delivered_after_acknowledgement(history: History) -> tuple[Anomaly, ...]:
    """A ShareFetch brought a record again, and was sent after a member had got the confirmation
    that the record is accepted or rejected.
    """
    anomalies = []
    for consumption in history.derived(_consumptions):
        for final_index, final_acknowledgement in consumption.acknowledgements:
            if (
                final_acknowledgement.outcome is not Outcome.OK
                or final_acknowledgement.type not in _FINAL
            ):
                continue
            for index, fetch, record in consumption.deliveries():
                if (
                    final_index < index
                    and final_acknowledgement.first <= record.offset <= final_acknowledgement.last
                    and _follows(fetch, final_acknowledgement)
                    and not consumption.is_set_between(final_index, index)
                ):
                    reason = (
                        f"{final_acknowledgement.who} of {consumption.group} has ended "
                        f"{consumption.topic_partition}@{record.offset}"
                        f" ({final_acknowledgement.type}), and"
                        f" {fetch.who} was "
                        "given it again"
                    )
                    kind = Kind.DELIVERED_AFTER_ACKNOWLEDGEMENT
                    anomalies.append(convict(kind, reason, final_index, index))
    return tuple(anomalies)


def two_owners(history: History) -> tuple[Anomaly, ...]:
    """Two members got one record from one leader, while the first one's lock was in force and not
    acknowledged.
    """
    anomalies = []
    for consumption in history.derived(_consumptions):
        deliveries: dict[int, list[_Delivery]] = defaultdict(list)
        for delivery in consumption.deliveries():
            for earlier_delivery in deliveries[delivery.record.offset]:
                if _overlaps(consumption, earlier_delivery, delivery):
                    reason = (
                        f"{earlier_delivery.fetch.who} and {delivery.fetch.who} of"
                        f" {consumption.group} have "
                        f"{consumption.topic_partition}@{delivery.record.offset} at the same time"
                    )
                    evidence = (earlier_delivery.history_index, delivery.history_index)
                    anomalies.append(convict(Kind.TWO_OWNERS, reason, *evidence))
            deliveries[delivery.record.offset].append(delivery)
    return tuple(anomalies)


def _overlaps(
    consumption: _Consumption, earlier_delivery: _Delivery, later_delivery: _Delivery
) -> bool:
    """Whether the first member's lock was in force until the second answer came."""
    earlier_fetch, later_fetch = earlier_delivery.fetch, later_delivery.fetch
    if earlier_fetch.asked_ms is None or earlier_fetch.lock_ms is None:
        return False
    may_have_ended = (
        acknowledged.who == earlier_fetch.who
        and acknowledged.first <= earlier_delivery.record.offset <= acknowledged.last
        and (acknowledged.asked_ms or 0) <= later_fetch.at_ms
        for index, acknowledged in consumption.acknowledgements
        if index > earlier_delivery.history_index
    )
    has_left = (
        member.who == earlier_fetch.who and (member.asked_ms or 0) <= later_fetch.at_ms
        for index, member in consumption.leavers
        if index > earlier_delivery.history_index
    )
    return (
        earlier_fetch.who != later_fetch.who
        and earlier_fetch.leader_epoch == later_fetch.leader_epoch
        and _follows(later_fetch, earlier_fetch)
        and later_fetch.at_ms < earlier_fetch.asked_ms + earlier_fetch.lock_ms
        and not any(may_have_ended)
        and not any(has_left)
        and not consumption.is_set_between(
            earlier_delivery.history_index, later_delivery.history_index
        )
    )


def never_delivered(history: History) -> tuple[Anomaly, ...]:
    """A committed record is before the group's start offset, although the start offset was once at
    or before the record, and no member got the record. Cases are excluded in which a lost answer
    may have delivered it, or in which it may have been deleted or compacted away.
    """
    anomalies = []
    for consumption in history.derived(_consumptions):
        if not _is_fully_observed(consumption):
            continue
        for commit_index, write in _undelivered_writes(history, consumption):
            index = next(
                (index for index, start in consumption.starts if start.start_offset > write.offset),
                -1,
            )
            if index > commit_index and _started_at_or_below(consumption, write.offset, index):
                reason = (
                    f"{consumption.group} starts behind"
                    f" {consumption.topic_partition}@{write.offset}, and no "
                    f"member was given {write.value!r}"
                )
                anomalies.append(convict(Kind.NEVER_DELIVERED, reason, commit_index, index))
    return tuple(anomalies)


def starving_groups(history: History) -> tuple[Anomaly, ...]:
    """Members ask for longer than any transaction may be open, and get nothing, although there is a
    committed record. No hanging transaction and no stuck coordinator explains it.
    """
    explained = {
        transaction.topic_partition for transaction in hanging(history)
    } | stuck_partitions(history)
    anomalies = []
    for consumption in history.derived(_consumptions):
        waited_in_vain_text = _fetches_in_vain(consumption)
        is_known = _is_fully_observed(
            consumption
        ) and consumption.topic_partition.topic not in deleted_topics(history)
        if not waited_in_vain_text or not is_known or consumption.topic_partition in explained:
            continue
        (first_at, first_fetch), (last_at, last_fetch) = (
            waited_in_vain_text[0],
            waited_in_vain_text[-1],
        )
        for commit_index, write in _undelivered_writes(history, consumption):
            was_before = _started_at_or_below(consumption, write.offset, first_at)
            waited_ms = last_fetch.at_ms - first_fetch.at_ms
            if commit_index < first_at and was_before and waited_ms > blocking_limit_ms(history):
                reason = (
                    f"{consumption.group} has got nothing of {consumption.topic_partition} for"
                    f" {waited_ms} "
                    f"ms, where {write.value!r} at {write.offset} waits"
                )
                anomalies.append(
                    convict(Kind.STARVING_READER, reason, commit_index, first_at, last_at)
                )
                break
    return tuple(anomalies)


def _fetches_in_vain(consumption: _Consumption) -> list[tuple[int, ShareFetched]]:
    """The answers at the end that have neither an error nor records."""
    empty_fetches: list[tuple[int, ShareFetched]] = []
    for index, fetch in consumption.fetches:
        if fetch.records or fetch.error:
            empty_fetches.clear()
        else:
            empty_fetches.append((index, fetch))
    return empty_fetches


def _is_fully_observed(consumption: _Consumption) -> bool:
    """Whether all deliveries to members are known, and no operator has set the start offset."""
    outcomes = {fetch.outcome for _, fetch in consumption.fetches}
    is_seen = bool(outcomes) and Outcome.UNKNOWN not in outcomes
    return is_seen and not any(start.is_set for _, start in consumption.starts)


def _started_at_or_below(consumption: _Consumption, offset: int, last_index: int) -> bool:
    """Whether an observation before an index shows a start offset at or below this offset."""
    starts = (
        start_index < last_index and 0 <= start.start_offset <= offset
        for start_index, start in consumption.starts
    )
    deliveries = (
        delivery.history_index < last_index and delivery.record.offset <= offset
        for delivery in consumption.deliveries()
    )
    return any(starts) or any(deliveries)


def _undelivered_writes(history: History, consumption: _Consumption) -> Iterator[tuple[int, Wrote]]:
    """Committed records without a delivery, except those that the cleaner or retention may have
    deleted; each with the index of the observation that acknowledges its commit.
    """
    delivered_offsets = {delivery.record.offset for delivery in consumption.deliveries()}
    begins = (read.log_start_offset for _, read in history.reads(consumption.topic_partition))
    log_start_offset = max(begins, default=UNKNOWN_OFFSET)
    missed_write_indexes = visibility(history).misses
    for index, write in history.writes():
        transaction = history.transaction_of(write)
        is_demanded = (
            write.place == consumption.topic_partition
            and write.outcome is Outcome.OK
            and write.value is not None
            and write.key is None
            and write.offset >= max(log_start_offset, 0)
            and write.offset not in delivered_offsets
            and index not in missed_write_indexes
        )
        if not is_demanded or (transaction is not None and not transaction.fate.is_committed):
            continue
        end_indexes = (
            () if transaction is None else (end_index for end_index, _ in transaction.ends)
        )
        yield max((index, *end_indexes)), write


def _follows(later_observation: Observation, earlier_observation: Observation) -> bool:
    """Whether a request was certainly sent after an earlier answer had arrived."""
    return later_observation.who == earlier_observation.who or (
        later_observation.asked_ms is not None
        and later_observation.asked_ms > earlier_observation.at_ms
    )
