"""The markers of a producer before its open transaction, fetched from the partition's leader.

DescribeProducers says neither when the last marker was written nor whether it was a commit. So this
fetches the log itself, as any consumer may with READ on the topic: from the first record of a time
on, up to the open transaction. It reads the markers of all producers: if retention has deleted the
log's start, the first remaining marker says since when the markers are complete. Kafka's
counterpart: ``EndTransactionMarker``.
"""

from __future__ import annotations

from typing import Final

from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.isolation import SeenMarker
from txnsim.client.offsets import EARLIEST_TIMESTAMP, offset_of
from txnsim.txn.marker_payment import (
    AFTER_ALL_MARKERS_MS,
    BEFORE_ALL_MARKERS_MS,
    NO_MARKERS,
    PartitionMarker,
    PartitionMarkers,
)
from txnsim.types import IsolationLevel, TopicPartition

BYTES_MAX: Final = 128 << 20
"""Limit of one search in bytes; for more, search the disks (``txnsim logs find-hanging``)."""


async def fetch_markers(
    cluster: Cluster,
    partition: TopicPartition,
    producer_id: int,
    *,
    before_offset: int,
    since_ms: int,
) -> PartitionMarkers:
    """Fetch the producer's markers.

    Args:
        cluster: Connections to use.
        partition: The partition.
        producer_id: The producer.
        before_offset: Where the producer's open transaction begins.
        since_ms: Only markers from this time on, by the clock of the partition's leader.

    Returns:
        The markers; ``NO_MARKERS`` if the log can't be read.
    """
    try:
        log_start = await offset_of(cluster, partition, EARLIEST_TIMESTAMP)
        # -1 where nothing is as late
        start_offset = await offset_of(cluster, partition, since_ms) if since_ms > 0 else log_start
        if start_offset < 0:
            start_offset = before_offset
        markers, is_whole = await _fetch_between(cluster, partition, start_offset, before_offset)
    except ClientError:
        return NO_MARKERS
    if not is_whole:
        whole_since_ms = AFTER_ALL_MARKERS_MS
    elif start_offset > log_start:
        whole_since_ms = since_ms
    elif log_start == 0:
        whole_since_ms = BEFORE_ALL_MARKERS_MS
    else:
        whole_since_ms = markers[0].timestamp_ms if markers else AFTER_ALL_MARKERS_MS
    return PartitionMarkers(
        markers=tuple(
            PartitionMarker(
                offset=marker.offset,
                producer_epoch=marker.producer_epoch,
                is_commit=marker.committed,
                timestamp_ms=marker.timestamp_ms,
            )
            for marker in markers
            if marker.producer_id == producer_id
        ),
        complete_since_ms=whole_since_ms,
    )


async def _fetch_between(
    cluster: Cluster, partition: TopicPartition, start_offset: int, end_offset: int
) -> tuple[list[SeenMarker], bool]:
    """The markers of all producers between two offsets, and whether none can be missing."""
    markers: list[SeenMarker] = []
    is_whole = True
    offset = start_offset
    bytes_read = 0
    while offset < end_offset:
        fetch_result = await fetch(
            cluster,
            partition.topic,
            partition.partition,
            offset,
            isolation=IsolationLevel.READ_UNCOMMITTED,
            max_wait_ms=0,
        )
        markers += (marker for marker in fetch_result.markers if marker.offset < end_offset)
        is_whole = is_whole and fetch_result.is_whole
        bytes_read += fetch_result.size_bytes
        if fetch_result.next_offset == offset or bytes_read > BYTES_MAX:
            return markers, False
        offset = fetch_result.next_offset
    return markers, is_whole
