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
from txnsim_lab.check._starvation import patience_of
from txnsim_lab.check._topics import gone
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

    at: int
    fetch: ShareFetched
    record: AcquiredRecord


class _Consumption(msgspec.Struct, frozen=True):
    """Observations of one share group on one partition."""

    group: str
    place: TopicPartition
    fetches: list[tuple[int, ShareFetched]]
    acknowledgements: list[tuple[int, ShareAcknowledged]]
    starts: list[tuple[int, ShareStart]]
    left: Sequence[tuple[int, ShareLeft]]

    def deliveries(self) -> Iterator[_Delivery]:
        for index, fetch in self.fetches:
            for record in fetch.records:
                yield _Delivery(index, fetch, record)

    def is_set_between(self, first: int, last: int) -> bool:
        """Whether an operator may have set the start offset there."""
        return any(first < index < last for index, start in self.starts if start.is_set)


def _consumptions(history: History) -> tuple[_Consumption, ...]:
    left: dict[str, list[tuple[int, ShareLeft]]] = defaultdict(list)
    for index, member in history.all_of(ShareLeft):
        left[member.group].append((index, member))
    found: dict[tuple[str, TopicPartition], _Consumption] = {}

    def of(seen: ShareFetched | ShareAcknowledged | ShareStart) -> _Consumption:
        key = (seen.group, seen.place)
        if key not in found:
            found[key] = _Consumption(*key, [], [], [], left[seen.group])
        return found[key]

    for index, fetch in history.all_of(ShareFetched):
        of(fetch).fetches.append((index, fetch))
    for index, acknowledged in history.all_of(ShareAcknowledged):
        of(acknowledged).acknowledgements.append((index, acknowledged))
    for index, start in history.all_of(ShareStart):
        of(start).starts.append((index, start))
    return tuple(found.values())


def aborted_deliveries(history: History) -> tuple[Anomaly, ...]:
    """G1a for a share group: ``read_committed``, and it was given a record of a transaction that
    can't have committed (see ``aborted_reads``).
    """
    seen = visibility(history)
    found = []
    for consumption in history.derived(_consumptions):
        for index, fetch, record in consumption.deliveries():
            if record.value is None or fetch.isolation is not Isolation.READ_COMMITTED:
                continue
            wrote = seen.writers.get((consumption.place, record.value), ())
            by = [(at, history.transaction_of(one)) for at, one in wrote]
            if not by or not all(one and one.fate.aborted for _, one in by):
                continue
            because = (
                f"{fetch.who} of {consumption.group} was given {record.value!r} at "
                f"{consumption.place}@{record.offset}, which was not committed"
            )
            ends = (end for _, one in by if one for end, _ in one.ends)
            evidence = (index, *(at for at, _ in by), *ends)
            found.append(convict(Kind.ABORTED_READ, because, *evidence))
    return tuple(found)


def beyond_delivery_limit(history: History) -> tuple[Anomaly, ...]:
    """The broker itself counts more deliveries of a record than the group's limit."""
    return tuple(
        convict(
            Kind.BEYOND_DELIVERY_LIMIT,
            f"{fetch.who} of {consumption.group} was given {consumption.place}@{record.offset} as "
            f"delivery {record.delivery_count} of at most {fetch.delivery_limit}",
            index,
        )
        for consumption in history.derived(_consumptions)
        for index, fetch, record in consumption.deliveries()
        if fetch.delivery_limit is not None and record.delivery_count > fetch.delivery_limit
    )


def delivered_after_acknowledgement(history: History) -> tuple[Anomaly, ...]:
    """A member was told that a record is accepted or rejected, and a ShareFetch that was sent after
    that brought it again.
    """
    found = []
    for consumption in history.derived(_consumptions):
        for at, final in consumption.acknowledgements:
            if final.outcome is not Outcome.OK or final.type not in _FINAL:
                continue
            for index, fetch, record in consumption.deliveries():
                if (
                    at < index
                    and final.first <= record.offset <= final.last
                    and _follows(fetch, final)
                    and not consumption.is_set_between(at, index)
                ):
                    because = (
                        f"{final.who} of {consumption.group} has ended "
                        f"{consumption.place}@{record.offset} ({final.type}), and {fetch.who} was "
                        "given it again"
                    )
                    kind = Kind.DELIVERED_AFTER_ACKNOWLEDGEMENT
                    found.append(convict(kind, because, at, index))
    return tuple(found)


def two_owners(history: History) -> tuple[Anomaly, ...]:
    """Two members got one record from one leader, while the first one's lock was in force and not
    acknowledged.
    """
    found = []
    for consumption in history.derived(_consumptions):
        held: dict[int, list[_Delivery]] = defaultdict(list)
        for delivery in consumption.deliveries():
            for first in held[delivery.record.offset]:
                if _holds(consumption, first, delivery):
                    because = (
                        f"{first.fetch.who} and {delivery.fetch.who} of {consumption.group} have "
                        f"{consumption.place}@{delivery.record.offset} at the same time"
                    )
                    evidence = (first.at, delivery.at)
                    found.append(convict(Kind.TWO_OWNERS, because, *evidence))
            held[delivery.record.offset].append(delivery)
    return tuple(found)


