"""A snapshot of producers, compared with the state to which the log below its offset leads.

If all records of a producer lie before the oldest segment, its state is taken from the snapshot,
because nothing else has it. A producer that the log has and the snapshot has not may have expired
before, unless a transaction of it is open, or the file is too young for that. Kafka's counterparts:
ProducerStateManager.writeSnapshot, removeExpiredProducers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.log.producer_state import NO_EPOCH, NO_OFFSET, ProducerState, SnapshotEntry
from txnsim.pipeline.soundness.parts import ProducerStretch
from txnsim.pipeline.soundness.violations import Broken, Invariant

NEVER_MS: Final = 1 << 63


class Known(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a producer at some offset."""

    saved: SnapshotEntry
    """As a snapshot has it."""
    last_offset: int = NO_OFFSET
    """Of its last batch, markers included; -1 where only a snapshot tells of it."""

    @classmethod
    def after(cls, before: Known | None, stretch: ProducerStretch) -> Known:
        """Behind a stretch."""
        left = stretch.left
        if before is not None:
            was = before.saved
            if stretch.keeps_batches and was.producer_epoch == left.producer_epoch:
                left = msgspec.structs.replace(
                    left,
                    last_sequence=was.last_sequence,
                    last_offset=was.last_offset,
                    offset_delta=was.offset_delta,
                )
            if stretch.first_marker is None:
                left = msgspec.structs.replace(left, coordinator_epoch=was.coordinator_epoch)
                if before.open_offset != NO_OFFSET:
                    left = msgspec.structs.replace(left, txn_first_offset=before.open_offset)
        return cls(saved=left, last_offset=stretch.last_offset)

    @property
    def open_offset(self) -> int:
        """First offset of the transaction that is open; -1 for none."""
        return self.saved.txn_first_offset

    def state(self) -> ProducerState:
        """The same, as a partition keeps it."""
        return ProducerState.of_snapshot(
            [self.saved], now_ms=self.saved.timestamp, expiration_ms=NEVER_MS
        )


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
        entry, true = saved.get(producer_id), one.saved
        if one.last_offset < judged_from:
            continue
        if entry is None:
            # A file that is older than the record was copied without its time.
            is_young = 0 <= taken_by_ms - true.timestamp < expiration_ms
            if one.open_offset != NO_OFFSET or is_young:
                yield _broken(path, offset, true, found="no such producer")
        elif entry != true:
            yield _broken(path, offset, true, found=_differing(entry, true))
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
