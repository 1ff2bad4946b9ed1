"""All share partitions of one partition of ``__share_group_state``, under one leader epoch.

A shard is what its log says: ``apply`` is called with every record, living and loading. No state
needs what pruning has taken from the log. The epochs that fence are then those of the records that
are left, as in Kafka.

Counterparts in Kafka: ShareCoordinatorShard.replay, ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from heapq import heappop, heappush

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.interbroker.share_state import UNKNOWN_OFFSET, ShareKey
from txnsim.releases.rules import LATEST, Rules
from txnsim.share_state._combining import BackwardsBatchError, combining
from txnsim.share_state.log_format import decode_record
from txnsim.share_state.records import ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.wire.batch import iter_batches, read_records
from txnsim.wire.codec import at_once


class ShareStateShard(msgspec.Struct, kw_only=True, eq=False):
    """One partition's share partitions."""

    partition: int
    coordinator_epoch: int
    rules: Rules = LATEST
    updates_per_snapshot: int = 500
    """``share.coordinator.snapshot.update.records.per.snapshot``."""
    states: dict[ShareKey, ShareSnapshot] = {}
    """Each as a snapshot of it would be; the epochs and times are those of its last snapshot."""
    leader_epochs: dict[ShareKey, int] = {}
    """The highest that was seen: a lower one is fenced."""
    state_epochs: dict[ShareKey, int] = {}
    update_counts: dict[ShareKey, int] = {}
    """Updates since the snapshot that they had led to."""
    snapshots: SnapshotOffsets = msgspec.field(default_factory=lambda: SnapshotOffsets())
    end_offset: int = 0
    """Offset behind the last applied record, exclusive."""
    appended: int = -1
    """Offset of the last record that was appended since the load; -1: none."""
    problem: str | None = None
    """Why loading stopped before the end of the log, if it did."""

    # Replay

    def apply(
        self, record: ShareRecord, *, record_offset: int, new_state: ShareSnapshot | None = None
    ) -> None:
        """A record is in the log.

        Args:
            record: The record.
            record_offset: Its offset.
            new_state: What ``new_state`` has made of it.
        """
        key = record.key
        match record:
            case ShareSnapshot():
                self._see_leader_epoch(key, record.leader_epoch)
                if self.state_epochs.setdefault(key, record.state_epoch) < record.state_epoch:
                    self.state_epochs[key] = record.state_epoch
                self.states[key] = record
                if self.update_counts.get(key, -1) >= self.updates_per_snapshot:
                    self.update_counts[key] = 0
                self.snapshots.note_snapshot(key, record_offset)
            case ShareUpdate():
                self._see_leader_epoch(key, record.leader_epoch)
                self.states[key] = new_state or at_once(
                    _apply_update(self.states.get(key), record, self.rules)
                )
                self.update_counts[key] = self.update_counts.get(key, 0) + 1
            case _:
                offsets_by_key: tuple[dict[ShareKey, int], ...] = (
                    *(self.leader_epochs, self.state_epochs),
                    self.update_counts,
                )
                for offsets in offsets_by_key:
                    offsets.pop(key, None)
                self.states.pop(key, None)
                self.snapshots.note_snapshot(key, record_offset, is_deleted=True)
        self.end_offset = record_offset + 1

    def state_after(self, record: ShareRecord) -> Generator[int, None, ShareSnapshot | None]:
        """The state that an update leads to, made with breaks; None for another record."""
        if not isinstance(record, ShareUpdate):
            return None
        return (yield from _apply_update(self.states.get(record.key), record, self.rules))

    def read(self, chunks: Iterable[bytes]) -> Iterator[int]:
        """Become what the log says, a batch at a time; each step yields how many records it has
        read. A record that can't be read ends the reading, as in Kafka; ``problem`` has the error.

        Args:
            chunks: Batches in the order of the log; a chunk may hold several, end to end.
        """
        try:
            for chunk in chunks:
                for position, header in iter_batches(chunk):
                    if not header.is_control:
                        for record in read_records(chunk, position):
                            share_record = decode_record(record.key or b"", record.value)
                            if share_record is not None:
                                self.apply(share_record, record_offset=record.offset)
                    yield header.records_count
        except (CorruptBatchError, CorruptLogRecordError, BackwardsBatchError) as error:
            self.problem = str(error)

    # Upkeep

    def cold(self, keys: Iterable[ShareKey], *, now_ms: int, age_ms: int) -> list[ShareSnapshot]:
        """Of these share partitions those whose last snapshot is as old as that, as a new one.

        Only so the records in front of the old one may be pruned.
        """
        return [
            msgspec.structs.replace(
                state, snapshot_epoch=state.snapshot_epoch + 1, write_timestamp_ms=now_ms
            )
            for key in keys
            if (state := self.states.get(key)) is not None
            and now_ms - state.write_timestamp_ms >= age_ms
        ]

    def has_warm(self) -> bool:
        """Whether some state has not been written again since it was changed by its snapshot.
        Without any, no cold ones are looked for (ShareCoordinatorShard.snapshotColdPartitions).
        """
        return any(
            state.create_timestamp_ms == state.write_timestamp_ms for state in self.states.values()
        )

    def of_topics(self, topic_ids: Collection[str]) -> list[ShareKey]:
        """The share partitions of these topics."""
        return [key for key in self.states if key.topic_id in topic_ids]

    # Parts

    def _see_leader_epoch(self, key: ShareKey, leader_epoch: int) -> None:
        if self.leader_epochs.setdefault(key, leader_epoch) < leader_epoch:
            self.leader_epochs[key] = leader_epoch


class SnapshotOffsets(msgspec.Struct, eq=False):
    """Where each share partition has its last snapshot, and so below which offset nobody needs the
    log.
    """

    _offsets: dict[ShareKey, int] = {}
    _lowest: list[tuple[int, ShareKey]] = []
    """A heap; what is no longer a last snapshot leaves it late."""
    redundant_below: int = 0
    """Every record below it is redundant; 0 where there is none."""

    def note_snapshot(self, key: ShareKey, offset: int, *, is_deleted: bool = False) -> None:
        """A snapshot or a tombstone is at this offset, the highest so far."""
        self._offsets[key] = offset
        heappush(self._lowest, (offset, key))
        while self._offsets.get(self._lowest[0][1]) != self._lowest[0][0]:
            heappop(self._lowest)
        # A tombstone still counts in its own step, as in ShareCoordinatorOffsetsManager.
        self.redundant_below = self._lowest[0][0]
        if is_deleted:
            del self._offsets[key]


def _apply_update(
    state: ShareSnapshot | None, update: ShareUpdate, rules: Rules
) -> Generator[int, None, ShareSnapshot]:
    """The state with what an update says. One without a snapshot in front of it is all there is."""
    if state is None:
        return ShareSnapshot(
            key=update.key,
            snapshot_epoch=update.snapshot_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=update.batches,
        )
    start_offset = (
        state.start_offset if update.start_offset == UNKNOWN_OFFSET else update.start_offset
    )
    batches = yield from combining(
        state.batches, update.batches, start_offset=start_offset, rules=rules
    )
    return ShareSnapshot(
        key=state.key,
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch if update.leader_epoch == -1 else update.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        create_timestamp_ms=state.create_timestamp_ms,
        write_timestamp_ms=state.write_timestamp_ms,
        batches=batches,
    )
