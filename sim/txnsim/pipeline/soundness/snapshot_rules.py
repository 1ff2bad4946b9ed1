"""A snapshot of producers against the state that the log below its offset leads to.

A producer whose records lie before the oldest segment is taken from the snapshot: nothing else
knows it. One that the log has and the snapshot lacks may have expired before, unless a transaction
of it is open, or the file is too young for that. Kafka's counterparts:
ProducerStateManager.writeSnapshot, removeExpiredProducers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from txnsim.log.producer_state import (
    NO_EPOCH,
    NO_OFFSET,
    BatchMetadata,
    ProducerEntry,
    SnapshotEntry,
)
from txnsim.pipeline.soundness.parts import ProducerStretch
from txnsim.pipeline.soundness.violations import Broken, Invariant


class Known(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a producer at some offset. What there is none of is -1 or None."""

    producer_id: int
    producer_epoch: int
    newest: BatchMetadata | None
    last_timestamp: int
    last_offset: int
    """Of its last batch, markers included; -1 where only a snapshot tells of it."""
    coordinator_epoch: int
    open_offset: int

    @classmethod
    def after(cls, before: Known | None, stretch: ProducerStretch) -> Known:
        """Behind a stretch."""
        newest = stretch.newest
        coordinator_epoch = stretch.coordinator_epoch
        open_offset = stretch.open_offset
        if before is not None:
            if stretch.keeps_batches and before.producer_epoch == stretch.last_epoch:
                newest = before.newest
            if stretch.first_marker is None:
                coordinator_epoch = before.coordinator_epoch
                if before.open_offset != NO_OFFSET:
                    open_offset = before.open_offset
        return cls(
            producer_id=stretch.producer_id,
            producer_epoch=stretch.last_epoch,
            newest=newest,
            last_timestamp=stretch.last_timestamp,
            last_offset=stretch.last_offset,
            coordinator_epoch=coordinator_epoch,
            open_offset=open_offset,
        )

    def entry(self) -> ProducerEntry:
        """The same, as a partition keeps it."""
        entry = ProducerEntry(self.producer_id)
        entry.producer_epoch = self.producer_epoch
        entry.coordinator_epoch = self.coordinator_epoch
        entry.last_timestamp = self.last_timestamp
        entry.txn_first_offset = self.open_offset
        entry.batches = () if self.newest is None else (self.newest,)
        return entry

    def saved(self) -> SnapshotEntry:
        """The same, as a snapshot has it."""
        newest = self.newest
        return SnapshotEntry(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            last_sequence=-1 if newest is None else newest.last_sequence,
            last_offset=NO_OFFSET if newest is None else newest.last_offset,
            offset_delta=0 if newest is None else newest.offset_delta,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            txn_first_offset=self.open_offset,
        )


def known_of_snapshot(entries: Iterable[SnapshotEntry]) -> dict[int, Known]:
    """What a snapshot says, by producer id."""
    return {
        entry.producer_id: Known(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            newest=None
            if entry.last_offset == NO_OFFSET
            else BatchMetadata(
                last_sequence=entry.last_sequence,
                last_offset=entry.last_offset,
                offset_delta=entry.offset_delta,
                timestamp=entry.timestamp,
            ),
            last_timestamp=entry.timestamp,
            last_offset=NO_OFFSET,
            coordinator_epoch=entry.coordinator_epoch,
            open_offset=entry.txn_first_offset,
        )
        for entry in entries
    }


def judge_snapshot(
    entries: Sequence[SnapshotEntry],
    known: Mapping[int, Known],
    *,
    offset: int,
    path: Path,
    judged_from: int,
    expiration_ms: int,
) -> Iterator[Broken]:
    """What a snapshot says otherwise than the log.

    Args:
        entries: Of the snapshot.
        known: Producers by id, as the log below the snapshot's offset leaves them.
        offset: Of the snapshot.
        path: Its file.
        judged_from: Producers whose last batch lies below are left alone: deletion or the cleaner
            may have taken what the snapshot tells of.
        expiration_ms: After how long a broker forgets a producer.
    """
    saved = {entry.producer_id: entry for entry in entries}
    taken_by_ms = path.stat().st_mtime * 1_000
    for producer_id, one in known.items():
        entry = saved.get(producer_id)
        if one.last_offset < judged_from:
            continue
        if entry is None:
            # A file that is older than the record was copied without its time.
            is_young = 0 <= taken_by_ms - one.last_timestamp < expiration_ms
            if one.open_offset != NO_OFFSET or is_young:
                yield _broken(path, offset, one.saved(), found="no such producer")
        elif entry != one.saved():
            yield _broken(path, offset, one.saved(), found=_differing(entry, one.saved()))
    for entry in entries:
        # An entry without an epoch is what an emptied marker leaves of a producer.
        if entry.producer_id in known or entry.producer_epoch == NO_EPOCH:
            continue
        newest = max(entry.last_offset, entry.txn_first_offset)
        if newest >= judged_from:
            yield Broken(
                rule=Invariant.SNAPSHOT,
                file=path.name,
                offset=offset,
                found=f"producer {entry.producer_id} with a batch at offset {newest}",
                expected="no such producer in the log",
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
            )


def _broken(path: Path, offset: int, expected: SnapshotEntry, *, found: str) -> Broken:
    return Broken(
        rule=Invariant.SNAPSHOT,
        file=path.name,
        offset=offset,
        found=f"producer {expected.producer_id}: {found}",
        expected=", ".join(_fields(expected)),
        producer_id=expected.producer_id,
        producer_epoch=expected.producer_epoch,
    )


def _differing(entry: SnapshotEntry, expected: SnapshotEntry) -> str:
    pairs = zip(_fields(entry), _fields(expected), strict=True)
    return ", ".join(one for one, other in pairs if one != other)


def _fields(entry: SnapshotEntry) -> list[str]:
    values = msgspec.structs.asdict(entry)
    return [f"{name} {value}" for name, value in values.items() if name != "producer_id"]
