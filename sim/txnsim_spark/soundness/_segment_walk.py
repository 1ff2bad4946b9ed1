"""Walks over one segment from its first batch to its last: checks every CRC, every offset, and
leader epochs.

What its producers did is judged when segments are joined (``_chain``). The rows for that are kept;
if batches continue each other, they are few. Memory grows with these rows, not with the segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from txnsim.errors import CorruptBatchError
from txnsim.log.txn_index import AbortedTxn
from txnsim.storage import names, txn_index
from txnsim.storage.log_file import TornTail
from txnsim.storage.regular_file import RegularFile
from txnsim.wire.batch import ABORT, COMMIT, BatchHeader, read_control_record
from txnsim_spark.scan import kernel
from txnsim_spark.scan.crcs import Truths, crcs_are_right
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import SegmentDamage, SegmentFile
from txnsim_spark.scan.walk import OldRun, batch_rows
from txnsim_spark.soundness._replica_facts import ReplicaFacts
from txnsim_spark.soundness._segment_parts import SegmentPart
from txnsim_spark.soundness.violations import Findings, Invariant, read_or_report

BUCKET_BITS: Final = 16
"""Number of bits: replicas are compared by ranges of 65,536 offsets."""
SUM_MASK: Final = (1 << 64) - 1
GAPS_MAX: Final = 100
NO_END_OFFSET: Final = (1 << 63) - 1

Epochs = tuple[tuple[int, int], ...]
"""(leader epoch, first offset) of each entry of a checkpoint."""


def examine(
    facts: ReplicaFacts,
    segment: SegmentFile,
    snapshot_offsets: Sequence[int] = (),
    epochs: Epochs | None = None,
) -> SegmentPart:
    """Walk over a segment. ``snapshot_offsets`` are of the whole replica, ``epochs`` of its
    checkpoint.
    """
    walk = _SegmentWalk(facts, segment, snapshot_offsets, epochs)
    path = Path(segment.path)
    for table in batch_rows(path, on_damage=walk.tear, on_old_run=walk.pass_over):
        walk.take(table, crcs_are_right(path, table))
    return walk.part()


class _SegmentWalk:
    """The state of the checks after the batches so far."""

    def __init__(
        self,
        facts: ReplicaFacts,
        segment: SegmentFile,
        snapshot_offsets: Sequence[int],
        epochs: Epochs | None,
    ) -> None:
        self._facts = facts
        self._segment = segment
        self._epochs_and_starts = epochs
        self._path = Path(segment.path)
        self._findings = Findings(self._path.name)
        self._is_torn = False
        self._doubtful_from: int | None = None
        self._shows_cleaning = False
        self._gaps: list[tuple[int, int]] = []
        self._first: tuple[int, int] | None = None
        self._end_offset = segment.base_offset
        self._last_base = -1
        self._last_epoch = -1
        self._epoch_until = -1
        self._old_runs: list[OldRun] = []
        self._snapshots = np.array(sorted(snapshot_offsets), dtype=np.int64)
        self._rows: list[Ints] = []
        self._sum_by_bucket: dict[int, tuple[int, int]] = {}

    # Commands

    def take(self, table: Ints, crc_is_right: Truths) -> None:
        """Check the next batches."""
        base_offsets, last_offsets = table[kernel.BASE_OFFSET], table[kernel.LAST_OFFSET]
        expected_offsets = np.concatenate(([self._end_offset], last_offsets[:-1] + 1))
        while self._old_runs and self._old_runs[0].end_position <= table[kernel.POSITION, -1]:
            old_run = self._old_runs.pop(0)
            column_behind_old_run = np.searchsorted(table[kernel.POSITION], old_run.end_position)
            expected_offsets[column_behind_old_run] = max(
                expected_offsets[column_behind_old_run], old_run.next_offset
            )
        is_behind = base_offsets < expected_offsets
        for row in np.flatnonzero(~crc_is_right | is_behind).tolist():
            self._report_doubt(
                table, row, int(expected_offsets[row]), crc_is_right=bool(crc_is_right[row])
            )
        self._end_offset = int(last_offsets[-1]) + 1
        # Either a disordered offset is wrong or the one before: what follows is held against it.
        ordered_table = table[:, ~is_behind]
        if ordered_table.shape[1]:
            self._check_offsets(ordered_table, expected_offsets[~is_behind])
            self._take_producers(ordered_table, crc_is_right[~is_behind])

    def pass_over(self, old_run: OldRun) -> None:
        """Skip messages of format 0 or 1, which have no producer."""
        self._old_runs.append(old_run)

    def tear(self, damage: SegmentDamage) -> None:
        """Stops at damage: the rest of the segment can't be read."""
        self._is_torn = True
        with RegularFile(self._path).open() as file:
            file.seek(damage.position)
            reason = TornTail.reason_at(file.read(BatchHeader.SIZE), damage.size) or damage.reason
        self._findings.add(
            Invariant.TORN,
            f"{reason}; {damage.size} bytes to the end of the file",
            "a whole batch, or the end of the file",
            position=damage.position,
            offset=self._next_offset_due(),
        )

    # Queries

    def part(self) -> SegmentPart:
        end_offset = self._next_offset_due()
        aborted_index = self._read_aborted()
        return SegmentPart(
            segment=self._segment,
            first_offset=None if self._first is None else self._first[0],
            last_base=self._last_base,
            end_offset=end_offset,
            first_epoch=-1 if self._first is None else self._first[1],
            last_epoch=self._last_epoch,
            is_torn=self._is_torn,
            doubtful_from=self._doubtful_from,
            shows_cleaning=self._shows_cleaning,
            gaps=tuple(self._gaps),
            broken_rules=self._findings.all(),
            rows=tuple(self._rows),
            aborted_index=aborted_index,
            digests=self._sum_by_bucket,
        )

    # Steps

    def _next_offset_due(self) -> int:
        """The offset that is expected after the last batch."""
        return max([self._end_offset, *(old_run.next_offset for old_run in self._old_runs)])

    def _report_doubt(
        self, table: Ints, row: int, expected_offset: int, *, crc_is_right: bool
    ) -> None:
        """Notes that from this batch on the segment may differ from what was written."""
        if self._doubtful_from is None:
            self._doubtful_from = int(table[kernel.POSITION, row])
        base_offset = int(table[kernel.BASE_OFFSET, row])
        if not crc_is_right:
            expected = f"CRC {table[kernel.CRC, row]}"
            self._report_violation(Invariant.CRC, table, row, "another CRC", expected)
        if base_offset < expected_offset:
            expected = f"{expected_offset} or above"
            self._report_violation(
                Invariant.OFFSET_ORDER, table, row, f"a batch from {base_offset} on", expected
            )

    def _check_offsets(self, table: Ints, expected_offsets: Ints) -> None:
        base_offsets, last_offsets = table[kernel.BASE_OFFSET], table[kernel.LAST_OFFSET]
        is_gap = base_offsets > expected_offsets
        if self._first is None:
            self._first = int(base_offsets[0]), int(table[kernel.LEADER_EPOCH, 0])
            is_gap[0] = False
        for row in np.flatnonzero(is_gap)[: GAPS_MAX - len(self._gaps)]:
            self._gaps.append((int(expected_offsets[row]), int(base_offsets[row])))
        self._last_base = max(self._last_base, int(base_offsets.max()))
        has_horizon = (table[kernel.ATTRIBUTES] & BatchHeader.DELETE_HORIZON) != 0
        lacks_records = table[kernel.RECORD_COUNT] != last_offsets - base_offsets + 1
        self._shows_cleaning |= bool((has_horizon | lacks_records).any())
        epochs = table[kernel.LEADER_EPOCH].tolist()
        for row, (epoch, last_offset) in enumerate(zip(epochs, last_offsets.tolist(), strict=True)):
            if epoch != self._last_epoch or last_offset >= self._epoch_until:
                self._judge_epoch(table, row, epoch, last_offset)
        self._add_digests(table)

    def _judge_epoch(self, table: Ints, row: int, epoch: int, last_offset: int) -> None:
        epoch_before = self._last_epoch
        self._last_epoch = epoch  # what follows is held against this one, so it is reported once
        base_offset = int(table[kernel.BASE_OFFSET, row])
        if epoch < epoch_before:
            expected = f"{epoch_before} or a higher one"
            self._report_violation(Invariant.LEADER_EPOCH, table, row, f"epoch {epoch}", expected)
            return
        if self._epochs_and_starts is None:
            self._epoch_until = NO_END_OFFSET
            return
        if base_offset < (self._facts.log_start or 0):
            return
        recorded_epoch, end_offset = epoch_and_end_at(self._epochs_and_starts, base_offset)
        self._epoch_until = end_offset
        if recorded_epoch != epoch or last_offset >= end_offset:
            range_text = f" up to offset {end_offset}" if end_offset < NO_END_OFFSET else ""
            expected = f"epoch {recorded_epoch}{range_text}, by {names.FileName.LEADER_EPOCHS}"
            actual = f"a batch of epoch {epoch}"
            self._report_violation(Invariant.LEADER_EPOCH, table, row, actual, expected)
            self._epoch_until = NO_END_OFFSET  # reported once, not with each batch of it

    def _add_digests(self, table: Ints) -> None:
        """Add the batches to the digests by which replicas are compared."""
        base_offsets = table[kernel.BASE_OFFSET]
        replica_facts = self._facts
        is_compared_batch = (replica_facts.compare_from <= base_offsets) & (
            base_offsets < replica_facts.compare_until
        )
        batch_digests = digests_of(table[:, is_compared_batch])
        bucket_numbers = base_offsets[is_compared_batch] >> BUCKET_BITS
        for bucket_number in np.unique(bucket_numbers).tolist():
            bucket_digests = batch_digests[bucket_numbers == bucket_number]
            batch_count, digest_sum = self._sum_by_bucket.get(bucket_number, (0, 0))
            digest_sum = (digest_sum + int(bucket_digests.sum(dtype=np.uint64))) & SUM_MASK
            self._sum_by_bucket[bucket_number] = batch_count + len(bucket_digests), digest_sum

    def _take_producers(self, table: Ints, crc_is_right: Truths) -> None:
        is_of_producer = table[kernel.PRODUCER_ID] >= 0
        is_control = (table[kernel.ATTRIBUTES] & BatchHeader.CONTROL) != 0
        control_types = table[kernel.CONTROL_TYPE]
        is_doubtful = ((control_types != ABORT) & (control_types != COMMIT)) | ~crc_is_right
        for row in np.flatnonzero(is_of_producer & is_control & is_doubtful).tolist():
            is_of_producer[row] = self._is_marker(table, row)
        rows = with_continuation_column(table[:, is_of_producer])
        is_needed = ~_are_between_equals(rows, self._snapshots)
        if is_needed.any():
            self._rows.append(rows[:, is_needed])

    def _is_marker(self, table: Ints, row: int) -> bool:
        """Whether a control batch ends a transaction, by its record, with which it completes the
        row. An emptied batch ends nothing. A control batch that is no marker is reported.
        """
        with RegularFile(self._path).open() as file:
            file.seek(int(table[kernel.POSITION, row]))
            batch_bytes = file.read(int(table[kernel.BATCH_SIZE, row]))
        try:
            control_record = read_control_record(batch_bytes)
        except CorruptBatchError as error:
            invariant, expected = Invariant.UNREADABLE_MARKER, "a control record"
            self._report_violation(invariant, table, row, str(error), expected)
            return False
        if control_record is None:
            return False
        if not control_record.is_marker:
            self._report_violation(
                Invariant.UNREADABLE_MARKER,
                table,
                row,
                f"a control record of type {control_record.type}",
                "a COMMIT or an ABORT; a real broker that reads this ends as it starts",
            )
            return False
        table[kernel.CONTROL_TYPE, row] = control_record.type
        table[kernel.COORDINATOR_EPOCH, row] = control_record.coordinator_epoch
        return True

    def _read_aborted(self) -> tuple[AbortedTxn, ...] | None:
        path = self._path.with_suffix(names.Suffix.TXN_INDEX)
        no_entries: tuple[AbortedTxn, ...] = ()
        return read_or_report(
            path,
            lambda data: tuple(txn_index.decode(data, error_prefix=path.name)),
            "whole entries that ascend",
            self._findings.broken_rules.append,
            missing_content=no_entries,
        )

    def _report_violation(
        self, invariant: Invariant, table: Ints, row: int, actual: str, expected: str
    ) -> None:
        self._findings.add(
            invariant,
            actual,
            expected,
            position=int(table[kernel.POSITION, row]),
            offset=int(table[kernel.BASE_OFFSET, row]),
        )


