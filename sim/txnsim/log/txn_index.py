"""The aborted transactions of a log (Kafka's TransactionIndex).

A read_committed consumer gets bytes below the last stable offset with the list of aborted
transactions in them, and drops their records itself. The index provides that list. Entries are in
the order of their markers, so ``last_offset`` ascends and the first relevant entry is found by
bisection.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import msgspec


class AbortedTxn(msgspec.Struct, frozen=True, gc=False):
    """One aborted transaction, with the fields of the index file; ``last_offset`` is the marker's
    offset.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    """The last stable offset once this marker was replicated.

    It is the first offset of the earliest open transaction of another producer, or else the
    marker's offset + 1. Every later entry begins at or above it, so a search may stop here.
    """


class TxnIndex:
    """Aborted transactions in the order of their markers."""

    __slots__ = ("_aborted_txns", "_last_offsets")

    def __init__(self) -> None:
        self._aborted_txns: list[AbortedTxn] = []
        self._last_offsets = array("q")

    # Commands

    def append(self, aborted_txn: AbortedTxn) -> None:
        """Add an aborted transaction whose marker was just written."""
        assert not self._aborted_txns or aborted_txn.last_offset > self._last_offsets[-1]
        self._aborted_txns.append(aborted_txn)
        self._last_offsets.append(aborted_txn.last_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop transactions whose markers are at ``offset`` or above."""
        kept_count = bisect_left(self._last_offsets, offset)
        del self._aborted_txns[kept_count:]
        del self._last_offsets[kept_count:]

    def drop_before(self, offset: int) -> None:
        """Drop transactions whose markers are below ``offset``: no read can reach their records any
        more.
        """
        dropped_count = bisect_left(self._last_offsets, offset)
        del self._aborted_txns[:dropped_count]
        del self._last_offsets[:dropped_count]

    def remove(self, last_offset: int) -> None:
        """Drop the transaction whose marker is at exactly that offset."""
        if last_offset in self:
            index = bisect_left(self._last_offsets, last_offset)
            del self._aborted_txns[index]
            del self._last_offsets[index]

    def replace(
        self, start_offset: int, end_offset: int, aborted_txns: Sequence[AbortedTxn]
    ) -> None:
        """Replace the entries whose markers are in ``[start, end)`` by ``aborted_txns``, because
        that part of the log was cleaned.
        """
        first_index = bisect_left(self._last_offsets, start_offset)
        end_index = bisect_left(self._last_offsets, end_offset)
        self._aborted_txns[first_index:end_index] = aborted_txns
        self._last_offsets[first_index:end_index] = array(
            "q", [aborted_txn.last_offset for aborted_txn in aborted_txns]
        )

    # Queries

    def lookup(self, start_offset: int, upper_offset: int) -> tuple[AbortedTxn, ...]:
        """Aborted transactions with offsets in ``[start, upper)``, in the order of their markers.

        As on a real broker, they include a transaction whose first offset is below the log start.
        """
        aborted_txns = []
        all_aborted_txns = self._aborted_txns
        for position in range(bisect_left(self._last_offsets, start_offset), len(all_aborted_txns)):
            aborted_txn = all_aborted_txns[position]
            if aborted_txn.first_offset < upper_offset:
                aborted_txns.append(aborted_txn)
            if aborted_txn.last_stable_offset >= upper_offset:
                break
        return tuple(aborted_txns)

    def __contains__(self, last_offset: int) -> bool:
        index = bisect_left(self._last_offsets, last_offset)
        return index < len(self._last_offsets) and self._last_offsets[index] == last_offset

    def entries(self) -> tuple[AbortedTxn, ...]:
        """All entries, in the order of their markers."""
        return tuple(self._aborted_txns)
