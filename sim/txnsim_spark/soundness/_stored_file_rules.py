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

from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.log.producer_state import NO_OFFSET
from txnsim.log.txn_index import AbortedTxn
from txnsim.types import NO_PRODUCER_EPOCH
from txnsim_spark.soundness.violations import BrokenRule, Invariant


def judge_aborted(
    index_entries: Sequence[AbortedTxn],
    expected_entries: Sequence[AbortedTxn],
    *,
    file: str,
    open_unknown_below: int,
) -> Iterator[BrokenRule]:
    """The violations of a segment's ``.txnindex``, compared with the log.

    Args:
        index_entries: The file's entries.
        expected_entries: The entries that follow from the log.
        file: The file's name.
        open_unknown_below: Offset at which it is unknown which transactions were open, so entries
            that reach below it are not checked.
    """
    entry_by_marker = {aborted_txn.last_offset: aborted_txn for aborted_txn in index_entries}
    expected_by_marker = {aborted_txn.last_offset: aborted_txn for aborted_txn in expected_entries}
    for marker_offset in sorted(entry_by_marker.keys() | expected_by_marker.keys()):
        aborted_txn, expected_txn = (
            entry_by_marker.get(marker_offset),
            expected_by_marker.get(marker_offset),
        )
        if aborted_txn is None:
            assert expected_txn is not None
            yield _index_violation(
                Invariant.ABORTED_MISSING,
                file,
                expected_txn,
                "no entry",
                _fields_text(expected_txn),
            )
        elif min(aborted_txn.first_offset, aborted_txn.last_stable_offset) < open_unknown_below:
            continue
        elif expected_txn is None:
            no_entry_text = "no entry: no transaction was aborted there"
            yield _index_violation(
                Invariant.ABORTED_EXTRA, file, aborted_txn, _fields_text(aborted_txn), no_entry_text
            )
        elif aborted_txn != expected_txn:
            yield _index_violation(
                Invariant.ABORTED_DIFFERS,
                file,
                expected_txn,
                _fields_text(aborted_txn),
                _fields_text(expected_txn),
            )


def _index_violation(
    invariant: Invariant, file: str, aborted_txn: AbortedTxn, actual: str, expected: str
) -> BrokenRule:
    return BrokenRule(
        rule=invariant,
        file=file,
        offset=aborted_txn.last_offset,
        found=actual,
        expected=expected,
        producer_id=aborted_txn.producer_id,
    )


def _fields_text(aborted_txn: AbortedTxn) -> str:
    return ", ".join(
        f"{field_name} {value}" for field_name, value in msgspec.structs.asdict(aborted_txn).items()
    )


def judge_snapshot(
    stored_entries: Sequence[SnapshotEntry],
    expected_entries: Sequence[SnapshotEntry],
    last_offset_by_producer: Mapping[int, int],
    *,
    offset: int,
    path: Path,
    judged_from: int,
    expiration_ms: int,
) -> Iterator[BrokenRule]:
    """The violations of a snapshot, compared with the log.

    Args:
        stored_entries: Its entries.
        expected_entries: The entries that follow from the log below its offset.
        last_offset_by_producer: Producer id -> offset of its last batch there, markers included.
        offset: Offset of the snapshot.
        path: Its file.
        judged_from: Producers whose last batch is below are not checked: deletion or the cleaner
            may have removed the batches that the snapshot is about.
        expiration_ms: Time after which a broker forgets a producer.
    """
    entry_by_producer = {entry.producer_id: entry for entry in stored_entries}
    file_time_ms = path.stat().st_mtime * 1_000
    for expected_entry in expected_entries:
        entry = entry_by_producer.get(expected_entry.producer_id)
        if last_offset_by_producer.get(expected_entry.producer_id, NO_OFFSET) < judged_from:
            continue
        if entry is None:
            # A file that is older than the record was copied without its time.
            is_unexpired = 0 <= file_time_ms - expected_entry.timestamp < expiration_ms
            if expected_entry.txn_first_offset != NO_OFFSET or is_unexpired:
                actual = f"producer {expected_entry.producer_id}: no such producer"
                yield _snapshot_violation(
                    path, offset, expected_entry, actual, ", ".join(_field_texts(expected_entry))
                )
        elif entry != expected_entry:
            field_pairs = zip(_field_texts(entry), _field_texts(expected_entry), strict=True)
            differing_fields = ", ".join(
                saved_text for saved_text, true_text in field_pairs if saved_text != true_text
            )
            actual = f"producer {expected_entry.producer_id}: {differing_fields}"
            yield _snapshot_violation(
                path, offset, expected_entry, actual, ", ".join(_field_texts(expected_entry))
            )
    expected_producer_ids = {entry.producer_id for entry in expected_entries}
    for entry in stored_entries:
        # An entry without an epoch is what an emptied marker leaves of a producer.
        if entry.producer_id in expected_producer_ids or entry.producer_epoch == NO_PRODUCER_EPOCH:
            continue
        newest_offset = max(entry.last_offset, entry.txn_first_offset)
        if newest_offset >= judged_from:
            actual = f"producer {entry.producer_id} with a batch at offset {newest_offset}"
            yield _snapshot_violation(path, offset, entry, actual, "no such producer in the log")


def _snapshot_violation(
    path: Path, offset: int, entry: SnapshotEntry, actual: str, expected: str
) -> BrokenRule:
    return BrokenRule(
        rule=Invariant.SNAPSHOT,
        file=path.name,
        offset=offset,
        found=actual,
        expected=expected,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
    )


def _field_texts(entry: SnapshotEntry) -> list[str]:
    values = msgspec.structs.asdict(entry)
    return [
        f"{field_name} {value}"
        for field_name, value in values.items()
        if field_name != "producer_id"
    ]
