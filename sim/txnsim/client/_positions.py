"""A group's committed positions, as a restarted consumer would find them.

Kafka's counterpart is ``Admin.listConsumerGroupOffsets``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import ClientError, RetriableError, code_name
from txnsim.client.group_requests import offset_fetch
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition


async def committed_positions(
    cluster: Cluster,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    *,
    needs_stable: bool = False,
) -> dict[TopicPartition, int]:
    """The committed position of each partition; -1 if the group never committed one.

    Args:
        cluster: Connections to use.
        group_id: Id of the group.
        partitions: The partitions; None for all that the group has.
        needs_stable: Fail with UNSTABLE_OFFSET_COMMIT rather than return a position that an open
            transaction may change (KIP-447).

    Raises:
        ClientError: Refused; ``error`` says why.
        RetriableError: Not answered in time.
    """
    deadline = cluster.deadline()
    backoff = cluster.backoff()
    request = offset_fetch(group_id, partitions, needs_stable=needs_stable)
    while True:
        try:
            message = await cluster.ask_group_coordinator(group_id, request)
            error, offsets = _parse(message, partitions)
        except LOST_ANSWER_ERRORS as lost:
            error, offsets = lost.error or ErrorCode.network_exception, {}
        if error == ErrorCode.none:
            return offsets
        failure = f"OffsetFetch of group {group_id!r}: {code_name(error)}"
        if not error.retriable or error == ErrorCode.unstable_offset_commit:
            raise ClientError(failure, error=error)
        if deadline.has_passed:
            raise RetriableError(failure, error=error)
        await backoff.wait(deadline)


def _parse(
    message: Any, partitions: Collection[TopicPartition] | None
) -> tuple[ErrorCode, dict[TopicPartition, int]]:
    """The first error and the positions of an answer.

    Raises:
        ClientError: It has a partition twice, or lacks one without giving an error.
    """
    errors = [ErrorCode(message.error_code)]
    offsets: dict[TopicPartition, int] = {}
    for topic in message.topics:
        for partition_row in topic.partitions:
            partition = TopicPartition(topic.name, partition_row.partition_index)
            if partition in offsets:
                raise ClientError(f"OffsetFetch: the broker answered twice about {partition}")
            errors.append(ErrorCode(partition_row.error_code))
            offsets[partition] = partition_row.committed_offset
    error = next((error for error in errors if error != ErrorCode.none), ErrorCode.none)
    unanswered = [partition for partition in partitions or () if partition not in offsets]
    if unanswered and error == ErrorCode.none:
        raise ClientError(f"OffsetFetch: the broker answered without {unanswered[0]}")
    return error, offsets
