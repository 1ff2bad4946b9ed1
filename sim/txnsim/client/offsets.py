"""Offsets by timestamp, many partitions at a time. Kafka's counterpart is
``ListOffsetsHandler``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.client import requests
from txnsim.client._requests_by_key import KeyedResponse, look_up_leaders, run_by_key
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError, or_raised
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, TopicPartition

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3

_MOVED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.kafka_storage_error,
    }
)


class FoundOffset(msgspec.Struct, frozen=True, kw_only=True):
    """An offset; -1 if no record has such a timestamp."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, FoundOffset | ClientError]:
    """Look up offsets.

    Args:
        cluster: Connections to use.
        timestamps: ``LATEST_TIMESTAMP``, ``EARLIEST_TIMESTAMP``, ``MAX_TIMESTAMP``,
            or a time in milliseconds, for the first record that is not older.
        isolation: With READ_COMMITTED the latest offset is the last stable one.
        timeout_ms: ``api_timeout_ms`` unless given.

    Returns:
        Partition -> offset or error.
    """

    async def ask(
        broker_id: int, partitions: Sequence[TopicPartition]
    ) -> KeyedResponse[TopicPartition, FoundOffset]:
        request = requests.list_offsets(
            {partition: timestamps[partition] for partition in partitions},
            isolation_level=isolation,
            timeout_ms=cluster.settings.request_timeout_ms,
        )
        message = await cluster.ask(broker_id, request)
        response: KeyedResponse[TopicPartition, FoundOffset] = KeyedResponse()
        for topic in message.topics:
            for partition_row in topic.partitions:
                partition = TopicPartition(topic.name, partition_row.partition_index)
                error = ErrorCode(partition_row.error_code)
                if error == ErrorCode.none:
                    _take_offset(response, partition, partition_row, timestamps.get(partition, 0))
                elif error in _MOVED:
                    response.send_elsewhere(partition, error)
                elif error.retriable:
                    response.wait(partition, error)
                else:
                    failure = f"ListOffsets of {partition}: {error.name.upper()}"
                    response.refuse(partition, ClientError(failure, error=error))
        return response

    return await run_by_key(
        cluster,
        timestamps,
        request_name="ListOffsets",
        look_up=look_up_leaders,
        ask_broker=ask,
        timeout_ms=timeout_ms,
    )


def _take_offset(
    response: KeyedResponse[TopicPartition, FoundOffset],
    partition: TopicPartition,
    partition_row: Any,
    timestamp_ms: int,
) -> None:
    """Take a row without an error. Every log has a start and an end: -1 is an answer to other
    questions alone.
    """
    has_always_offset = timestamp_ms in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP)
    if partition_row.offset < (0 if has_always_offset else -1):
        failure = f"ListOffsets of {partition}: the broker answered with offset"
        response.refuse(partition, ClientError(f"{failure} {partition_row.offset}"))
        return
    found_offset = FoundOffset(
        offset=partition_row.offset,
        timestamp_ms=partition_row.timestamp,
        leader_epoch=getattr(partition_row, "leader_epoch", -1),
    )
    response.complete(partition, found_offset)


async def offset_of(
    cluster: Cluster,
    partition: TopicPartition,
    timestamp_ms: int,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> int:
    """One partition's offset by timestamp.

    Raises:
        ClientError: The cluster gave no answer.
    """
    offsets = await list_offsets(cluster, {partition: timestamp_ms}, isolation=isolation)
    return or_raised(offsets[partition]).offset
