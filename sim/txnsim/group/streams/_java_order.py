"""The iteration order of Java's HashMap, and the order of equals in its PriorityQueue. Pure.

Kafka's assignor takes members in a HashMap's order, and processes of equal load in a
PriorityQueue's order. To get the same assignments, ours has to use the same orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, Generic, TypeVar

from txnsim.types import java_hash

_BUCKETS: Final = 16
T = TypeVar("T")


def java_order(names: Iterable[str], *, capacity: int = _BUCKETS) -> list[str]:
    """Keys in a HashMap's iteration order.

    Args:
        names: Insertion order, which colliding keys of one bucket keep.
        capacity: Initial capacity, rounded up to a power of two.
    """
    distinct_names = list(dict.fromkeys(names))
    bucket_count = 1
    while bucket_count < capacity:
        bucket_count *= 2
    while len(distinct_names) > bucket_count * 3 // 4:
        bucket_count *= 2
    mask, spread_hash_of = (
        bucket_count - 1,
        _quickest_function(distinct_names, _cached_spread, _spread),
    )
    return sorted(distinct_names, key=lambda name: spread_hash_of(name) & mask)


def java_order_of_computed(names: Iterable[str], *, capacity: int) -> list[str]:
    """Keys in the iteration order of a HashMap that ``computeIfAbsent`` fills: it grows before it
    inserts the next key, and a new key comes first in its bucket. A name occurs as often as
    ``computeIfAbsent`` is called with it.
    """
    buckets, distinct_names = 1, dict[str, None]()
    while buckets < capacity:
        buckets *= 2
    for name in names:
        if len(distinct_names) > buckets * 3 // 4:
            buckets *= 2
        distinct_names.setdefault(name)
    newest_first = [*distinct_names][::-1]
    mask, spread_hash_of = buckets - 1, _quickest_function(newest_first, _cached_spread, _spread)
    return sorted(newest_first, key=lambda name: spread_hash_of(name) & mask)


def _spread(text: str) -> int:
    """The hash that HashMap computes from a hash code."""
    return _cached_spread(text) if len(text) <= _CACHED_CHARACTERS_MAX else _spread_of(text)


def _spread_of(text: str) -> int:
    name_hash = _hash_of(text) & 0xFFFF_FFFF
    return name_hash ^ name_hash >> 16


def _hash_of(text: str) -> int:
    """Java's hash code of a string; cached for short names, because each heartbeat needs all of
    them.
    """
    return _cached_hash(text) if len(text) <= _CACHED_CHARACTERS_MAX else java_hash(text)


_CACHED_CHARACTERS_MAX: Final = 64
_cached_hash: Final = lru_cache(maxsize=16_384)(java_hash)
_cached_spread: Final = lru_cache(maxsize=16_384)(_spread_of)


LEAST_SLOTS: Final = 2
"""Smallest number of slots of a TimelineHashMap."""
_KNUTH_FACTOR: Final = 0x9E37_79B9_7F4A_7C15
_LONG_BITS: Final = 64


def slots_for(key_count: int, slot_count: int) -> int:
    """The number of slots of a TimelineHashMap with ``key_count`` keys after a key is inserted or
    changed.
    """
    return slot_count * 2 if (key_count + 1) * 3 > slot_count * 4 else slot_count


def timeline_order(names: Iterable[str], slot_count: int) -> list[str]:
    """Keys in a TimelineHashMap's iteration order; the newest first within a slot."""
    shift_bits = _LONG_BITS - (slot_count.bit_length() - 1)
    newest_first = [*names][::-1]
    product_of = _quickest_function(newest_first, _cached_product, _product_of)
    return sorted(newest_first, key=lambda name: product_of(name) >> shift_bits)


def _product_of(name: str) -> int:
    """The product whose highest bits select the slot."""
    return _hash_of(name) * _KNUTH_FACTOR & (1 << _LONG_BITS) - 1


_cached_product: Final = lru_cache(maxsize=16_384)(_product_of)


def _quickest_function(
    names: list[str], cached_function: Callable[[str], int], computed_function: Callable[[str], int]
) -> Callable[[str], int]:
    return (
        cached_function
        if max(map(len, names), default=0) <= _CACHED_CHARACTERS_MAX
        else computed_function
    )


class JavaQueue(Generic[T]):
    """Java's PriorityQueue: a heap in an array, which determines the order of equals. A load may
    only change while its item is outside the queue.
    """

    def __init__(self, items: Iterable[T], load_of: Callable[[T], float]) -> None:
        self._load = load_of
        self._heap: list[tuple[float, T]] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T) -> None:
        """Insert an item (offer)."""
        heap, priority = self._heap, self._load(item)
        entry = priority, item
        heap.append(entry)
        index = len(heap) - 1
        while index > 0:
            parent = (index - 1) // 2
            if priority >= heap[parent][0]:
                break
            heap[index] = heap[parent]
            index = parent
        heap[index] = entry

    def poll(self) -> T:
        """Remove the item with the least load."""
        heap = self._heap
        least_entry, last_entry = heap[0], heap.pop()
        if heap:
            self._sink(last_entry)
        return least_entry[1]

    def _sink(self, entry: tuple[float, T]) -> None:
        """Move an entry down from the top to its place."""
        heap, priority, index = self._heap, entry[0], 0
        size = len(heap)
        while (child := 2 * index + 1) < size:
            right_child = child + 1
            if right_child < size and heap[child][0] > heap[right_child][0]:
                child = right_child
            if priority <= heap[child][0]:
                break
            heap[index] = heap[child]
            index = child
        heap[index] = entry
