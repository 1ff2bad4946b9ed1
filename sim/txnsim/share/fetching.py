"""How a ShareFetch spreads over its partitions, and which batches its response has.

Kafka's counterparts: PartitionRotateStrategy, PartitionMaxBytesStrategy, ShareFetchUtils.
"""

from __future__ import annotations

from collections.abc import Sequence

from txnsim.share.commands import AcquiredRange, ReadBatch
from txnsim.share.sessions import SharedPartition


def rotate_partitions(
    partitions: Sequence[SharedPartition], session_epoch: int
) -> list[SharedPartition]:
    """Rotate the partitions: each fetch begins one partition further, so that all get
    their turn.
    """
    start_index = session_epoch % len(partitions) if partitions and session_epoch > 0 else 0
    return [*partitions[start_index:], *partitions[:start_index]]


def max_bytes_each(
    max_bytes: int, partition_count: int, acquired_count: int, *, chosen_index: int
) -> list[int]:
    """Most bytes to read of each partition, split evenly.

    Args:
        max_bytes: Limit of the whole request.
        partition_count: Number of partitions to read now.
        acquired_count: Number of partitions whose fetch lock the request has, including those read
            before.
        chosen_index: Index of the partition that gets the remainder, drawn by chance.
    """
    if max_bytes < partition_count:
        byte_indexes = {(chosen_index + step) % partition_count for step in range(max_bytes)}
        return [1 if index in byte_indexes else 0 for index in range(partition_count)]
    bytes_each, remaining_bytes = divmod(
        max_bytes, acquired_count if max_bytes >= acquired_count else partition_count
    )
    return [
        bytes_each + remaining_bytes if index == chosen_index else bytes_each
        for index in range(partition_count)
    ]


def batches_of_answer(batches: Sequence[ReadBatch], ranges: Sequence[AcquiredRange]) -> slice:
    """The slice of the read batches from the first to the last one with acquired records."""
    first_offset, last_offset = ranges[0].first_offset, ranges[-1].last_offset
    start_index = max(
        (index for index, batch in enumerate(batches) if batch.base_offset <= first_offset),
        default=0,
    )
    end_index = next(
        (index for index, batch in enumerate(batches) if batch.base_offset > last_offset),
        len(batches),
    )
    return slice(start_index, max(end_index, start_index + 1))
