"""Share partitions in short notation.

What is read: ``0-9 10-19``, the batches of the log. What a member gets: ``0-9:1``, with the
delivery count. What it says: ``0-9:1`` or ``0-2:1,2,3``, with acknowledge types. What is in flight:
``0-4 acquired a 1, 5-9 available 2``; ``...`` behind a state that is being persisted.
"""

from __future__ import annotations

from collections.abc import Iterator

from txnsim.errors import Rejection
from txnsim.interbroker.share_state import ShareKey, ShareState, StateBatch
from txnsim.releases.rules import LATEST, Rules
from txnsim.share.commands import (
    AbortedRange,
    AcknowledgementBatch,
    Acquire,
    Acquired,
    AcquireMode,
    Concluded,
    ReadBatch,
    SharePartitionSettings,
    Write,
)
from txnsim.share.partition import SharePartition

KEY = ShareKey("group", "topic-id", 0)
SETTINGS = SharePartitionSettings()
LOCK_MS = SETTINGS.record_lock_duration_ms
STRICT = AcquireMode.RECORD_LIMIT


def bounds(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def read(text: str) -> tuple[ReadBatch, ...]:
    found = (bounds(one) for one in text.split())
    return tuple(ReadBatch(base_offset=first, last_offset=last) for first, last in found)


def new_partition(rules: Rules = LATEST) -> SharePartition:
    return SharePartition(KEY, "orders", 3, rules=rules)


def loaded(
    *state: str, start: int = 0, settings: SharePartitionSettings = SETTINGS, rules: Rules = LATEST
) -> SharePartition:
    """With the persisted batches ``first-last state count``."""
    batches = []
    for one in state:
        where, delivery_state, count = one.split()
        batches.append(StateBatch(*bounds(where), int(delivery_state), int(count)))
    partition = new_partition(rules)
    partition.start_loading()
    answer = ShareState(key=KEY, state_epoch=7, start_offset=start, batches=tuple(batches))
    assert not isinstance(partition.load(answer, -1, settings), Rejection)
    return partition


class Member:
    """One member of the group at this share partition."""

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
        at: int | None = None,
        most: int = 500,
        batch_size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        aborted: tuple[AbortedRange, ...] = (),
        now_ms: int = 0,
    ) -> Acquired | Rejection:
        fetched = read(batches) if isinstance(batches, str) else batches
        return self.partition.acquire(
            Acquire(
                member_id=self.name,
                mode=mode,
                batch_size=batch_size,
                max_records=most,
                fetch_offset=self.partition.next_fetch_offset() if at is None else at,
                batches=fetched,
                aborted=aborted,
            ),
            self.settings,
            now_ms,
        )

    def takes(self, batches: str, **options: object) -> str:
        got = self.fetch(batches, **options)  # type: ignore[arg-type]
        assert isinstance(got, Acquired), got
        assert got.count == sum(one.last_offset - one.first_offset + 1 for one in got.ranges)
        return " ".join(
            f"{one.first_offset}-{one.last_offset}:{one.delivery_count}" for one in got.ranges
        )

    def says(self, text: str, now_ms: int = 0) -> Write | Rejection | None:
        batches = []
        for one in text.split():
            where, _, types = one.partition(":")
            first, last = bounds(where)
            batches.append(
                AcknowledgementBatch(
                    first_offset=first,
                    last_offset=last,
                    types=tuple(int(each) for each in types.split(",") if each),
                )
            )
        return self.partition.acknowledge(self.name, batches, self.settings, now_ms)

    def said(self, text: str, now_ms: int = 0) -> Concluded:
        """Persisted as well."""
        return persisted(self.partition, self.says(text, now_ms), now_ms)

    def leaves(self) -> Write | None:
        return self.partition.release(self.name, self.settings)


def persisted(
    partition: SharePartition, write: Write | Rejection | None, now_ms: int = 0, error: int = 0
) -> Concluded:
    assert isinstance(write, Write), write
    return partition.conclude(write.token, error, None, now_ms)


def shown(partition: SharePartition) -> str:
    return ", ".join(_words(partition))


def _words(partition: SharePartition) -> Iterator[str]:
    for one in partition.in_flight():
        member = f" {one.member_id}" if one.member_id else ""
        rest = " ..." if one.is_being_persisted else ""
        name = one.state.name.lower()
        yield f"{one.first_offset}-{one.last_offset} {name}{member} {one.delivery_count}{rest}"


def batches_of(write: Write | Rejection | None) -> str:
    """What a write persists: ``first-last state count``."""
    assert isinstance(write, Write), write
    return ", ".join(
        f"{one.first_offset}-{one.last_offset} {one.delivery_state:d} {one.delivery_count}"
        for one in write.state.batches
    )


def offsets(partition: SharePartition) -> tuple[int, int, int, int]:
    """Start, end, next fetch offset, delivery complete count."""
    return (
        partition.start_offset,
        partition.end_offset,
        partition.next_fetch_offset(),
        partition.delivery_complete_count,
    )
