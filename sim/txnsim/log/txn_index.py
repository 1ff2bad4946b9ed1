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

    __slots__ = ("_entries", "_last_offsets")

    def __init__(self) -> None:
        self._entries: list[AbortedTxn] = []
        self._last_offsets = array("q")

    # Commands

    def append(self, entry: AbortedTxn) -> None:
        """Add an aborted transaction whose marker was just written."""
        assert not self._entries or entry.last_offset > self._last_offsets[-1]
        self._entries.append(entry)
        self._last_offsets.append(entry.last_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop transactions whose markers are at ``offset`` or above."""
        keep = bisect_left(self._last_offsets, offset)
        del self._entries[keep:]
        del self._last_offsets[keep:]

    def drop_before(self, offset: int) -> None:
        """Drop transactions whose markers are below ``offset``: no read can reach their records any
        more.
        """
        dropped_count = bisect_left(self._last_offsets, offset)
        del self._entries[:dropped_count]
        del self._last_offsets[:dropped_count]

    def remove(self, last_offset: int) -> None:
        """Drop the transaction whose marker is at exactly that offset."""
        if last_offset in self:
            index = bisect_left(self._last_offsets, last_offset)
            del self._entries[index]
            del self._last_offsets[index]

    def replace(self, start: int, end: int, entries: Sequence[AbortedTxn]) -> None:
        """Replace the entries whose markers are in ``[start, end)`` by ``entries``, because that
        part of the log was cleaned.
        """
        first_index = bisect_left(self._last_offsets, start)
        end_index = bisect_left(self._last_offsets, end)
        self._entries[first_index:end_index] = entries
        self._last_offsets[first_index:end_index] = array(
            "q", [entry.last_offset for entry in entries]
        )

    # Queries

    def lookup(self, start: int, upper: int) -> tuple[AbortedTxn, ...]:
        """Aborted transactions with offsets in ``[start, upper)``, in the order of their markers.

        As on a real broker, they include a transaction whose first offset is below the log start.
        """
        aborted_txns = []
        entries = self._entries
        for position in range(bisect_left(self._last_offsets, start), len(entries)):
            entry = entries[position]
            if entry.first_offset < upper:
                aborted_txns.append(entry)
            if entry.last_stable_offset >= upper:
                break
        return tuple(aborted_txns)

    def __contains__(self, last_offset: int) -> bool:
        index = bisect_left(self._last_offsets, last_offset)
        return index < len(self._last_offsets) and self._last_offsets[index] == last_offset

    def entries(self) -> tuple[AbortedTxn, ...]:
        """All entries, in the order of their markers."""
        return tuple(self._entries)
