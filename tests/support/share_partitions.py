"""Share partitions in short notation.

What is read: ``0-9 10-19``, the batches of the log. What a member gets: ``0-9:1``, with the
delivery count. What it says: ``0-9:1`` or ``0-2:1,2,3``, with acknowledge types. What is in flight:
``0-4 acquired a 1, 5-9 available 2``; ``...`` behind a state that is being persisted.
"""

from __future__ import annotations

from collections.abc import Iterator

from txnsim.errors import Rejection
from txnsim.interbroker.share_state import ShareKey, ShareState, StateBatch
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.share.commands import (
    AbortedRange,
    AcknowledgementBatch,
    AcquireCommand,
    AcquireMode,
    AcquireResult,
    ConcludedWrite,
    ReadBatch,
    SharePartitionSettings,
    StateWrite,
)
from txnsim.share.partition import SharePartition

KEY = ShareKey("group", "topic-id", 0)
SETTINGS = SharePartitionSettings()
LOCK_MS = SETTINGS.record_lock_duration_ms
STRICT = AcquireMode.RECORD_LIMIT


def bounds(text: str) -> tuple[int, int]:
    first_offset, _, last_offset = text.partition("-")
    return int(first_offset), int(last_offset or first_offset)


def read(text: str) -> tuple[ReadBatch, ...]:
    ranges = (bounds(range_text) for range_text in text.split())
    return tuple(
        ReadBatch(base_offset=base_offset, last_offset=last_offset)
        for base_offset, last_offset in ranges
    )


def new_partition(rules: Rules = LATEST_RULES) -> SharePartition:
    return SharePartition(KEY, "orders", 3, release_rules=rules)


def load_partition(
    *state: str,
    start: int = 0,
    settings: SharePartitionSettings = SETTINGS,
    rules: Rules = LATEST_RULES,
) -> SharePartition:
    """A share partition loaded with persisted batches, written ``first-last state count``."""
    batches = []
    for range_text in state:
        offset_range, delivery_state, count = range_text.split()
        batches.append(StateBatch(*bounds(offset_range), int(delivery_state), int(count)))
    partition = new_partition(rules)
    partition.start_loading()
    share_state = ShareState(key=KEY, state_epoch=7, start_offset=start, batches=tuple(batches))
    assert not isinstance(partition.load(share_state, -1, settings), Rejection)
    return partition


class PartitionMember:
    """A member of the group at this share partition."""

    def __init__(
        self,
        partition: SharePartition,
        name: str = "a",
        settings: SharePartitionSettings = SETTINGS,
    ) -> None:
        self.partition = partition
        self.name = name
        self.settings = settings

    def fetch(
        self,
        batches: str | tuple[ReadBatch, ...],
        *,
        fetch_offset: int | None = None,
        most: int = 500,
        batch_size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        aborted: tuple[AbortedRange, ...] = (),
        now_ms: int = 0,
    ) -> AcquireResult | Rejection:
        fetched_batches = read(batches) if isinstance(batches, str) else batches
        return self.partition.acquire(
            AcquireCommand(
                member_id=self.name,
                mode=mode,
                batch_size=batch_size,
                max_records=most,
                fetch_offset=self.partition.next_fetch_offset()
                if fetch_offset is None
                else fetch_offset,
                batches=fetched_batches,
                aborted=aborted,
            ),
            self.settings,
            now_ms,
        )

    def takes(self, batches: str, **options: object) -> str:
        acquired = self.fetch(batches, **options)  # type: ignore[arg-type]
        assert isinstance(acquired, AcquireResult), acquired
        assert acquired.count == sum(
            acquired_range.last_offset - acquired_range.first_offset + 1
            for acquired_range in acquired.ranges
        )
        return " ".join(
            f"{acquired_range.first_offset}-{acquired_range.last_offset}:{acquired_range.delivery_count}"
            for acquired_range in acquired.ranges
        )

    def says(self, text: str, now_ms: int = 0) -> StateWrite | Rejection | None:
        batches = []
        for range_text in text.split():
            offset_range, _, types = range_text.partition(":")
            first_offset, last_offset = bounds(offset_range)
            batches.append(
                AcknowledgementBatch(
                    first_offset=first_offset,
                    last_offset=last_offset,
                    types=tuple(int(ack_type) for ack_type in types.split(",") if ack_type),
                )
            )
        return self.partition.acknowledge(self.name, batches, self.settings, now_ms)

    def acknowledge(self, text: str, now_ms: int = 0) -> ConcludedWrite:
        """Acknowledge records, and persist the write."""
        return persist(self.partition, self.says(text, now_ms), now_ms)

    def leaves(self) -> StateWrite | None:
        return self.partition.release(self.name, self.settings)


def persist(
    partition: SharePartition, write: StateWrite | Rejection | None, now_ms: int = 0, error: int = 0
) -> ConcludedWrite:
    assert isinstance(write, StateWrite), write
    return partition.conclude(write.token, error, None, now_ms)


def in_flight_text(partition: SharePartition) -> str:
    return ", ".join(_words(partition))


def _words(partition: SharePartition) -> Iterator[str]:
    for batch in partition.in_flight_ranges():
        member = f" {batch.member_id}" if batch.member_id else ""
        suffix = " ..." if batch.is_being_persisted else ""
        name = batch.state.name.lower()
        bounds_text = f"{batch.first_offset}-{batch.last_offset}"
        yield f"{bounds_text} {name}{member} {batch.delivery_count}{suffix}"


def batches_of(write: StateWrite | Rejection | None) -> str:
    """The batches that a write persists, as ``first-last state count``."""
    assert isinstance(write, StateWrite), write
    return ", ".join(
        f"{batch.first_offset}-{batch.last_offset} {batch.delivery_state:d} {batch.delivery_count}"
        for batch in write.state.batches
    )


def offsets(partition: SharePartition) -> tuple[int, int, int, int]:
    """Start offset, end offset, next fetch offset and number of complete deliveries."""
    return (
        partition.start_offset,
        partition.end_offset,
        partition.next_fetch_offset(),
        partition.delivery_complete_count,
    )
