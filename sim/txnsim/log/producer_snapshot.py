"""The producers of a partition as of one offset (a snapshot of Kafka's ProducerStateManager).

Kafka's file of a snapshot has all producers, and each end of a segment takes one: with a segment
for each new producer the files grow with the square. Here a snapshot refers to an earlier whole
one and to what has changed since, so all snapshots of a log together are as large as its changes.
A reader gets all entries, in the order of the whole state.
"""

from __future__ import annotations

from itertools import islice

import msgspec


class SnapshotEntry(msgspec.Struct, frozen=True, gc=False):
    """One producer in a snapshot, with the fields of the snapshot file; of its batches only the
    newest, -1 if it has none (ProducerSnapshot.json).
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


class SnapshotChange(msgspec.Struct, frozen=True, gc=False):
    """The difference of a snapshot to the one before it."""

    entries: tuple[SnapshotEntry, ...]
    """Entries that are new or differ, new ones in the order of the whole state."""
    removed_ids: tuple[int, ...]
    """Producers that are gone. One that came back is among the entries, too."""
    count_since_whole: int
    """Entries and ids of this change and of all since the whole snapshot."""


class SnapshotSeries:
    """The entries of a whole snapshot, and the changes from each later snapshot to the next."""

    __slots__ = ("changes", "whole_entries")

    def __init__(
        self, whole_entries: tuple[SnapshotEntry, ...], changes: list[SnapshotChange]
    ) -> None:
        self.whole_entries = whole_entries
        self.changes = changes


class ProducerSnapshot(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A snapshot: a series up to one of its changes. Later changes of the series don't alter it."""

    series: SnapshotSeries
    change_count: int

    @classmethod
    def of_entries(cls, entries: tuple[SnapshotEntry, ...]) -> ProducerSnapshot:
        """Make a whole snapshot, with which a series begins."""
        return cls(SnapshotSeries(entries, []), 0)

    @property
    def count_since_whole(self) -> int:
        """Entries and ids that have changed between the whole snapshot and this one."""
        changes = self.series.changes
        return changes[self.change_count - 1].count_since_whole if self.change_count else 0

    def followed_by(
        self, entries: tuple[SnapshotEntry, ...], removed_ids: tuple[int, ...]
    ) -> ProducerSnapshot:
        """Return the next snapshot, in which so much differs (fields of ``SnapshotChange``)."""
        series = self.series
        if self.change_count < len(series.changes):
            # A truncated log goes on from this snapshot; later ones of the series are kept apart.
            series = SnapshotSeries(series.whole_entries, series.changes[: self.change_count])
        series.changes.append(
            SnapshotChange(
                entries,
                removed_ids,
                self.count_since_whole + len(entries) + len(removed_ids),
            )
        )
        return ProducerSnapshot(series, self.change_count + 1)

    def entries(self) -> tuple[SnapshotEntry, ...]:
        """All entries, in the order in which their producers first wrote."""
        if not self.change_count:
            return self.series.whole_entries
        entry_by_producer = {entry.producer_id: entry for entry in self.series.whole_entries}
        for change in islice(self.series.changes, self.change_count):
            for producer_id in change.removed_ids:
                del entry_by_producer[producer_id]
            for entry in change.entries:
                entry_by_producer[entry.producer_id] = entry
        return tuple(entry_by_producer.values())
