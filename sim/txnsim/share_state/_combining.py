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
from txnsim.releases.rules import LATEST_RULES, Rules

_BATCHES_PER_STEP: Final = 1_000
"""Number of batches that are merged between two breaks."""


class BackwardsBatchError(ValueError):
    """A batch ends before it begins, and there are other batches."""


def combine_in_steps(
    batches: Iterable[StateBatch],
    newer: Iterable[StateBatch],
    *,
    start_offset: int,
    release_rules: Rules = LATEST_RULES,
) -> Generator[int, None, tuple[StateBatch, ...]]:
    """Merge two lists of batches: in order, without overlaps, without offsets below the start
    offset.

    Where batches overlap, the higher delivery count wins, then the higher state. Adjacent batches
    in the same state become one batch, unless there is only one batch to begin with
    (``share_states_are_swept``). Yields numbers of batches, for breaks.

    Raises:
        BackwardsBatchError: A batch ends before it begins, and there are other batches.
    """
    older_batches = _batches_from(start_offset, batches)
    yield len(older_batches)
    newer_batches = _batches_from(start_offset, newer)
    yield len(newer_batches)
    if len(older_batches) + len(newer_batches) < 2:
        return (*older_batches, *newer_batches)
    if release_rules.share_states_are_swept:
        are_ordered = _are_in_order(older_batches) and _are_in_order(newer_batches)
        yield len(older_batches) + len(newer_batches)
        if not are_ordered:
            return _sweep_batches([*older_batches, *newer_batches])
        return (yield from _merge_in_steps(older_batches, newer_batches))
    return _merge_in_pairs([*older_batches, *newer_batches])


def _batches_from(start_offset: int, batches: Iterable[StateBatch]) -> list[StateBatch]:
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
    previous_last_offset = None
    for batch in batches:
        first_offset = batch.first_offset
        if (
            previous_last_offset is not None and first_offset <= previous_last_offset
        ) or batch.last_offset < first_offset:
            return False
        previous_last_offset = batch.last_offset
    return True


def _merge_in_steps(
    older_batches: list[StateBatch], newer_batches: list[StateBatch]
) -> Generator[int, None, tuple[StateBatch, ...]]:
    """Merge two ordered lists of batches, in slices: there may be ten thousand of each, and most
    have equal bounds.
    """
    merged_batches: list[StateBatch] = []
    equal_count = 0
    for left_batch, right_batch in zip(older_batches, newer_batches, strict=False):
        if (
            left_batch.first_offset != right_batch.first_offset
            or left_batch.last_offset != right_batch.last_offset
        ):
            break
        _append_or_extend(
            merged_batches,
            right_batch if _takes_precedence(right_batch, left_batch) else left_batch,
        )
        equal_count += 1
        if equal_count % _BATCHES_PER_STEP == 0:
            yield _BATCHES_PER_STEP
    older_rest, newer_rest = older_batches[equal_count:][::-1], newer_batches[equal_count:][::-1]
    while older_rest and newer_rest:
        left_batch, right_batch = older_rest[-1], newer_rest[-1]
        if left_batch.first_offset > right_batch.first_offset:
            older_rest, newer_rest, left_batch, right_batch = (
                newer_rest,
                older_rest,
                right_batch,
                left_batch,
            )
        if left_batch.last_offset < right_batch.first_offset:
            _append_or_extend(merged_batches, older_rest.pop())
        elif left_batch.first_offset < right_batch.first_offset:
            older_rest[-1:] = reversed(_split_batch(left_batch, right_batch.first_offset))
        elif left_batch.last_offset > right_batch.last_offset:
            older_rest[-1:] = reversed(_split_batch(left_batch, right_batch.last_offset + 1))
        elif left_batch.last_offset < right_batch.last_offset:
            newer_rest[-1:] = reversed(_split_batch(right_batch, left_batch.last_offset + 1))
        else:
            older_rest.pop(), newer_rest.pop()
            _append_or_extend(
                merged_batches,
                right_batch if _takes_precedence(right_batch, left_batch) else left_batch,
            )
    for batch in reversed(older_rest or newer_rest):
        _append_or_extend(merged_batches, batch)
    return tuple(merged_batches)


def _split_batch(batch: StateBatch, split_offset: int) -> tuple[StateBatch, StateBatch]:
    """Split a batch in front of an offset."""
    delivery_state, delivery_count = batch.delivery_state, batch.delivery_count
    return (
        StateBatch(batch.first_offset, split_offset - 1, delivery_state, delivery_count),
        StateBatch(split_offset, batch.last_offset, delivery_state, delivery_count),
    )