def with_continuation_column(table: Ints) -> Ints:
    """The rows of producers' batches with the column ``CONTINUES_PREVIOUS``: whether the batch
    has the epoch and type of its producer's previous batch, and the next sequence.
    """
    sorted_columns = np.argsort(table[kernel.PRODUCER_ID], kind="stable")
    rows = table[:, sorted_columns]
    sequences = rows[kernel.BASE_SEQUENCE]
    offset_counts = rows[kernel.LAST_OFFSET] - rows[kernel.BASE_OFFSET] + 1
    compared_columns = (kernel.PRODUCER_ID, kernel.PRODUCER_EPOCH, kernel.ATTRIBUTES)
    continues_row_before = np.zeros(rows.shape[1], dtype=np.int64)
    continues_row_before[1:] = (sequences[:-1] >= 0) & (
        sequences[1:] == (sequences[:-1] + offset_counts[:-1]) & BatchHeader.SEQUENCE_MAX
    )
    continues_row_before[1:] &= (rows[compared_columns, 1:] == rows[compared_columns, :-1]).all(
        axis=0
    )
    continues_row_before &= (rows[kernel.ATTRIBUTES] & BatchHeader.CONTROL) == 0
    table_with_column = np.empty((table.shape[0] + 1, table.shape[1]), dtype=np.int64)
    table_with_column[:-1] = table
    table_with_column[-1, sorted_columns] = continues_row_before
    return table_with_column


