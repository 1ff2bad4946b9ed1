"""A partition's state of each producer that wrote to it (Kafka's ProducerStateManager).

Per producer id: the epoch, the last five batches, and the first offset of the transaction that is
open *here*. The state is a function of the log: ``apply`` builds it, for a leader, a follower and a
reload alike. It does not depend on the coordinator; a hanging transaction is a disagreement between
the two.

``txnsim.log.leader_append`` decides beforehand whether a batch may be appended; this module never
refuses one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.log.producer_snapshot import ProducerSnapshot, SnapshotEntry
from txnsim.log.txn_index import AbortedTxn

NO_SEQUENCE: Final = -1
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1
CACHED_BATCHES_MAX: Final = 5
"""Number of a producer's latest batches that the log recognises as duplicates."""


def sequence_after(sequence: int, delta: int) -> int:
    """``sequence + delta``; after 2147483647 comes 0 (DefaultRecordBatch.incrementSequence)."""
    return (sequence + delta) & SEQUENCE_MAX


class BatchMetadata(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One of the last batches of a producer: the fields needed to recognise and answer a
    duplicate.
    """

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Offset of the batch's first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record, wrapped below 0 to 2147483647; -1 without batches."""
        if self.last_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


# Not a struct: a field of one takes twice as long to set, and these are set all the time.
@dataclass(slots=True)
class ProducerEntry:
    """The log's state of one producer id (Kafka's ProducerStateEntry)."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    coordinator_epoch: int = NO_EPOCH
    last_timestamp: int = -1
    txn_first_offset: int = NO_OFFSET
    batches: tuple[BatchMetadata, ...] = ()
    snapshot_entry: SnapshotEntry | None = field(default=None, compare=False, repr=False)
    """Its entry in the last snapshot; None if it has changed since."""

    @property
    def last_sequence(self) -> int:
        """Sequence of the producer's newest record; -1 if no batch of its epoch is known."""
        batches = self.batches
        return batches[-1].last_sequence if batches else NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        """Sequence of its next record; 0 after 2147483647, and if no batch is known."""
        batches = self.batches
        return (batches[-1].last_sequence + 1) & SEQUENCE_MAX if batches else 0

    @property
    def batch_timestamp(self) -> int:
        """Timestamp of the newest batch of the producer's epoch; -1 if none is known."""
        return self.batches[-1].timestamp if self.batches else -1

    def copy_for_listing(self) -> ProducerEntry:
        """A copy that later batches don't change. ``copy.copy`` takes six times as long, and a
        partition may have 100,000 producers, which are copied in one step.
        """
        return ProducerEntry(
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.txn_first_offset,
            self.batches,
        )

    def find_batch(self, base_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The cached batch with exactly these sequences."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                return batch
        return None


class PartitionProducers:
    """Producers of one partition and their open transactions.

    ``by_id`` has the entry of each producer. ``ongoing`` maps the first offset of each open
    transaction to its producer id. Offsets ascend, so insertion order is offset order and the first
    key is the smallest. ``ended`` maps the first offset to the marker's offset, for transactions
    whose marker is not yet below the high watermark; they also hold back the last stable offset.
    """

    __slots__ = ("_changed", "_ongoing", "_removed_ids", "_snapshot", "by_id", "ended")

    def __init__(self) -> None:
        self.by_id: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        self._snapshot: ProducerSnapshot | None = None
        """The last snapshot. Without one nothing is noted in the two that follow."""
        self._changed: dict[int, bool] = {}
        """Producers that have changed since -> whether the snapshot has them."""
        self._removed_ids: list[int] = []
        """Producers of the snapshot that are gone since."""

    # Commands

    def apply(self, batch: ReplicatedBatch) -> AbortedTxn | None:
        """Update a producer for a stored batch, without any check: a transactional batch opens a
        transaction if none is open, a marker ends it. Return the transaction that it aborts.
        """
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        if batch.is_control:
            if not batch.is_marker:
                # An emptied one says nothing, but its producer is known from then on, without an
                # epoch (ProducerStateManager.update).
                if producer_id not in self.by_id:
                    self._add(producer_id)
                return None
            return self.apply_marker(
                producer_id=producer_id,
                producer_epoch=batch.producer_epoch,
                coordinator_epoch=batch.coordinator_epoch,
                is_commit=batch.committed,
                marker_offset=batch.base_offset,
                timestamp=batch.timestamp_ms,
            )
        base_offset, last_offset = batch.base_offset, batch.last_offset
        timestamp, producer_epoch = batch.timestamp_ms, batch.producer_epoch
        entry = self.by_id.get(producer_id)
        if entry is None:
            entry = self._add(producer_id)
        elif entry.snapshot_entry is not None:
            entry.snapshot_entry = None
            self._changed.setdefault(producer_id, True)
        metadata = BatchMetadata(
            last_sequence=batch.last_sequence,
            last_offset=last_offset,
            offset_delta=last_offset - base_offset,
            timestamp=timestamp,
        )
        if entry.producer_epoch != producer_epoch:
            entry.producer_epoch = producer_epoch
            entry.batches = (metadata,)
        else:
            entry.batches = (*entry.batches[1 - CACHED_BATCHES_MAX :], metadata)
        entry.last_timestamp = timestamp
        if batch.is_transactional and entry.txn_first_offset == NO_OFFSET:
            entry.txn_first_offset = base_offset
            self._ongoing[base_offset] = producer_id
        return None

    def apply_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        is_commit: bool,
        marker_offset: int,
        timestamp: int,
    ) -> AbortedTxn | None:
        """Apply a producer's marker: it ends the producer's transaction, if one is open here.
        Return the transaction if it is aborted.

        Without a transaction it still sets the epochs (ProducerAppendInfo.appendEndTxnMarker): that
        keeps a zombie out of a partition to which nothing was written.
        """
        entry = self.by_id.get(producer_id)
        if entry is None:
            entry = self._add(producer_id)
        elif entry.snapshot_entry is not None:
            entry.snapshot_entry = None
            self._changed.setdefault(producer_id, True)
        if entry.producer_epoch != producer_epoch:
            entry.producer_epoch = producer_epoch
            entry.batches = ()
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset = entry.txn_first_offset
        if first_offset == NO_OFFSET:
            return None
        entry.txn_first_offset = NO_OFFSET
        del self._ongoing[first_offset]
        self.ended[first_offset] = marker_offset
        if is_commit:
            return None
        return AbortedTxn(
            producer_id=producer_id,
            first_offset=first_offset,
            last_offset=marker_offset,
            # The producer's own transaction is gone from `ongoing`, so the first of the rest is
            # another's.
            last_stable_offset=next(iter(self._ongoing), marker_offset + 1),
        )

    def release_below(self, offset: int) -> None:
        """Drop ended transactions whose markers are below ``offset``, that is replicated or
        deleted: they no longer hold back the last stable offset.
        """
        # Markers were written in the order of insertion, so the released ones come first.
        released_offsets = []
        for first_offset, marker_offset in self.ended.items():
            if marker_offset >= offset:
                break
            released_offsets.append(first_offset)
        for first_offset in released_offsets:
            del self.ended[first_offset]

    def evict_below(self, offset: int) -> None:
        """Remove producers whose last record is below ``offset``, with their open transactions.
        Brokers have not done this since KIP-360 (KAFKA-7190).
        """
        for entry in tuple(self.by_id.values()):
            if not entry.batches or entry.batches[-1].last_offset < offset:
                self.remove(entry.producer_id)

    def expire(
        self, *, now_ms: int, expiration_ms: int, do_markers_count: bool = True
    ) -> tuple[int, ...]:
        """Remove producers that have been idle for ``expiration_ms`` and have no open transaction;
        returns their ids.

        Args:
            now_ms: The cluster's time.
            expiration_ms: How long a producer is remembered.
            do_markers_count: Whether a marker counts as activity too (KAFKA-9144), not only a
                batch.
        """
        expired_ids = tuple(
            entry.producer_id
            for entry in self.by_id.values()
            if entry.txn_first_offset == NO_OFFSET
            and now_ms - (entry.last_timestamp if do_markers_count else entry.batch_timestamp)
            >= expiration_ms
        )
        for producer_id in expired_ids:
            self.remove(producer_id)
        return expired_ids

    def remove(self, producer_id: int) -> None:
        """Forget a producer, with its open transaction."""
        entry = self.by_id.pop(producer_id)
        self._ongoing.pop(entry.txn_first_offset, None)
        if self._snapshot is not None and self._changed.pop(producer_id, True):
            self._removed_ids.append(producer_id)

    def _add(self, producer_id: int) -> ProducerEntry:
        entry = self.by_id[producer_id] = ProducerEntry(producer_id)
        if self._snapshot is not None:
            self._changed[producer_id] = False
        return entry

    # Snapshots

    @classmethod
    def of_snapshot(
        cls, snapshot: ProducerSnapshot, *, now_ms: int, expiration_ms: int
    ) -> PartitionProducers:
        """The state in a snapshot, without producers that have expired since
        (ProducerStateManager.loadFromSnapshot). The next snapshot continues this one.
        """
        producers = cls()
        producers._snapshot = snapshot
        for snapshot_entry in snapshot.entries():
            is_open = snapshot_entry.txn_first_offset != NO_OFFSET
            if not is_open and now_ms - snapshot_entry.timestamp >= expiration_ms:
                producers._removed_ids.append(snapshot_entry.producer_id)
                continue
            entry = producers.by_id[snapshot_entry.producer_id] = ProducerEntry(
                snapshot_entry.producer_id
            )
            entry.producer_epoch = snapshot_entry.producer_epoch
            entry.coordinator_epoch = snapshot_entry.coordinator_epoch
            entry.last_timestamp = snapshot_entry.timestamp
            entry.txn_first_offset = snapshot_entry.txn_first_offset
            entry.snapshot_entry = snapshot_entry
            if snapshot_entry.last_offset != NO_OFFSET:
                newest_batch = BatchMetadata(
                    last_sequence=snapshot_entry.last_sequence,
                    last_offset=snapshot_entry.last_offset,
                    offset_delta=snapshot_entry.offset_delta,
                    timestamp=snapshot_entry.timestamp,
                )
                entry.batches = (newest_batch,)
        producers._ongoing = {
            entry.txn_first_offset: entry.producer_id
            for entry in sorted(producers.by_id.values(), key=lambda entry: entry.txn_first_offset)
            if entry.txn_first_offset != NO_OFFSET
        }
        return producers

    def take_snapshot(self) -> ProducerSnapshot:
        """Return a snapshot of this state, from which later changes are noted.

        It holds the changes since the last one; all entries once as many have changed since the
        last whole one. So all snapshots together hold as much as has changed.
        """
        last_snapshot = self._snapshot
        if last_snapshot is None or last_snapshot.count_since_whole + len(self._changed) + len(
            self._removed_ids
        ) >= len(self.by_id):
            self._snapshot = ProducerSnapshot.of_entries(self.to_snapshot())
        else:
            self._snapshot = last_snapshot.followed_by(
                tuple(
                    [
                        entry.snapshot_entry or to_snapshot_entry(entry)
                        for entry in self.unsaved_entries()
                    ]
                ),
                tuple(self._removed_ids),
            )
        self._changed, self._removed_ids = {}, []
        return self._snapshot

    def unsaved_entries(self) -> Sequence[ProducerEntry]:
        """Entries that the last snapshot does not have as they are, in the order of their first
        change.
        """
        if self._snapshot is None:
            return tuple(self.by_id.values())
        return [self.by_id[producer_id] for producer_id in self._changed]

    def to_snapshot(self) -> tuple[SnapshotEntry, ...]:
        """All entries of a snapshot (ProducerStateManager.writeSnapshot). Those that have not
        changed since the last one are reused, because there may be thousands of producers.
        """
        return tuple(
            [entry.snapshot_entry or to_snapshot_entry(entry) for entry in self.by_id.values()]
        )

    # Queries

    def find(self, producer_id: int) -> ProducerEntry | None:
        """The producer's entry, which the caller must not change."""
        return self.by_id.get(producer_id)

    def entries(self) -> Iterator[ProducerEntry]:
        """All entries, in the order in which their producers first wrote."""
        return iter(self.by_id.values())

    def first_undecided_offset(self) -> int | None:
        """First offset of the earliest open transaction."""
        return next(iter(self._ongoing), None)

    def first_unstable_offset(self) -> int | None:
        """First offset that a read_committed reader must not pass: its transaction is open, or
        ended but not replicated.
        """
        first_ongoing = next(iter(self._ongoing), None)
        if self.ended:
            unreplicated_offset = min(self.ended)
            return (
                unreplicated_offset
                if first_ongoing is None
                else min(first_ongoing, unreplicated_offset)
            )
        return first_ongoing

    def oldest_transaction_timestamp(self) -> int:
        """Timestamp of the last batch of the producer whose transaction began first; -1 if none is
        open.
        """
        for producer_id in self._ongoing.values():
            return self.by_id[producer_id].last_timestamp
        return -1

    def ongoing(self) -> tuple[tuple[int, int], ...]:
        """(first offset, producer id) of the open transactions, by first offset."""
        return tuple(self._ongoing.items())

    def ongoing_ids(self) -> Collection[int]:
        """Producer ids of the open transactions, by first offset; a view."""
        return self._ongoing.values()

    def open_images(self) -> tuple[ProducerEntry, ...]:
        """Copies of the entries with an open transaction, by first offset."""
        open_entries = map(self.by_id.get, self._ongoing.values())
        return tuple([entry.copy_for_listing() for entry in open_entries if entry is not None])

    def unreplicated_txns(self) -> tuple[tuple[int, int], ...]:
        """(first offset, marker's offset) of ended but unreplicated transactions, by first
        offset.
        """
        return tuple(sorted(self.ended.items()))

    def images(self) -> tuple[ProducerEntry, ...]:
        """Copies of all entries, by producer id."""
        return tuple([entry.copy_for_listing() for _, entry in sorted(self.by_id.items())])


def to_snapshot_entry(entry: ProducerEntry) -> SnapshotEntry:
    newest_batch = entry.batches[-1] if entry.batches else None
    snapshot_entry = entry.snapshot_entry = SnapshotEntry(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_offset=NO_OFFSET if newest_batch is None else newest_batch.last_offset,
        offset_delta=0 if newest_batch is None else newest_batch.offset_delta,
        timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        txn_first_offset=entry.txn_first_offset,
    )
    return snapshot_entry
