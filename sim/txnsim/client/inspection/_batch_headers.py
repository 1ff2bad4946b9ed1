"""Reads partitions of a running cluster as any consumer may, and keeps batches' headers, not their
data. Kafka's counterpart: ``Fetcher``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from txnsim.client import requests
from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import ClientError, RetriableError
from txnsim.client.fetching import FETCH_BYTES_MAX, LANE, partition_rows
from txnsim.client.reactions import REFRESHING
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.wire.batch import BatchHeader, iter_batches

PIECE_BYTES: Final = 8 << 20
"""Bytes of one answer, about."""


class FetchedBatch(NamedTuple):
    """A batch of a Fetch answer."""

    header: BatchHeader
    data: bytes
    """The whole batch."""


async def fetch_batches(
    cluster: Cluster, partition: TopicPartition, start_offset: int, end_offset: int
) -> AsyncIterator[FetchedBatch]:
    """Yield the batches from one offset up to another.

    Args:
        cluster: Connections to use.
        partition: The partition.
        start_offset: The first offset; it may lie within a batch.
        end_offset: Reading ends at this offset.

    Raises:
        ClientError: This user may not read it, the offsets are gone, or the leader's answer is not
            about this partition alone.
        RetriableError: No leader answered in time.
    """
    offset = start_offset
    while offset < end_offset:
        batch_bytes = await _fetch_batches(cluster, partition, offset)
        next_offset = offset
        for position, header in iter_batches(batch_bytes):
            if header.base_offset >= end_offset:
                return
            next_offset = header.last_offset + 1
            if next_offset > offset:
                yield FetchedBatch(header, batch_bytes[position : position + header.size])
        if next_offset == offset:
            raise RetriableError(f"{partition}: nothing at offset {offset}, below {end_offset}")
        offset = next_offset


async def _fetch_batches(cluster: Cluster, partition: TopicPartition, offset: int) -> bytes:
    """Whole batches from an offset on."""
    deadline, backoff = cluster.deadline(), cluster.backoff()
    while True:
        leader = await cluster.leader(partition, deadline=deadline)
        topic = cluster.view.topic(partition.topic)
        id_by_topic = {partition.topic: None if topic is None else topic.topic_id}
        request = requests.fetch(
            {partition: offset},
            id_by_topic=id_by_topic,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            partition_max_bytes=PIECE_BYTES,
            leader_epochs={partition: leader.leader_epoch},
            timeout_ms=cluster.settings.request_timeout_ms,
        )
        try:
            message = await cluster.ask(leader.leader_id, request, lane=LANE)
            error, data = _answer_of(message, partition, id_by_topic)
        except LOST_ANSWER_ERRORS:
            error, data = ErrorCode.network_exception, b""
        if error == ErrorCode.none:
            return data
        failure = f"Fetch of {partition} at {offset}: {error.name.upper()}"
        if not error.retriable and error not in REFRESHING:
            raise ClientError(failure, error=error)
        cluster.forget_leader(partition.topic)
        if deadline.has_passed:
            raise RetriableError(failure, error=error)
        await backoff.wait(deadline)


def _answer_of(
    message: Any, partition: TopicPartition, id_by_topic: Mapping[str, UUID | None]
) -> tuple[ErrorCode, bytes]:
    """Error and bytes of an answer about one partition."""
    error = ErrorCode(getattr(message, "error_code", ErrorCode.none))
    if error != ErrorCode.none:
        return error, b""
    row = partition_rows(message, (partition,), id_by_topic)[partition]
    return ErrorCode(row.error_code), bytes(row.records or b"")
