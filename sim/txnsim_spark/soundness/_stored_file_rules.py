"""Compares the files that brokers keep next to a log, ``.txnindex`` and ``.snapshot``, with the
state that follows from the log. An entry of a ``.txnindex`` is in the segment of its marker, with
the last stable offset of that moment. If all records of a producer lie before the oldest segment,
its state is taken from the snapshot, because nothing else has it. A producer that the log has and
the snapshot lacks may have expired before, unless a transaction of it is open, or the file is too
young for that. Kafka's counterparts: TransactionIndex, ProducerStateManager.writeSnapshot,
removeExpiredProducers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from txnsim.log.producer_state import NO_OFFSET, SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.types import NO_PRODUCER_EPOCH
from txnsim_spark.soundness.violations import Broken, Invariant


def judge_aborted(
    index: Sequence[AbortedTxn],
    expected: Sequence[AbortedTxn],
    *,
    file: str,
    blind_below: int,
) -> Iterator[Broken]:
    """The violations of a segment's ``.txnindex``, compared with the log.

    Args:
        index: Its entries.
        expected: The entries that follow from the log.
        file: Its name.
        blind_below: It is unknown which transactions were open at this offset, so entries that
            reach below it are not checked.
    """
    listed = {entry.last_offset: entry for entry in index}
    due = {entry.last_offset: entry for entry in expected}
    for marker in sorted(listed.keys() | due.keys()):
        entry, true = listed.get(marker), due.get(marker)
        if entry is None:
            assert true is not None
            yield _of_index(Invariant.ABORTED_MISSING, file, true, "no entry", _fields_text(true))
        elif min(entry.first_offset, entry.last_stable_offset) < blind_below:
            continue
        elif true is None:
            none = "no entry: no transaction was aborted there"
            yield _of_index(Invariant.ABORTED_EXTRA, file, entry, _fields_text(entry), none)
        elif entry != true:
            yield _of_index(
                Invariant.ABORTED_DIFFERS, file, true, _fields_text(entry), _fields_text(true)
            )


def _of_index(rule: Invariant, file: str, entry: AbortedTxn, actual: str, expected: str) -> Broken:
    return Broken(
        rule=rule,
        file=file,
        offset=entry.last_offset,
        found=actual,
        expected=expected,
        producer_id=entry.producer_id,
    )


def _fields_text(entry: AbortedTxn) -> str:
    return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(entry).items())


def judge_snapshot(
    entries: Sequence[SnapshotEntry],
    expected: Sequence[SnapshotEntry],
    last_offsets: Mapping[int, int],
    *,
    offset: int,
    path: Path,
    judged_from: int,
    expiration_ms: int,
) -> Iterator[Broken]:
    """The violations of a snapshot, compared with the log.

    Args:
        entries: Its entries.
        expected: The entries that follow from the log below its offset.
        last_offsets: Producer id -> offset of its last batch there, markers included.
        offset: Offset of the snapshot.
        path: Its file.
        judged_from: Producers whose last batch is below are not checked: deletion or the cleaner
            may have removed the batches that the snapshot is about.
        expiration_ms: Time after which a broker forgets a producer.
    """
    saved = {entry.producer_id: entry for entry in entries}
    taken_by_ms = path.stat().st_mtime * 1_000
    for true in expected:
        entry = saved.get(true.producer_id)
        if last_offsets.get(true.producer_id, NO_OFFSET) < judged_from:
            continue
        if entry is None:
            # A file that is older than the record was copied without its time.
            is_young = 0 <= taken_by_ms - true.timestamp < expiration_ms
            if true.txn_first_offset != NO_OFFSET or is_young:
                actual = f"producer {true.producer_id}: no such producer"
                yield _of_snapshot(path, offset, true, actual, ", ".join(_fields(true)))
        elif entry != true:
            pairs = zip(_fields(entry), _fields(true), strict=True)
            differing = ", ".join(
                saved_field for saved_field, true_field in pairs if saved_field != true_field
            )
            actual = f"producer {true.producer_id}: {differing}"
            yield _of_snapshot(path, offset, true, actual, ", ".join(_fields(true)))
    expected_producers = {entry.producer_id for entry in expected}
    for entry in entries:
        # An entry without an epoch is what an emptied marker leaves of a producer.
        if entry.producer_id in expected_producers or entry.producer_epoch == NO_PRODUCER_EPOCH:
            continue
        newest = max(entry.last_offset, entry.txn_first_offset)
        if newest >= judged_from:
            actual = f"producer {entry.producer_id} with a batch at offset {newest}"
            yield _of_snapshot(path, offset, entry, actual, "no such producer in the log")


def _of_snapshot(path: Path, offset: int, whose: SnapshotEntry, actual: str, true: str) -> Broken:
    return Broken(
        rule=Invariant.SNAPSHOT,
        file=path.name,
        offset=offset,
        found=actual,
        expected=true,
        producer_id=whose.producer_id,
        producer_epoch=whose.producer_epoch,
    )


def _fields(entry: SnapshotEntry) -> list[str]:
    values = msgspec.structs.asdict(entry)
    return [f"{name} {value}" for name, value in values.items() if name != "producer_id"]
