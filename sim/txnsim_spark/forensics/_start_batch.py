"""Looks up the batch at the start of each open transaction: whether it is this producer's, when it
was written, and whether offsets behind it are missing.

If the log was read, the positions of these batches are known. Batches that only a snapshot names
are looked up together.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import msgspec

from txnsim_spark.forensics._evidence import StartBatch
from txnsim_spark.forensics._read_notes import NOTES_MAX, Gap, ReadNotes
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import OpenTxn
from txnsim_spark.scan.log_seek import LookedUpBatch, batch_from, batches_at, end_offset_of
from txnsim_spark.scan.segments import SegmentFile


class StartBatchLookups:
    """The lookups in one replica. Each batch, and each end of a segment, is looked up once.

    Args:
        state: The replica.
        txns: Producer id -> its open transaction.
    """

    def __init__(self, state: ReplicaState, txns: Mapping[int, OpenTxn]) -> None:
        self._state = state
        self._txns = txns
        self._end_by_path: dict[str, int] = {}

    def start_batch_of(self, txn: OpenTxn) -> StartBatch:
        """The kind of the batch at a transaction's first offset."""
        last_offset = self._last_offset_before_deletion(txn)
        if last_offset is not None:
            batch = self._batches_by_offset.get(last_offset)
            is_of_producer = batch is not None and _is_batch_of(batch, txn)
            return StartBatch.DELETED if is_of_producer else StartBatch.ANOTHERS
        if not self._lowest_offset <= txn.start_offset < self._state.ends.end_offset:
            return StartBatch.NOT_THERE
        batch = self._batches_by_offset.get(txn.start_offset)
        if (
            batch is None
            or batch.header.base_offset != txn.start_offset
            or not _is_batch_of(batch, txn)
        ):
            return StartBatch.ANOTHERS
        return StartBatch.THIS_PRODUCERS

    def dated_transactions(self) -> dict[int, OpenTxn]:
        """All transactions, with the start times that a snapshot lacks."""
        txn_by_producer = dict(self._txns)
        for producer_id, txn in self._txns.items():
            if txn.start_timestamp_ms is None:
                first_batch = self._batches_by_offset.get(txn.start_offset)
                started_ms = None if first_batch is None else first_batch.header.max_timestamp_ms
                txn_by_producer[producer_id] = msgspec.structs.replace(
                    txn, start_timestamp_ms=started_ms
                )
        return txn_by_producer

    def gaps_behind(self, notes: ReadNotes, start_offset: int) -> tuple[Gap, ...]:
        """Offsets that are missing from a transaction's beginning to the end of the log. What was
        read is known (``notes``); between the other segments their ends are looked up.
        """
        gaps = {gap for gap in notes.gaps if gap.next_offset > start_offset}
        for segment, next_segment in pairwise(self._state.segments):
            is_read = notes.read_from is not None and segment.base_offset >= notes.read_from
            is_beyond_end = segment.base_offset >= self._state.ends.end_offset
            if is_read or is_beyond_end or next_segment.base_offset <= start_offset:
                continue
            segment_end_offset = self._end_of(segment)
            if segment_end_offset < next_segment.base_offset:
                gaps.add(Gap(first_offset=segment_end_offset, next_offset=next_segment.base_offset))
        return tuple(sorted(gaps))[:NOTES_MAX]

    def _end_of(self, segment: SegmentFile) -> int:
        if segment.path not in self._end_by_path:
            try:
                self._end_by_path[segment.path] = end_offset_of(segment)
            except OSError:  # reported where the replica was looked at
                self._end_by_path[segment.path] = segment.base_offset
        return self._end_by_path[segment.path]

    def _last_offset_before_deletion(self, txn: OpenTxn) -> int | None:
        """The offset of the producer's last batch by the snapshot, for a transaction whose first
        batch retention has deleted; None if that last batch is gone, too, or nothing was deleted.
        """
        end_offset = self._state.ends.end_offset
        entry = self._state.seed_by_producer.get(txn.producer_id)
        if entry is None or txn.start_offset >= min(self._lowest_offset, end_offset):
            return None
        return entry.last_offset if self._lowest_offset <= entry.last_offset < end_offset else None

    @property
    def _lowest_offset(self) -> int:
        segments = self._state.segments
        return segments[0].base_offset if segments else self._state.ends.end_offset

    @cached_property
    def _batches_by_offset(self) -> Mapping[int, LookedUpBatch]:
        position_by_offset = {txn.start_offset: txn.start_position for txn in self._txns.values()}
        last_offsets = (self._last_offset_before_deletion(txn) for txn in self._txns.values())
        position_by_offset.update((offset, None) for offset in last_offsets if offset is not None)
        positions_by_segment: dict[SegmentFile, dict[int, int | None]] = {}
        for offset, position in position_by_offset.items():
            for segment in reversed(self._state.segments):
                if segment.base_offset <= offset:
                    positions_by_segment.setdefault(segment, {})[offset] = position
                    break
        batches: dict[int, LookedUpBatch] = {}
        for segment, positions_in_segment in positions_by_segment.items():
            try:
                batches |= _batches_in_segment(segment, positions_in_segment)
            except OSError:  # reported where the replica was looked at
                continue
        return batches


def _batches_in_segment(
    segment: SegmentFile, position_by_offset: Mapping[int, int | None]
) -> dict[int, LookedUpBatch]:
    """First batches in one segment, looked up by a known position or by offset."""
    batches: dict[int, LookedUpBatch] = {}
    for offset, position in position_by_offset.items():
        batch = None if position is None else batch_from(segment, position, offset)
        if batch is not None:
            batches[offset] = batch
    return batches | batches_at(segment, position_by_offset.keys() - batches.keys())


def _is_batch_of(batch: LookedUpBatch, txn: OpenTxn) -> bool:
    """Whether a batch belongs to the producer of a transaction. Epochs may rise within a
    transaction, so only the producer id is compared.
    """
    header = batch.header
    return (
        batch.is_sound
        and header.producer_id == txn.producer_id
        and header.producer_epoch <= txn.producer_epoch
        and header.is_transactional
        and not header.is_control
    )
