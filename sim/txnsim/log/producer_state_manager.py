"""All that one log keeps of its producers (Kafka's ProducerStateManager): what follows from the
batches, snapshots of it, and guards that wait for the coordinator's word.

What may be appended is decided before, in ``txnsim.log.append_info``.
"""

from __future__ import annotations

from copy import copy

from txnsim.log.producer_state import NO_OFFSET, ProducerEntry, ProducerState
from txnsim.log.replicated import described
from txnsim.log.segments import Segments
from txnsim.log.snapshots import Snapshot, Snapshots
from txnsim.log.verification import VerificationEntries
from txnsim.wire.batch import read_batch_header


class ProducerStateManager:
    """The producers of one log.

    ``state`` is what the batches say. ``snapshots`` is what a reload begins with. ``verification``
    is memory alone: another leader has none of it.
    """

    __slots__ = ("snapshots", "state", "verification")

    def __init__(self) -> None:
        self.state = ProducerState()
        self.snapshots = Snapshots()
        self.verification = VerificationEntries()

    # Commands

    def take_snapshot(self, offset: int) -> None:
        """Remember the state as all below ``offset`` has left it."""
        self.snapshots.take(offset, self.state.to_snapshot())

    def reload(
        self, segments: Segments, *, start: int, end: int, now_ms: int, expiration_ms: int
    ) -> None:
        """Rebuild the state from the newest snapshot and the batches behind it
        (ProducerStateManager.truncateAndReload, UnifiedLog.rebuildProducerState).

        Data that neither holds is lost: batches before a producer's last one at the snapshot, and
        producers whose records are deleted.
        """
        self.snapshots.keep(above=start, up_to=end)
        newest = self.snapshots.newest
        self.state = ProducerState()
        if newest is not None:
            start, entries = newest
            self.state = ProducerState.of_snapshot(
                entries, now_ms=now_ms, expiration_ms=expiration_ms
            )
        for segment in segments.between(start, end):
            for batch in segment.slice(segment.index_of(start), len(segment)):
                header = read_batch_header(batch)
                if header.producer_id >= 0:
                    self.state.apply(described(batch, header))
        if end > start:
            self.take_snapshot(end)

    def restart(self) -> None:
        """The log was emptied (ProducerStateManager.truncateFullyAndStartAt)."""
        self.state = ProducerState()
        self.snapshots = Snapshots()

    # Queries

    def all(self) -> tuple[ProducerEntry, ...]:
        """All producers that are known here, with or without an open transaction, as they are now
        (DescribeProducers).
        """
        return tuple([copy(entry) for entry in self.state.entries()])

    def open(self) -> tuple[ProducerEntry, ...]:
        """Those of them with an open transaction, in the order of its first offset."""
        found = (self.state.find(producer_id) for _, producer_id in self.state.ongoing())
        return tuple([copy(entry) for entry in found if entry is not None])

    def open_transaction_of(self, producer_id: int) -> int:
        """First offset of the producer's open transaction, -1 without one."""
        entry = self.state.find(producer_id)
        return NO_OFFSET if entry is None else entry.txn_first_offset

    @property
    def newest_snapshot_offset(self) -> int | None:
        """Where the newest snapshot was taken; None without one."""
        newest = self.snapshots.newest
        return None if newest is None else newest[0]

    def snapshots_with(self, end_offset: int) -> tuple[Snapshot, ...]:
        """The snapshots by offset, and one of the state after all batches, as a broker takes it at
        a clean stop.
        """
        known = dict(self.snapshots.all())
        known[end_offset] = self.state.to_snapshot()
        return tuple(known.items())
