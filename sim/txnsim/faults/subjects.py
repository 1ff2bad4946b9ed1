"""The subject of a request: the transactions and partitions that it is about, for matching by fault
rules.

A batched command (several transactions, several markers) has one subject per entry: the first is
the subject itself, the others are in its ``other_subjects``. The subject of a follower's Fetch has
all partitions of its session, including those that the request does not name.
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
    """The transaction and partitions that a request is about, as far as fault rules can match
    them.
    """

    transactional_id: str | None = None
    producer_id: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    committed: bool | None = None
    """Result carried by EndTxn or by the markers, if any."""
    other_subjects: tuple[Subject, ...] = ()
    """The other subjects of a batched request (several transactions, several markers); a rule may
    match any of them.
    """


NO_SUBJECT = Subject()


def subject_of(command: object) -> Subject:
    """The subject of a typed command; empty if it is not about partitions."""
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
        case ReplicaFetchCommand(followed_partitions=followed_partitions):
            return Subject(partitions=followed_partitions)
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
    """The subject as event fields: transactional id, producer id and partitions of each
    transaction. Empty if it is not about a transaction.
    """
    return [
        {
            **(
                {}
                if related_subject.transactional_id is None
                else {"id": related_subject.transactional_id}
            ),
            **({} if related_subject.producer_id is None else {"pid": related_subject.producer_id}),
            "partitions": [str(partition) for partition in related_subject.partitions],
        }
        for related_subject in (subject, *subject.other_subjects)
        if related_subject.transactional_id is not None or related_subject.producer_id is not None
    ]


def _join_subjects(subjects: list[Subject]) -> Subject:
    if len(subjects) < 2:
        return subjects[0] if subjects else NO_SUBJECT
    return msgspec.structs.replace(subjects[0], other_subjects=tuple(subjects[1:]))
