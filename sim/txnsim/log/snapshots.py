"""Producer state as it was at some offsets (the snapshot files of Kafka's ProducerStateManager).

A reload begins with the newest snapshot at or below the wanted end and replays only the batches
behind it. One is taken where a segment ends and where a broker stops. A snapshot has only the last
batch of each producer. So a reload loses the rest: producers whose records and snapshots are both
deleted, and the four batches before the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from txnsim.log.producer_state import SnapshotEntry

Snapshot = tuple[int, tuple[SnapshotEntry, ...]]
"""(offset, the producers as all below it has left them)."""


class Snapshots:
    """Snapshots of one log, by offset."""

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
