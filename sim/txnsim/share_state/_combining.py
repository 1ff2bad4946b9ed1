"""Batches of states become the fewest that say the same.

Counterpart in Kafka: PersisterStateBatchCombiner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import chain, groupby
from operator import itemgetter

from txnsim.interbroker.share_state import UNKNOWN_OFFSET, StateBatch


def combined(
    batches: Iterable[StateBatch], newer: Iterable[StateBatch], *, start_offset: int
) -> tuple[StateBatch, ...]:
    """Both together: in order, without overlaps, without what lies below the start offset.

    Where batches overlap the higher delivery count wins, then the higher state. Neighbours that
    are in the same state become one batch, unless there is only one batch to begin with.

    Raises:
        ValueError: A batch ends before it begins, and it is not alone.
    """
    left = [
        batch
        if batch.first_offset >= start_offset
        else StateBatch(start_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in chain(batches, newer)
        if start_offset == UNKNOWN_OFFSET or batch.last_offset >= start_offset
    ]
    return tuple(left) if len(left) < 2 else _swept(left)


def _swept(batches: list[StateBatch]) -> tuple[StateBatch, ...]:
    """Sweep over the ends of all batches; the state in front is that of the strongest open one."""
    ends: list[tuple[int, int, tuple[int, int]]] = []
    for batch in batches:
        weight = (-batch.delivery_count, -batch.delivery_state)
        ends.append((batch.first_offset, 1, weight))
        ends.append((batch.last_offset + 1, -1, weight))
    ends.sort()
    found: list[StateBatch] = []
    # The strongest open state is on top of the heap; states that have closed leave it late.
    is_open: Counter[tuple[int, int]] = Counter()
    strongest: list[tuple[int, int]] = []
    since = 0
    for offset, here in groupby(ends, itemgetter(0)):
        if strongest and offset > since:
            _append(found, since, offset - 1, strongest[0])
        for _, change, weight in here:
            is_open[weight] += change
            if change > 0:
                heappush(strongest, weight)
            elif is_open[weight] < 0:
                raise ValueError(f"a batch ends at {offset} and begins behind that")
        while strongest and not is_open[strongest[0]]:
            heappop(strongest)
        since = offset
    return tuple(found)


def _append(found: list[StateBatch], first: int, last: int, weight: tuple[int, int]) -> None:
    count, state = -weight[0], -weight[1]
    if found:
        before = found[-1]
        if (
            before.last_offset + 1 == first
            and before.delivery_state == state
            and before.delivery_count == count
        ):
            found[-1] = StateBatch(before.first_offset, last, state, count)
            return
    found.append(StateBatch(first, last, state, count))
