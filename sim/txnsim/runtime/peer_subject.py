"""Whom a command between brokers is about, so that a fault plan can match it.

A batched command (several transactions, several markers) has one subject per entry: the first is
the subject itself, the rest its ``others``. A follower's Fetch is about all partitions of its
session, also those that the request at hand does not name.
"""

from __future__ import annotations

from txnsim.types import (
    AddPartitionsToTxnCommand,
    AlterPartitionCommand,
    ReplicaFetchCommand,
    ReplicaOffsetCommand,
    Subject,
    WriteTxnMarkersCommand,
)

NOBODY = Subject()


def subject_of(command: object) -> Subject:
    """The subject of a typed command; nobody for commands that concern no partition."""
    match command:
        case AddPartitionsToTxnCommand(transactions=transactions):
            return _joined(
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
            return _joined(
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
        case ReplicaOffsetCommand(topic_partition=topic_partition):
            return Subject(partitions=(topic_partition,))
        case AlterPartitionCommand(partitions=changes):
            return Subject(partitions=tuple(change.topic_partition for change in changes))
        case _:
            return NOBODY


def _joined(subjects: list[Subject]) -> Subject:
    if len(subjects) < 2:
        return subjects[0] if subjects else NOBODY
    first = subjects[0]
    return Subject(
        transactional_id=first.transactional_id,
        producer_id=first.producer_id,
        partitions=first.partitions,
        committed=first.committed,
        others=tuple(subjects[1:]),
    )