def _are_between_equals(rows: Ints, snapshots: Ints) -> Truths:
    """Which rows both continue the previous batch and are continued by the next one, with no
    snapshot between.
    """
    sorted_columns = np.argsort(rows[kernel.PRODUCER_ID], kind="stable")
    continues_row_before = rows[-1, sorted_columns] != 0
    snapshot_range_indexes = np.searchsorted(
        snapshots, rows[kernel.BASE_OFFSET, sorted_columns], side="right"
    )
    is_between_sorted = np.zeros(len(sorted_columns), dtype=np.bool_)
    is_between_sorted[:-1] = (
        continues_row_before[:-1]
        & continues_row_before[1:]
        & (snapshot_range_indexes[:-1] == snapshot_range_indexes[1:])
    )
    is_between: Truths = np.empty_like(is_between_sorted)
    is_between[sorted_columns] = is_between_sorted
    return is_between


def epoch_and_end_at(epochs_and_starts: Sequence[tuple[int, int]], offset: int) -> tuple[int, int]:
    """(leader epoch of an offset, offset where the next epoch begins) by a checkpoint; epoch -1 for
    offsets before its first entry.
    """
    next_number = bisect_right(epochs_and_starts, offset, key=lambda entry: entry[1])
    next_start_offset = (
        epochs_and_starts[next_number][1] if next_number < len(epochs_and_starts) else NO_END_OFFSET
    )
    return (epochs_and_starts[next_number - 1][0] if next_number else -1), next_start_offset


def digests_of(table: Ints) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """One number per batch, from its header; the CRC in it covers the rest."""
    digests = np.zeros(table.shape[1], dtype=np.uint64)
    for column in (kernel.BASE_OFFSET, kernel.LAST_OFFSET, kernel.LEADER_EPOCH, kernel.CRC):
        digests = (digests ^ table[column].astype(np.uint64)) * _DIGEST_FACTOR
        digests ^= digests >> np.uint64(29)
    return digests


_DIGEST_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
"""A factor of SplitMix64."""
