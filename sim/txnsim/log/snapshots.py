"""Producer state as it was at some offsets (the snapshot files of Kafka's ProducerStateManager).

A reload begins with the newest snapshot at or below the wanted end and replays only the batches
behind it. One is taken where a segment ends and where a broker stops. A snapshot has only the last
batch of each producer. So a reload loses the rest: producers whose records and snapshots are both
deleted, and the four batches before the last one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from txnsim.log.producer_state import SnapshotEntry

Snapshot = tuple[int, tuple[SnapshotEntry, ...]]
"""(offset, the producers as all below it has left them)."""


class Snapshots:
    """Snapshots of one log, by offset."""

    __slots__ = ("_offsets", "_snapshots")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._snapshots: list[tuple[SnapshotEntry, ...]] = []

    # Commands

    def take(self, offset: int, entries: tuple[SnapshotEntry, ...]) -> None:
        """Remember the state at ``offset``, unless a snapshot of it or of a later one exists."""
        if self._offsets and self._offsets[-1] >= offset:
            return
        self._offsets.append(offset)
        self._snapshots.append(entries)

    def remove(self, offset: int) -> None:
        """Forget the snapshot at exactly ``offset``: its segment is deleted."""
        at = bisect_left(self._offsets, offset)
        if at < len(self._offsets) and self._offsets[at] == offset:
            del self._offsets[at]
            del self._snapshots[at]

    def keep(self, *, above: int, up_to: int) -> None:
        """Forget the snapshots outside of a log that begins at ``above`` and ends at ``up_to``
        (ProducerStateManager.truncateAndReload).
        """
        first = bisect_right(self._offsets, above)
        end = bisect_right(self._offsets, up_to)
        self._offsets = self._offsets[first:end]
        self._snapshots = self._snapshots[first:end]

    def drop_stray(self, base_offsets: Sequence[int]) -> None:
        """Forget snapshots that belong to the beginning of no segment, but for the newest one of
        them where it lies behind all beginnings (ProducerStateManager.removeStraySnapshots).

        Args:
            base_offsets: Where segments begin, rising; at least one.
        """
        known = set(base_offsets)
        stray = [offset for offset in self._offsets if offset not in known]
        if stray and stray[-1] > base_offsets[-1]:
            stray.pop()
        for offset in stray:
            self.remove(offset)

    # Queries

    @property
    def newest(self) -> Snapshot | None:
        """The snapshot of the highest offset."""
        return (self._offsets[-1], self._snapshots[-1]) if self._offsets else None

    def all(self) -> tuple[Snapshot, ...]:
        """All of them, by offset."""
        return tuple(zip(self._offsets, self._snapshots, strict=True))