def _takes_precedence(batch: StateBatch, other_batch: StateBatch) -> bool:
    if batch.delivery_count != other_batch.delivery_count:
        return batch.delivery_count > other_batch.delivery_count
    return batch.delivery_state > other_batch.delivery_state


def _sweep_batches(batches: list[StateBatch]) -> tuple[StateBatch, ...]:
    """Merge batches in any order: between two bounds, the open batch with the highest count and
    state wins.
    """
    bounds: list[tuple[int, int, tuple[int, int]]] = []
    for batch in batches:
        precedence = (-batch.delivery_count, -batch.delivery_state)
        bounds.append((batch.first_offset, 1, precedence))
        bounds.append((batch.last_offset + 1, -1, precedence))
    bounds.sort()
    merged_batches: list[StateBatch] = []
    # The strongest open state is on top of the heap; states that have closed leave it late.
    open_counts: Counter[tuple[int, int]] = Counter()
    precedence_heap: list[tuple[int, int]] = []
    range_start = 0
    for offset, bounds_at_offset in groupby(bounds, itemgetter(0)):
        if precedence_heap and offset > range_start:
            delivery_count, delivery_state = -precedence_heap[0][0], -precedence_heap[0][1]
            _append_or_extend(
                merged_batches, StateBatch(range_start, offset - 1, delivery_state, delivery_count)
            )
        for _, open_count_change, precedence in bounds_at_offset:
            open_counts[precedence] += open_count_change
            if open_count_change > 0:
                heappush(precedence_heap, precedence)
            elif open_counts[precedence] < 0:
                raise BackwardsBatchError(f"a batch ends at {offset} and begins behind that")
        while precedence_heap and not open_counts[precedence_heap[0]]:
            heappop(precedence_heap)
        range_start = offset
    return tuple(merged_batches)


def _append_or_extend(batches: list[StateBatch], batch: StateBatch) -> None:
    """Append a batch, or extend the last batch where this one continues it in the same state."""
    if batches:
        last_batch = batches[-1]
        if (
            last_batch.last_offset + 1 == batch.first_offset
            and last_batch.delivery_state == batch.delivery_state
            and last_batch.delivery_count == batch.delivery_count
        ):
            batch = StateBatch(
                last_batch.first_offset,
                batch.last_offset,
                batch.delivery_state,
                batch.delivery_count,
            )
            batches.pop()
    batches.append(batch)


# Up to Kafka 4.3


def _merge_in_pairs(batches: list[StateBatch]) -> tuple[StateBatch, ...]:
    """Merge batches pair by pair, from the front, as Kafka does up to 4.3. A finished batch is not
    looked at again, even if the batch that finally follows it is in the same state.
    """
    remaining_heap = [*map(_order_key, batches)]
    heapify(remaining_heap)
    merged_batches: list[StateBatch] = []
    lower_batch = heappop(remaining_heap)
    while remaining_heap:
        upper_batch = heappop(remaining_heap)
        if upper_batch[0] > lower_batch[1] + 1 or (
            upper_batch[0] == lower_batch[1] + 1 and upper_batch[2:] != lower_batch[2:]
        ):
            merged_batches.append(_to_state_batch(lower_batch))
            lower_batch = upper_batch
            continue
        for merged_part in _merge_two(lower_batch, upper_batch):
            heappush(remaining_heap, merged_part)
        lower_batch = heappop(remaining_heap)
    return (*merged_batches, _to_state_batch(lower_batch))


_OrderedBatch = tuple[int, int, int, int]
"""(first offset, last offset, delivery count, state): the order in which batches are merged."""


def _order_key(batch: StateBatch) -> _OrderedBatch:
    return (batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)


def _to_state_batch(ordered_batch: _OrderedBatch) -> StateBatch:
    return StateBatch(ordered_batch[0], ordered_batch[1], ordered_batch[3], ordered_batch[2])


def _merge_two(lower_batch: _OrderedBatch, upper_batch: _OrderedBatch) -> Iterator[_OrderedBatch]:
    """Merge two batches that overlap, or that are adjacent in the same state; ``upper_batch`` does
    not begin before ``lower_batch``.
    """
    if lower_batch[2:] == upper_batch[2:]:
        yield (lower_batch[0], max(lower_batch[1], upper_batch[1]), *lower_batch[2:])
        return
    if lower_batch[2:] > upper_batch[2:]:
        yield lower_batch
        if upper_batch[1] > lower_batch[1]:
            yield (lower_batch[1] + 1, upper_batch[1], *upper_batch[2:])
        return
    if lower_batch[0] < upper_batch[0]:
        yield (lower_batch[0], upper_batch[0] - 1, *lower_batch[2:])
    yield upper_batch
    if lower_batch[1] > upper_batch[1]:
        yield (upper_batch[1] + 1, lower_batch[1], *lower_batch[2:])
