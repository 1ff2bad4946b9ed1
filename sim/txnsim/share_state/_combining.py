"""Batches of states become the fewest that say the same.

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
"""Batches that are merged without a break."""


class BackwardsBatchError(ValueError):
    """A batch ends before it begins, and is not alone."""


def combining(
    batches: Iterable[StateBatch],
    newer: Iterable[StateBatch],
    *,
    start_offset: int,
    rules: Rules = LATEST,
) -> Generator[int, None, tuple[StateBatch, ...]]:
    """Both together: in order, without overlaps, without what lies below the start offset.

    Where batches overlap the higher delivery count wins, then the higher state. Neighbours that
    are in the same state become one batch, unless there is only one batch to begin with
    (``share_states_are_swept``). Yields after so many batches.

    Raises:
        BackwardsBatchError: A batch ends before it begins, and it is not alone.
    """
    known = _from(start_offset, batches)
    yield len(known)
    left = _from(start_offset, newer)
    yield len(left)
    if len(known) + len(left) < 2:
        return (*known, *left)
    if rules.share_states_are_swept:
        are_merged = _are_in_order(known) and _are_in_order(left)
        yield len(known) + len(left)
        if not are_merged:
            return _swept([*known, *left])
        return (yield from _merging(known, left))
    return _in_pairs([*known, *left])


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
    """One behind the other, as a state has them and a leader sends them."""
    end = None
    for batch in batches:
        first = batch.first_offset
        if (end is not None and first <= end) or batch.last_offset < first:
            return False
        end = batch.last_offset
    return True


def _merging(
    known: list[StateBatch], newer: list[StateBatch]
) -> Generator[int, None, tuple[StateBatch, ...]]:
    """Two sequences in order: there may be ten thousand of each, and most have equal bounds."""
    found: list[StateBatch] = []
    same = 0
    for this, that in zip(known, newer, strict=False):
        if this.first_offset != that.first_offset or this.last_offset != that.last_offset:
            break
        _append(found, that if _is_heavier(that, this) else this)
        same += 1
        if same % _AT_ONCE == 0:
            yield _AT_ONCE
    one, other = known[same:][::-1], newer[same:][::-1]
    while one and other:
        this, that = one[-1], other[-1]
        if this.first_offset > that.first_offset:
            one, other, this, that = other, one, that, this
        if this.last_offset < that.first_offset:
            _append(found, one.pop())
        elif this.first_offset < that.first_offset:
            one[-1:] = reversed(_cut(this, that.first_offset))
        elif this.last_offset > that.last_offset:
            one[-1:] = reversed(_cut(this, that.last_offset + 1))
        elif this.last_offset < that.last_offset:
            other[-1:] = reversed(_cut(that, this.last_offset + 1))
        else:
            one.pop(), other.pop()
            _append(found, that if _is_heavier(that, this) else this)
    for batch in reversed(one or other):
        _append(found, batch)
    return tuple(found)


def _cut(batch: StateBatch, at: int) -> tuple[StateBatch, StateBatch]:
    """The parts in front of an offset and from it on."""
    state, count = batch.delivery_state, batch.delivery_count
    return (
        StateBatch(batch.first_offset, at - 1, state, count),
        StateBatch(at, batch.last_offset, state, count),
    )


def _is_heavier(batch: StateBatch, other: StateBatch) -> bool:
    if batch.delivery_count != other.delivery_count:
        return batch.delivery_count > other.delivery_count
    return batch.delivery_state > other.delivery_state


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
            count, state = -strongest[0][0], -strongest[0][1]
            _append(found, StateBatch(since, offset - 1, state, count))
        for _, change, weight in here:
            is_open[weight] += change
            if change > 0:
                heappush(strongest, weight)
            elif is_open[weight] < 0:
                raise BackwardsBatchError(f"a batch ends at {offset} and begins behind that")
        while strongest and not is_open[strongest[0]]:
            heappop(strongest)
        since = offset
    return tuple(found)


def _append(found: list[StateBatch], batch: StateBatch) -> None:
    """Lengthen the last batch where this one goes on in the same state."""
    if found:
        before = found[-1]
        if (
            before.last_offset + 1 == batch.first_offset
            and before.delivery_state == batch.delivery_state
            and before.delivery_count == batch.delivery_count
        ):
            batch = StateBatch(
                before.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            found.pop()
    found.append(batch)


# Up to Kafka 4.3


def _in_pairs(batches: list[StateBatch]) -> tuple[StateBatch, ...]:
    """Two neighbours at a time, from the front. What was left behind is not looked at again, though
    the batch that follows may be like it in the end.
    """
    left = [*map(_ordered, batches)]
    heapify(left)
    found: list[StateBatch] = []
    one = heappop(left)
    while left:
        other = heappop(left)
        if other[0] > one[1] + 1 or (other[0] == one[1] + 1 and other[2:] != one[2:]):
            found.append(_batch(one))
            one = other
            continue
        for each in _of_two(one, other):
            heappush(left, each)
        one = heappop(left)
    return (*found, _batch(one))


_Ordered = tuple[int, int, int, int]
"""First and last offset, delivery count, state: the order of batches."""


def _ordered(batch: StateBatch) -> _Ordered:
    return (batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)


def _batch(one: _Ordered) -> StateBatch:
    return StateBatch(one[0], one[1], one[3], one[2])


def _of_two(one: _Ordered, other: _Ordered) -> Iterator[_Ordered]:
    """What two that overlap, or touch in the same state, become; the first begins no later."""
    if one[2:] == other[2:]:
        yield (one[0], max(one[1], other[1]), *one[2:])
        return
    if one[2:] > other[2:]:
        yield one
        if other[1] > one[1]:
            yield (one[1] + 1, other[1], *other[2:])
        return
    if one[0] < other[0]:
        yield (one[0], other[0] - 1, *one[2:])
    yield other
    if one[1] > other[1]:
        yield (other[1] + 1, one[1], *one[2:])
