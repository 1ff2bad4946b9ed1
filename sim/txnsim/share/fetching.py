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
    start = session_epoch % len(partitions) if partitions and session_epoch > 0 else 0
    return [*partitions[start:], *partitions[:start]]


def max_bytes_each(max_bytes: int, partitions: int, acquired: int, *, chosen: int) -> list[int]:
    """Most bytes to read of each partition, split evenly.

    Args:
        max_bytes: Limit of the whole request.
        partitions: Number of partitions to read now.
        acquired: Number of partitions whose fetch lock the request has, including those read
            before.
        chosen: Index of the partition that gets the remainder, drawn by chance.
    """
    if max_bytes < partitions:
        few = {(chosen + number) % partitions for number in range(max_bytes)}
        return [1 if index in few else 0 for index in range(partitions)]
    share, remainder = divmod(max_bytes, acquired if max_bytes >= acquired else partitions)
    return [share + remainder if index == chosen else share for index in range(partitions)]


def batches_of_answer(batches: Sequence[ReadBatch], ranges: Sequence[AcquiredRange]) -> slice:
    """The slice of the read batches from the first to the last one with acquired records."""
    first_offset, last_offset = ranges[0].first_offset, ranges[-1].last_offset
    begin = max(
        (index for index, batch in enumerate(batches) if batch.base_offset <= first_offset),
        default=0,
    )
    end = next(
        (index for index, batch in enumerate(batches) if batch.base_offset > last_offset),
        len(batches),
    )
    return slice(begin, max(end, begin + 1))
