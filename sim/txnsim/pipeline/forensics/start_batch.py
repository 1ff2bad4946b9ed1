"""What the log says of a transaction that a snapshot names: whether the batch at its start is this
producer's, when that batch was written, and whether offsets behind it are missing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from txnsim.pipeline.forensics.evidence import StartBatch
from txnsim.pipeline.forensics.read_notes import NOTES_MAX, Gap, ReadNotes
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.forensics.verdicts import OpenTxn
from txnsim.pipeline.scan.log_seek import batch_at, end_offset_of
from txnsim.wire.batch import BatchHeader


def start_batch_of(state: ReplicaState, txn: OpenTxn) -> StartBatch:
    """What lies where a transaction begins.

    Args:
        state: The replica that has it open.
        txn: The transaction.
    """
    if not _lowest(state) <= txn.start_offset < state.ends.end_offset:
        return _by_last_batch(state, txn)
    header = _batch(state, txn.start_offset, check_crc=True)
    if header is None or header.base_offset != txn.start_offset:
        return StartBatch.ANOTHERS
    return StartBatch.THIS_PRODUCERS if _is_of(header, txn) else StartBatch.ANOTHERS


def dated(state: ReplicaState, txns: Mapping[int, OpenTxn]) -> dict[int, OpenTxn]:
    """With the time of the first batch, which snapshots don't tell."""
    found = dict(txns)
    for producer_id, txn in txns.items():
        if txn.start_timestamp_ms is None:
            first = _batch(state, txn.start_offset, check_crc=False)
            started_ms = None if first is None else first.max_timestamp_ms
            found[producer_id] = msgspec.structs.replace(txn, start_timestamp_ms=started_ms)
    return found


def gaps_behind(state: ReplicaState, notes: ReadNotes, start_offset: int) -> tuple[Gap, ...]:
    """Offsets that are missing from a transaction's beginning to the end of the log. What was read
    is known; between the other segments their ends are looked up.

    Args:
        state: The replica.
        notes: What came to light when it was read.
        start_offset: Where the transaction begins.
    """
    found = {gap for gap in notes.gaps if gap.next_offset > start_offset}
    end_offset = state.ends.end_offset
    for segment, behind in zip(state.segments, state.segments[1:], strict=False):
        is_read = notes.read_from is not None and segment.base_offset >= notes.read_from
        if is_read or behind.base_offset <= start_offset or segment.base_offset >= end_offset:
            continue
        try:
            end = end_offset_of(segment)
        except OSError:  # reported where the replica was looked at
            end = segment.base_offset
        if end < behind.base_offset:
            found.add(Gap(first_offset=end, next_offset=behind.base_offset))
    return tuple(sorted(found))[:NOTES_MAX]


def _by_last_batch(state: ReplicaState, txn: OpenTxn) -> StartBatch:
    """Where retention has deleted that batch: the snapshot also names the producer's last batch."""
    entry = state.seeds.get(txn.producer_id)
    if entry is None or not _lowest(state) <= entry.last_offset < state.ends.end_offset:
        return StartBatch.NOT_THERE
    if txn.start_offset >= state.ends.end_offset:
        return StartBatch.NOT_THERE
    header = _batch(state, entry.last_offset, check_crc=True)
    if header is None or not _is_of(header, txn):
        return StartBatch.ANOTHERS
    return StartBatch.DELETED


def _lowest(state: ReplicaState) -> int:
    return state.segments[0].base_offset if state.segments else state.ends.end_offset


def _batch(state: ReplicaState, offset: int, *, check_crc: bool) -> BatchHeader | None:
    for segment in reversed(state.segments):
        if segment.base_offset <= offset:
            try:
                return batch_at(segment, offset, check_crc=check_crc)
            except OSError:  # reported where the replica was looked at
                return None
    return None


def _is_of(header: BatchHeader, txn: OpenTxn) -> bool:
    """Epochs may go up within a transaction, so the producer id is what counts."""
    return (
        header.producer_id == txn.producer_id
        and header.producer_epoch <= txn.producer_epoch
        and header.is_transactional
        and not header.is_control
    )
