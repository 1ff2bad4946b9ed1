"""All that one log keeps of its producers (Kafka's ProducerStateManager): what follows from the
batches, snapshots of it, and guards that wait for the coordinator's word.

What may be appended is decided before, in ``txnsim.log.append_info``.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from txnsim.log.producer_state import NO_OFFSET, ProducerEntry, ProducerState, SnapshotEntry
from txnsim.log.replicated import described
from txnsim.log.segments import Segments
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


Snapshot = tuple[int, tuple[SnapshotEntry, ...]]
"""(offset, the producers as all below it has left them)."""


class Snapshots:
    """Snapshots of one log, by offset (the snapshot files of Kafka's ProducerStateManager).

    A reload begins with the newest one at or below the wanted end and replays only the batches
    behind it. One is taken where a segment ends and where a broker stops. A snapshot has only the
    last batch of each producer. So a reload loses the rest: producers whose records and snapshots
    are both deleted, and the four batches before the last one.
    """

    __slots__ = ("_by_offset",)

    def __init__(self) -> None:
        self._by_offset: dict[int, tuple[SnapshotEntry, ...]] = {}
        """Rising."""

    # Commands

    def take(self, offset: int, entries: tuple[SnapshotEntry, ...]) -> None:
        """Remember the state at ``offset``, unless a snapshot of it or of a later one exists."""
        if next(reversed(self._by_offset), -1) < offset:
            self._by_offset[offset] = entries

    def remove(self, offset: int) -> None:
        """Forget the snapshot at exactly ``offset``: its segment is deleted."""
        self._by_offset.pop(offset, None)

    def keep(self, *, above: int, up_to: int) -> None:
        """Forget the snapshots outside of a log that begins at ``above`` and ends at ``up_to``
        (ProducerStateManager.truncateAndReload).
        """
        self._by_offset = {
            offset: entries
            for offset, entries in self._by_offset.items()
            if above < offset <= up_to
        }

    def drop_stray(self, base_offsets: Sequence[int]) -> None:
        """Forget snapshots that belong to the beginning of no segment, but for the newest one of
        them where it lies behind all beginnings (ProducerStateManager.removeStraySnapshots).

        Args:
            base_offsets: Where segments begin, rising; at least one.
        """
        known = set(base_offsets)
        stray = [offset for offset in self._by_offset if offset not in known]
        if stray and stray[-1] > base_offsets[-1]:
            stray.pop()
        for offset in stray:
            self.remove(offset)

    # Queries

    @property
    def newest(self) -> Snapshot | None:
        """The snapshot of the highest offset."""
        return next(reversed(self._by_offset.items()), None)

    def all(self) -> tuple[Snapshot, ...]:
        """All of them, by offset."""
        return tuple(self._by_offset.items())
