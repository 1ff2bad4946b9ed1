"""Requests of an operator about partitions: made from plain values, as in ``requests``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from txnsim.client.requests import by_topic
from txnsim.client.versions import Api, Request
from txnsim.types import TopicPartition
from txnsim.wire.codec import build

PREFERRED: Final = 0
"""Type of an election: the first replica, and never one that is out of sync."""


def delete_records(before: Mapping[TopicPartition, int], *, timeout_ms: int) -> Request:
    """Raise log start offsets; -1 stands for the high watermark."""
    topics = by_topic(before)

    def make(schema: ModuleType) -> Any:
        row = schema.DeleteRecordsPartition
        return build(
            schema.DeleteRecordsRequest,
            topics=tuple(
                build(
                    schema.DeleteRecordsTopic,
                    name=name,
                    partitions=tuple(
                        build(
                            row, partition_index=index, offset=before[TopicPartition(name, index)]
                        )
                        for index in indexes
                    ),
                )
                for name, indexes in topics.items()
            ),
            timeout=timeout_ms,
        )

    return Request(api=Api.DELETE_RECORDS, build=make)


def alter_partition_reassignments(
    replicas: Mapping[TopicPartition, Sequence[int]], *, timeout_ms: int
) -> Request:
    """Give partitions other replicas."""
    topics = by_topic(replicas)

    def make(schema: ModuleType) -> Any:
        row = schema.ReassignablePartition
        return build(
            schema.AlterPartitionReassignmentsRequest,
            timeout=timeout_ms,
            topics=tuple(
                build(
                    schema.ReassignableTopic,
                    name=name,
                    partitions=tuple(
                        build(
                            row,
                            partition_index=index,
                            replicas=tuple(replicas[TopicPartition(name, index)]),
                        )
                        for index in indexes
                    ),
                )
                for name, indexes in topics.items()
            ),
        )

    return Request(api=Api.ALTER_PARTITION_REASSIGNMENTS, build=make)


def elect_preferred_leaders(partitions: Iterable[TopicPartition], *, timeout_ms: int) -> Request:
    """Make the first replica of each partition its leader, where it is in sync."""
    topics = by_topic(partitions)

    def make(schema: ModuleType) -> Any:
        return build(
            schema.ElectLeadersRequest,
            election_type=PREFERRED,
            timeout=timeout_ms,
            topic_partitions=tuple(
                build(schema.TopicPartitions, topic=name, partitions=tuple(indexes))
                for name, indexes in topics.items()
            ),
        )

    return Request(api=Api.ELECT_LEADERS, build=make)
