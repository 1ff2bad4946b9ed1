"""Transactions as the cleaner meets them on its way through a log (CleanedTransactionMetadata).

The records of an aborted transaction are useless and go at once. Its marker may go only when no
batch of it remains, or else a reader would take the rest for an open transaction; the same holds
for the marker of a committed one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from txnsim.log.txn_index import AbortedTxn
from txnsim.wire.batch import ABORT, COMMIT, BatchHeader, ControlRecord


class CleanedTxns:
    """The transactions around the present position. Batches are shown to it in
    order.
    """

    __slots__ = ("_aborted", "_committed", "_observed", "_waiting", "kept")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, AbortedTxn]] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()
        """Producers of aborted transactions of which a batch was met."""
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []
        """Aborted transactions whose marker was met and has to stay: the index of the cleaned
        part.
        """

    def expect(self, entries: Iterable[AbortedTxn]) -> None:
        """Transactions that were aborted in the part that comes next."""
        for entry in entries:
            heapq.heappush(self._waiting, (entry.first_offset, entry.last_offset, entry))

    def on_control(self, header: BatchHeader, record: ControlRecord | None) -> bool:
        """A control batch was met; whether nothing is left that needs it."""
        self._go_to(header.last_offset)
        if record is None:
            return True  # emptied before
        producer_id = header.producer_id
        if record.type == ABORT:
            entry = self._aborted.pop(producer_id, None)
            if entry is None or producer_id not in self._observed:
                return True
            self._observed.discard(producer_id)
            self.kept.append(entry)
            return False
        if record.type == COMMIT:
            if producer_id not in self._committed:
                return True
            self._committed.discard(producer_id)
        return False

    def on_data(self, header: BatchHeader) -> bool:
        """A batch of records was met; whether its transaction was aborted."""
        self._go_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._observed.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def _go_to(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            entry = heapq.heappop(waiting)[2]
            self._aborted.setdefault(entry.producer_id, entry)
