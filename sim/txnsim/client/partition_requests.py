"""Requests of an operator about partitions: made from plain values, as in ``requests``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from txnsim.client.requests import Row, asks, per_topic
from txnsim.client.versions import Api, Request
from txnsim.types import TopicPartition

PREFERRED: Final = 0
"""Election type: the first replica, only while in sync."""


def delete_records(before: Mapping[TopicPartition, int], *, timeout_ms: int) -> Request:
    """Raise log start offsets; -1 stands for the high watermark."""

    def row(at: TopicPartition) -> Row:
        return Row("DeleteRecordsPartition", partition_index=at.partition, offset=before[at])

    topics = per_topic("DeleteRecordsTopic", before, row)
    return asks(Api.DELETE_RECORDS, topics=topics, timeout=timeout_ms)


def alter_partition_reassignments(
    replicas: Mapping[TopicPartition, Sequence[int]], *, timeout_ms: int
) -> Request:
    """Give partitions other replicas."""

    def row(at: TopicPartition) -> Row:
        wanted = tuple(replicas[at])
        return Row("ReassignablePartition", partition_index=at.partition, replicas=wanted)

    topics = per_topic("ReassignableTopic", replicas, row)
    return asks(Api.ALTER_PARTITION_REASSIGNMENTS, timeout=timeout_ms, topics=topics)


def elect_preferred_leaders(partitions: Iterable[TopicPartition], *, timeout_ms: int) -> Request:
    """Elect the first replica of each partition, where it is in sync."""
    return asks(
        Api.ELECT_LEADERS,
        election_type=PREFERRED,
        timeout=timeout_ms,
        topic_partitions=per_topic("TopicPartitions", partitions, called="topic"),
    )