def _holds(consumption: _Consumption, first: _Delivery, second: _Delivery) -> bool:
    """Whether the first member's lock was in force until the second answer came."""
    one, other = first.fetch, second.fetch
    if one.asked_ms is None or one.lock_ms is None:
        return False
    may_have_ended = (
        acknowledged.who == one.who
        and acknowledged.first <= first.record.offset <= acknowledged.last
        and (acknowledged.asked_ms or 0) <= other.at_ms
        for index, acknowledged in consumption.acknowledgements
        if index > first.at
    )
    has_left = (
        member.who == one.who and (member.asked_ms or 0) <= other.at_ms
        for index, member in consumption.left
        if index > first.at
    )
    return (
        one.who != other.who
        and one.leader_epoch == other.leader_epoch
        and _follows(other, one)
        and other.at_ms < one.asked_ms + one.lock_ms
        and not any(may_have_ended)
        and not any(has_left)
        and not consumption.is_set_between(first.at, second.at)
    )


def never_delivered(history: History) -> tuple[Anomaly, ...]:
    """A committed record lies behind the group's start offset, and no member was given it, though
    the group was before it once.

    An answer that was lost may have brought it. Records may have been deleted or compacted away.
    """
    found = []
    for consumption in history.derived(_consumptions):
        if not _is_known(consumption):
            continue
        for at, wrote in _waiting(history, consumption):
            index = next(
                (index for index, one in consumption.starts if one.start_offset > wrote.offset), -1
            )
            if index > at and _was_before(consumption, wrote.offset, index):
                because = (
                    f"{consumption.group} starts behind {consumption.place}@{wrote.offset}, and no "
                    f"member was given {wrote.value!r}"
                )
                found.append(convict(Kind.NEVER_DELIVERED, because, at, index))
    return tuple(found)


def starving_groups(history: History) -> tuple[Anomaly, ...]:
    """A committed record waits, members ask for longer than any transaction may be open, and get
    nothing; no hanging transaction and no stuck coordinator is known to be the reason.
    """
    explained = {one.place for one in hanging(history)} | stuck_partitions(history)
    found = []
    for consumption in history.derived(_consumptions):
        in_vain = _in_vain(consumption)
        is_known = _is_known(consumption) and consumption.place.topic not in gone(history)
        if not in_vain or not is_known or consumption.place in explained:
            continue
        (first_at, first), (last_at, last) = in_vain[0], in_vain[-1]
        for at, wrote in _waiting(history, consumption):
            was_before = _was_before(consumption, wrote.offset, first_at)
            waited_ms = last.at_ms - first.at_ms
            if at < first_at and was_before and waited_ms > patience_of(history):
                because = (
                    f"{consumption.group} has got nothing of {consumption.place} for {waited_ms} "
                    f"ms, where {wrote.value!r} at {wrote.offset} waits"
                )
                found.append(convict(Kind.STARVING_READER, because, at, first_at, last_at))
                break
    return tuple(found)


def _in_vain(consumption: _Consumption) -> list[tuple[int, ShareFetched]]:
    """The last answers, without error and without records."""
    found: list[tuple[int, ShareFetched]] = []
    for index, fetch in consumption.fetches:
        if fetch.records or fetch.error:
            found.clear()
        else:
            found.append((index, fetch))
    return found


def _is_known(consumption: _Consumption) -> bool:
    """Whether members were seen, every delivery was, and no operator has set the start offset."""
    outcomes = {fetch.outcome for _, fetch in consumption.fetches}
    is_seen = bool(outcomes) and Outcome.UNKNOWN not in outcomes
    return is_seen and not any(start.is_set for _, start in consumption.starts)


def _was_before(consumption: _Consumption, offset: int, until: int) -> bool:
    """Whether an observation before that index shows the start offset at or below this one."""
    starts = (at < until and 0 <= one.start_offset <= offset for at, one in consumption.starts)
    given = (one.at < until and one.record.offset <= offset for one in consumption.deliveries())
    return any(starts) or any(given)


def _waiting(history: History, consumption: _Consumption) -> Iterator[tuple[int, Wrote]]:
    """Committed records without a delivery that neither cleaner nor retention may have deleted;
    each with the index of the observation that acknowledged its commit.
    """
    given = {delivery.record.offset for delivery in consumption.deliveries()}
    begins = (read.log_start_offset for _, read in history.reads(consumption.place))
    log_start_offset = max(begins, default=UNKNOWN_OFFSET)
    lost = visibility(history).misses
    for index, wrote in history.writes():
        transaction = history.transaction_of(wrote)
        is_demanded = (
            wrote.place == consumption.place
            and wrote.outcome is Outcome.OK
            and wrote.value is not None
            and wrote.key is None
            and wrote.offset >= max(log_start_offset, 0)
            and wrote.offset not in given
            and index not in lost
        )
        if not is_demanded or (transaction is not None and not transaction.fate.committed):
            continue
        ends = () if transaction is None else (at for at, _ in transaction.ends)
        yield max((index, *ends)), wrote


def _follows(later: Observation, earlier: Observation) -> bool:
    """Whether a request was certainly sent after an answer had come, which was noted before."""
    return later.who == earlier.who or (
        later.asked_ms is not None and later.asked_ms > earlier.at_ms
    )
