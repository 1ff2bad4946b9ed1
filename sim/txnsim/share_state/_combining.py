"""Merges batches of states into the fewest batches that say the same.

Counterpart in Kafka: PersisterStateBatchCombiner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Final

from txnsim.interbroker.share_state import UNKNOWN_OFFSET, StateBatch
from txnsim.releases.rules import LATEST, Rules

_AT_ONCE: Final = 1_000
"""Number of batches that are merged between two breaks."""


class BackwardsBatchError(ValueError):
    """A batch ends before it begins, and there are other batches."""


def combining(
    batches: Iterable[StateBatch],
    newer: Iterable[StateBatch],
    *,
    start_offset: int,
    rules: Rules = LATEST,
) -> Generator[int, None, tuple[StateBatch, ...]]:
    """Merge two lists of batches: in order, without overlaps, without offsets below the start
    offset.

    Where batches overlap, the higher delivery count wins, then the higher state. Adjacent batches
    in the same state become one batch, unless there is only one batch to begin with
    (``share_states_are_swept``). Yields numbers of batches, for breaks.

    Raises:
        BackwardsBatchError: A batch ends before it begins, and there are other batches.
    """
    older = _from(start_offset, batches)
    yield len(older)
    newer_batches = _from(start_offset, newer)
    yield len(newer_batches)
    if len(older) + len(newer_batches) < 2:
        return (*older, *newer_batches)
    if rules.share_states_are_swept:
        are_merged = _are_in_order(older) and _are_in_order(newer_batches)
        yield len(older) + len(newer_batches)
        if not are_merged:
            return _sweep_batches([*older, *newer_batches])
        return (yield from _merge_in_steps(older, newer_batches))
    return _in_pairs([*older, *newer_batches])


def _from(start_offset: int, batches: Iterable[StateBatch]) -> list[StateBatch]:
    if start_offset == UNKNOWN_OFFSET:
        return [*batches]
    return [
        batch
        if batch.first_offset >= start_offset
        else StateBatch(start_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _are_in_order(batches: list[StateBatch]) -> bool:
    """Whether the batches follow each other without overlap, as a state has them and a leader sends
    them.
    """
    end = None
    for batch in batches:
        first_offset = batch.first_offset
        if (end is not None and first_offset <= end) or batch.last_offset < first_offset:
            return False
        end = batch.last_offset
    return True


def _merge_in_steps(
    older: list[StateBatch], newer: list[StateBatch]
) -> Generator[int, None, tuple[StateBatch, ...]]:
    """Merge two ordered lists of batches, in slices: there may be ten thousand of each, and most
    have equal bounds.
    """
    merged: list[StateBatch] = []
    equal_count = 0
    for this, that in zip(older, newer, strict=False):
        if this.first_offset != that.first_offset or this.last_offset != that.last_offset:
            break
        _append(merged, that if _is_heavier(that, this) else this)
        equal_count += 1
        if equal_count % _AT_ONCE == 0:
            yield _AT_ONCE
    older_rest, newer_rest = older[equal_count:][::-1], newer[equal_count:][::-1]
    while older_rest and newer_rest:
        this, that = older_rest[-1], newer_rest[-1]
        if this.first_offset > that.first_offset:
            older_rest, newer_rest, this, that = newer_rest, older_rest, that, this
        if this.last_offset < that.first_offset:
            _append(merged, older_rest.pop())
        elif this.first_offset < that.first_offset:
            older_rest[-1:] = reversed(_cut(this, that.first_offset))
        elif this.last_offset > that.last_offset:
            older_rest[-1:] = reversed(_cut(this, that.last_offset + 1))
        elif this.last_offset < that.last_offset:
            newer_rest[-1:] = reversed(_cut(that, this.last_offset + 1))
        else:
            older_rest.pop(), newer_rest.pop()
            _append(merged, that if _is_heavier(that, this) else this)
    for batch in reversed(older_rest or newer_rest):
        _append(merged, batch)
    return tuple(merged)


def _cut(batch: StateBatch, offset: int) -> tuple[StateBatch, StateBatch]:
    """Split a batch in front of an offset."""
    state, count = batch.delivery_state, batch.delivery_count
    return (
        StateBatch(batch.first_offset, offset - 1, state, count),
        StateBatch(offset, batch.last_offset, state, count),
    )


def _is_heavier(batch: StateBatch, other_batch: StateBatch) -> bool:
    if batch.delivery_count != other_batch.delivery_count:
        return batch.delivery_count > other_batch.delivery_count
    return batch.delivery_state > other_batch.delivery_state


def _sweep_batches(batches: list[StateBatch]) -> tuple[StateBatch, ...]:
    """Merge batches in any order: between two bounds, the open batch with the highest count and
    state wins.
    """
    ends: list[tuple[int, int, tuple[int, int]]] = []
    for batch in batches:
        weight = (-batch.delivery_count, -batch.delivery_state)
        ends.append((batch.first_offset, 1, weight))
        ends.append((batch.last_offset + 1, -1, weight))
    ends.sort()
    combined: list[StateBatch] = []
    # The strongest open state is on top of the heap; states that have closed leave it late.
    is_open: Counter[tuple[int, int]] = Counter()
    strongest: list[tuple[int, int]] = []
    since = 0
    for offset, changes in groupby(ends, itemgetter(0)):
        if strongest and offset > since:
            count, state = -strongest[0][0], -strongest[0][1]
            _append(combined, StateBatch(since, offset - 1, state, count))
        for _, change, weight in changes:
            is_open[weight] += change
            if change > 0:
                heappush(strongest, weight)
            elif is_open[weight] < 0:
                raise BackwardsBatchError(f"a batch ends at {offset} and begins behind that")
        while strongest and not is_open[strongest[0]]:
            heappop(strongest)
        since = offset
    return tuple(combined)


def _append(batches: list[StateBatch], batch: StateBatch) -> None:
    """Append a batch, or extend the last batch where this one continues it in the same state."""
    if batches:
        previous = batches[-1]
        if (
            previous.last_offset + 1 == batch.first_offset
            and previous.delivery_state == batch.delivery_state
            and previous.delivery_count == batch.delivery_count
        ):
            batch = StateBatch(
                previous.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            batches.pop()
    batches.append(batch)


# Up to Kafka 4.3


def _in_pairs(batches: list[StateBatch]) -> tuple[StateBatch, ...]:
    """Merge batches pair by pair, from the front, as Kafka does up to 4.3. A finished batch is not
    looked at again, even if the batch that finally follows it is in the same state.
    """
    remaining = [*map(_order_key, batches)]
    heapify(remaining)
    combined: list[StateBatch] = []
    lower = heappop(remaining)
    while remaining:
        upper = heappop(remaining)
        if upper[0] > lower[1] + 1 or (upper[0] == lower[1] + 1 and upper[2:] != lower[2:]):
            combined.append(_batch(lower))
            lower = upper
            continue
        for part in _of_two(lower, upper):
            heappush(remaining, part)
        lower = heappop(remaining)
    return (*combined, _batch(lower))


_Ordered = tuple[int, int, int, int]
"""(first offset, last offset, delivery count, state): the order in which batches are merged."""


def _order_key(batch: StateBatch) -> _Ordered:
    return (batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)


def _batch(ordered: _Ordered) -> StateBatch:
    return StateBatch(ordered[0], ordered[1], ordered[3], ordered[2])


def _of_two(lower: _Ordered, upper: _Ordered) -> Iterator[_Ordered]:
    """Merge two batches that overlap, or that are adjacent in the same state; ``upper`` does not
    begin before ``lower``.
    """
    if lower[2:] == upper[2:]:
        yield (lower[0], max(lower[1], upper[1]), *lower[2:])
        return
    if lower[2:] > upper[2:]:
        yield lower
        if upper[1] > lower[1]:
            yield (lower[1] + 1, upper[1], *upper[2:])
        return
    if lower[0] < upper[0]:
        yield (lower[0], upper[0] - 1, *lower[2:])
    yield upper
    if lower[1] > upper[1]:
        yield (upper[1] + 1, lower[1], *lower[2:])
