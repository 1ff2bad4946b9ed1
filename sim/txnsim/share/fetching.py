"""How a ShareFetch spreads over its partitions, and which batches its answer has.

Kafka's counterparts: PartitionRotateStrategy, PartitionMaxBytesStrategy, ShareFetchUtils.
"""

from __future__ import annotations

from collections.abc import Sequence

from txnsim.share.commands import AcquiredRange, ReadBatch
from txnsim.share.sessions import SharedPartition


def rotated(partitions: Sequence[SharedPartition], session_epoch: int) -> list[SharedPartition]:
    """Each fetch begins one partition further, so that all get their turn."""
    at = session_epoch % len(partitions) if partitions and session_epoch > 0 else 0
    return [*partitions[at:], *partitions[:at]]


def max_bytes_each(max_bytes: int, partitions: int, acquired: int, *, chosen: int) -> list[int]:
    """How much may be read of each partition, evenly.

    Args:
        max_bytes: what the request allows in all.
        partitions: number of those that are to be read now.
        acquired: number of those whose fetch lock the request has, those read before among them.
        chosen: index of the partition that gets what is left over, drawn by chance.
    """
    if max_bytes < partitions:
        few = {(chosen + number) % partitions for number in range(max_bytes)}
        return [1 if at in few else 0 for at in range(partitions)]
    each, rest = divmod(max_bytes, acquired if max_bytes >= acquired else partitions)
    return [each + rest if at == chosen else each for at in range(partitions)]


def batches_of_answer(batches: Sequence[ReadBatch], ranges: Sequence[AcquiredRange]) -> slice:
    """Which of the batches that were read have acquired records, or lie between such."""
    first, last = ranges[0].first_offset, ranges[-1].last_offset
    begin = max((at for at, one in enumerate(batches) if one.base_offset <= first), default=0)
    end = next((at for at, one in enumerate(batches) if one.base_offset > last), len(batches))
    return slice(begin, max(end, begin + 1))
