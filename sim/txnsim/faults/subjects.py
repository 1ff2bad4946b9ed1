"""Whom a request is about, so that a fault plan can match it.

A batched command (several transactions, several markers) has one subject per entry: the first is
the subject itself, the rest its ``other_subjects``. A follower's Fetch is about all partitions of
its session, also those that the request at hand does not name.
"""

from __future__ import annotations

import msgspec

from txnsim.interbroker.dead_letters import DeadLettersCommand
from txnsim.interbroker.replication import (
    AlterPartitionCommand,
    ReplicaFetchCommand,
    ReplicaOffsetCommand,
)
from txnsim.interbroker.transactions import AddPartitionsToTxnCommand, WriteTxnMarkersCommand
from txnsim.types import TopicPartition


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a request is about, as far as a fault plan may want to match it."""

    transactional_id: str | None = None
    producer_id: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    committed: bool | None = None
    """Result carried by EndTxn or by the markers, where there is one."""
    other_subjects: tuple[Subject, ...] = ()
    """Further subjects of a batched request (several transactions, several markers); a plan matches
    any of them.
    """


NO_SUBJECT = Subject()


def subject_of(command: object) -> Subject:
    """The subject of a typed command; an empty one for commands that concern no partition."""
    match command:
        case AddPartitionsToTxnCommand(transactions=transactions):
            return _join_subjects(
                [
                    Subject(
                        transactional_id=txn.transactional_id,
                        producer_id=txn.producer_id,
                        partitions=txn.partitions,
                    )
                    for txn in transactions
                ]
            )
        case WriteTxnMarkersCommand(markers=markers):
            return _join_subjects(
                [
                    Subject(
                        producer_id=marker.producer_id,
                        partitions=marker.partitions,
                        committed=marker.committed,
                    )
                    for marker in markers
                ]
            )
        case ReplicaFetchCommand(followed=followed):
            return Subject(partitions=followed)
        case (
            ReplicaOffsetCommand(topic_partition=topic_partition)
            | DeadLettersCommand(topic_partition=topic_partition)
        ):
            return Subject(partitions=(topic_partition,))
        case AlterPartitionCommand(partitions=changes):
            return Subject(partitions=tuple(change.topic_partition for change in changes))
        case _:
            return NO_SUBJECT


def trace_subjects(subject: Subject) -> list[dict[str, object]]:
    """Whose request it is, as a trace tells it: transactional id, producer id, partitions of each
    transaction. Empty where it is about no transaction.
    """
    return [
        {
            **({} if related.transactional_id is None else {"id": related.transactional_id}),
            **({} if related.producer_id is None else {"pid": related.producer_id}),
            "partitions": [str(partition) for partition in related.partitions],
        }
        for related in (subject, *subject.other_subjects)
        if related.transactional_id is not None or related.producer_id is not None
    ]


def _join_subjects(subjects: list[Subject]) -> Subject:
    if len(subjects) < 2:
        return subjects[0] if subjects else NO_SUBJECT
    return msgspec.structs.replace(subjects[0], other_subjects=tuple(subjects[1:]))
