"""All share partitions of one partition of ``__share_group_state``, under one leader epoch.

A shard holds what its log says: ``apply`` is called with every record, when it is appended and when
the log is loaded. Pruning removes only records that no state needs. After pruning, the epochs that
fence are those of the remaining records, as in Kafka.

Counterparts in Kafka: ShareCoordinatorShard.replay, ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from heapq import heappop, heappush

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.interbroker.share_state import UNKNOWN_OFFSET, ShareKey
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.share_state._combining import BackwardsBatchError, combine_in_steps
from txnsim.share_state.log_format import decode_record
from txnsim.share_state.records import ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.wire.batch import iter_batches, read_records
from txnsim.wire.codec import run_to_end


class ShareStateShard(msgspec.Struct, kw_only=True, eq=False):
    """The states of the share partitions of one partition of ``__share_group_state``."""

    partition: int
    coordinator_epoch: int
    rules: Rules = LATEST_RULES
    updates_per_snapshot: int = 500
    """``share.coordinator.snapshot.update.records.per.snapshot``."""
    states: dict[ShareKey, ShareSnapshot] = {}
    """Current state of each share partition; its epochs and times are those of its last
    snapshot.
    """
    leader_epochs: dict[ShareKey, int] = {}
    """Highest leader epoch seen of each share partition: a lower one is fenced."""
    state_epochs: dict[ShareKey, int] = {}
    update_counts: dict[ShareKey, int] = {}
    """Number of updates of each share partition since they last led to a snapshot."""
    snapshot_offsets: SnapshotOffsets = msgspec.field(default_factory=lambda: SnapshotOffsets())
    end_offset: int = 0
    """Offset after the last applied record."""
    last_appended_offset: int = -1
    """Offset of the last record that was appended since the load; -1 if none was."""
    load_problem: str | None = None
    """Why loading stopped before the end of the log; None if it did not."""

    # Replay

    def apply(
        self, record: ShareRecord, *, record_offset: int, new_state: ShareSnapshot | None = None
    ) -> None:
        """Apply a record of the log to the states.

        Args:
            record: The record.
            record_offset: Its offset.
            new_state: The state after an update, if ``state_after`` has computed it.
        """
        key = record.key
        match record:
            case ShareSnapshot():
                self._raise_leader_epoch(key, record.leader_epoch)
                if self.state_epochs.setdefault(key, record.state_epoch) < record.state_epoch:
                    self.state_epochs[key] = record.state_epoch
                self.states[key] = record
                if self.update_counts.get(key, -1) >= self.updates_per_snapshot:
                    self.update_counts[key] = 0
                self.snapshot_offsets.note_snapshot(key, record_offset)
            case ShareUpdate():
                self._raise_leader_epoch(key, record.leader_epoch)
                self.states[key] = new_state or run_to_end(
                    _apply_update(self.states.get(key), record, self.rules)
                )
                self.update_counts[key] = self.update_counts.get(key, 0) + 1
            case _:
                numbers_by_key: tuple[dict[ShareKey, int], ...] = (
                    *(self.leader_epochs, self.state_epochs),
                    self.update_counts,
                )
                for share_numbers in numbers_by_key:
                    share_numbers.pop(key, None)
                self.states.pop(key, None)
                self.snapshot_offsets.note_snapshot(key, record_offset, is_deleted=True)
        self.end_offset = record_offset + 1

    def state_after(self, record: ShareRecord) -> Generator[int, None, ShareSnapshot | None]:
        """Compute the state after an update, in slices; None for another record."""
        if not isinstance(record, ShareUpdate):
            return None
        return (yield from _apply_update(self.states.get(record.key), record, self.rules))

    def read(self, log_chunks: Iterable[bytes]) -> Iterator[int]:
        """Apply the records of a log, a batch at a time; yields the number of records of each
        batch. A record that can't be read ends the reading, as in Kafka; ``load_problem`` has the
        error.

        Args:
            log_chunks: Batches in the order of the log; a chunk may hold several, end to end.
        """
        try:
            for log_chunk in log_chunks:
                for batch_position, batch_header in iter_batches(log_chunk):
                    if not batch_header.is_control:
                        for record in read_records(log_chunk, batch_position):
                            share_record = decode_record(record.key or b"", record.value)
                            if share_record is not None:
                                self.apply(share_record, record_offset=record.offset)
                    yield batch_header.records_count
        except (CorruptBatchError, CorruptLogRecordError, BackwardsBatchError) as error:
            self.load_problem = str(error)

    # Upkeep

    def cold_snapshots(
        self, keys: Iterable[ShareKey], *, now_ms: int, age_ms: int
    ) -> list[ShareSnapshot]:
        """New snapshots for those share partitions whose last snapshot is at least ``age_ms`` old.

        They allow the records in front of the old snapshots to be pruned.
        """
        return [
            msgspec.structs.replace(
                state, snapshot_epoch=state.snapshot_epoch + 1, write_timestamp_ms=now_ms
            )
            for key in keys
            if (state := self.states.get(key)) is not None
            and now_ms - state.write_timestamp_ms >= age_ms
        ]

    def has_warm_partition(self) -> bool:
        """Whether the last snapshot of some share partition came from a change, and was not written
        again since. If none did, no cold snapshots are looked for
        (ShareCoordinatorShard.snapshotColdPartitions).
        """
        return any(
            state.create_timestamp_ms == state.write_timestamp_ms for state in self.states.values()
        )

    def keys_of_topics(self, topic_ids: Collection[str]) -> list[ShareKey]:
        """The share partitions of the given topics."""
        return [key for key in self.states if key.topic_id in topic_ids]

    # Parts

    def _raise_leader_epoch(self, key: ShareKey, leader_epoch: int) -> None:
        if self.leader_epochs.setdefault(key, leader_epoch) < leader_epoch:
            self.leader_epochs[key] = leader_epoch


class SnapshotOffsets(msgspec.Struct, eq=False):
    """Offset of the last snapshot of each share partition, and the offset below which the log is
    redundant.
    """

    _offsets: dict[ShareKey, int] = {}
    _offset_heap: list[tuple[int, ShareKey]] = []
    """A heap of snapshot offsets; one that is no longer the last of its share partition leaves it
    late.
    """
    redundant_below: int = 0
    """Every record below this offset is redundant; 0 if none is."""

    def note_snapshot(self, key: ShareKey, offset: int, *, is_deleted: bool = False) -> None:
        """Note a snapshot or a tombstone at this offset, the highest so far."""
        self._offsets[key] = offset
        heappush(self._offset_heap, (offset, key))
        while self._offsets.get(self._offset_heap[0][1]) != self._offset_heap[0][0]:
            heappop(self._offset_heap)
        # A tombstone still counts in its own step, as in ShareCoordinatorOffsetsManager.
        self.redundant_below = self._offset_heap[0][0]
        if is_deleted:
            del self._offsets[key]


def _apply_update(
    state: ShareSnapshot | None, update: ShareUpdate, release_rules: Rules
) -> Generator[int, None, ShareSnapshot]:
    """Apply an update to a state. Without a state, the update alone makes the new state."""
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
    batches = yield from combine_in_steps(
        state.batches, update.batches, start_offset=start_offset, release_rules=release_rules
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
