"""Where a coordinator's decisions and the markers of a partition contradict: records of a committed
transaction that an ABORT has ended, or the other way round. Pure.

A decision ends the records that its transaction has on each partition. They may have got another
end: their marker was lost and the marker of the producer's next transaction has ended them too, a
late marker of the transaction before met them, or an operator wrote the wrong one. Nothing hangs
then, so no search for hanging transactions finds it.

Decisions and markers of one producer are put in one order: by epoch where transactions v2 raise it,
else by time. A trace has positions for times. Timestamps of brokers have milliseconds, so two
events may have the same one; what can't be ordered is no contradiction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from txnsim.txn.marker_payment import CoordinatorRecord
from txnsim.types import TopicPartition
from txnsim.verdict.facts import WrongData


class ProducerMarker(msgspec.Struct, frozen=True, kw_only=True):
    """A marker of a producer on a partition."""

    offset: int
    producer_epoch: int
    is_commit: bool
    written_at: int
    """Time of the marker, in the unit of the decisions' times."""
    has_ended_records: bool = True
    """Whether records of its producer stand between the marker before and this one."""


def contradictions(
    partition: TopicPartition,
    producer_id: int,
    transactional_id: str | None,
    decisions: Sequence[CoordinatorRecord],
    markers: Sequence[ProducerMarker],
) -> Iterator[WrongData]:
    """The markers of a producer on a partition that contradict what its coordinator has decided.

    Args:
        partition: The partition.
        producer_id: The producer.
        transactional_id: Its transactional id.
        decisions: The coordinator's decisions about it, oldest first.
        markers: Its markers on the partition, in the order of offsets.
    """
    due_decisions = [
        decision
        for decision in decisions
        if decision.is_decision
        and decision.producer_id == producer_id
        and partition in decision.partitions
    ]
    decided_commit_flags = [decision.is_commit for decision in due_decisions]
    if [marker.is_commit for marker in markers] == decided_commit_flags[: len(markers)]:
        return  # each decision has its marker, or the newest ones have none yet
    unended_decisions: list[CoordinatorRecord] = []
    """Decisions whose records have no end yet."""
    decision_index = 0
    for marker in markers:
        while decision_index < len(due_decisions) and _is_before(
            due_decisions[decision_index], marker
        ):
            unended_decisions.append(due_decisions[decision_index])
            decision_index += 1
        if not marker.has_ended_records:
            continue
        if unended_decisions:
            ended_decisions = _ended_by(marker, unended_decisions)
            del unended_decisions[: len(ended_decisions)]
        else:
            ended_decisions = _begun_before(marker, due_decisions[decision_index:])
        if any(decision.is_commit != marker.is_commit for decision in ended_decisions):
            yield WrongData(
                partition=partition,
                offset=marker.offset,
                producer_id=producer_id,
                producer_epoch=marker.producer_epoch,
                transactional_id=transactional_id,
                is_commit=not marker.is_commit,
            )


def _is_before(decision: CoordinatorRecord, marker: ProducerMarker) -> bool:
    if decision.producer_epoch != marker.producer_epoch or decision.is_v2:
        return decision.producer_epoch <= marker.producer_epoch
    return decision.timestamp_ms <= marker.written_at


def _ended_by(
    marker: ProducerMarker, unended_decisions: Sequence[CoordinatorRecord]
) -> Sequence[CoordinatorRecord]:
    """Of decisions without an end, those whose records a marker has ended: all that are surely
    older, and at least the oldest. One of the same millisecond may be that of the next transaction.
    """
    older_count = sum(
        decision.producer_epoch < marker.producer_epoch or decision.timestamp_ms < marker.written_at
        for decision in unended_decisions
    )
    return unended_decisions[: max(1, older_count)]


def _begun_before(
    marker: ProducerMarker,
    later_decisions: Sequence[CoordinatorRecord],
) -> Sequence[CoordinatorRecord]:
    """The next decision, if its transaction had surely begun before a marker, which has then ended
    records of it too early. An operator's marker has the epoch of the records, which transactions
    v2 raise with the decision.
    """
    if not later_decisions:
        return ()
    next_decision = later_decisions[0]
    has_begun = (
        next_decision.may_end(marker.producer_epoch)
        or next_decision.producer_epoch == marker.producer_epoch
    ) and next_decision.start_timestamp_ms < marker.written_at
    return (next_decision,) if has_begun else ()
