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
from txnsim_spark.scan.segments import Damage, SegmentFile
from txnsim_spark.scan.walk import OldRun, batch_rows
from txnsim_spark.soundness._replica_facts import ReplicaFacts
from txnsim_spark.soundness._segment_parts import SegmentPart
from txnsim_spark.soundness.violations import Findings, Invariant, read_or_tell

BUCKET_BITS: Final = 16
"""Number of bits: replicas are compared by ranges of 65,536 offsets."""
SUM_MASK: Final = (1 << 64) - 1
GAPS_MAX: Final = 100
ENDLESS: Final = (1 << 63) - 1

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
        self._epochs = epochs
        self._path = Path(segment.path)
        self._broken = Findings(self._path.name)
        self._torn = False
        self._doubtful_from: int | None = None
        self._shows_cleaning = False
        self._gaps: list[tuple[int, int]] = []
        self._first: tuple[int, int] | None = None
        self._end = segment.base_offset
        self._last_base = -1
        self._epoch = -1
        self._epoch_until = -1
        self._old: list[OldRun] = []
        self._snapshots = np.array(sorted(snapshot_offsets), dtype=np.int64)
        self._rows: list[Ints] = []
        self._digests: dict[int, tuple[int, int]] = {}

    # Commands

    def take(self, table: Ints, is_valid: Truths) -> None:
        """Check the next batches."""
        bases, lasts = table[kernel.BASE_OFFSET], table[kernel.LAST_OFFSET]
        awaited = np.concatenate(([self._end], lasts[:-1] + 1))
        while self._old and self._old[0].end <= table[kernel.POSITION, -1]:
            old = self._old.pop(0)
            next_batch = np.searchsorted(table[kernel.POSITION], old.end)
            awaited[next_batch] = max(awaited[next_batch], old.next_offset)
        is_behind = bases < awaited
        for number in np.flatnonzero(~is_valid | is_behind).tolist():
            self._doubt(table, number, int(awaited[number]), is_valid=bool(is_valid[number]))
        self._end = int(lasts[-1]) + 1
        # Either a disordered offset is wrong or the one before: what follows is held against it.
        in_order = table[:, ~is_behind]
        if in_order.shape[1]:
            self._take_places(in_order, awaited[~is_behind])
            self._take_producers(in_order, is_valid[~is_behind])

    def pass_over(self, old: OldRun) -> None:
        """Skip messages of format 0 or 1, which have no producer."""
        self._old.append(old)

    def tear(self, torn: Damage) -> None:
        """Stops at damage: the rest of the segment can't be read."""
        self._torn = True
        with RegularFile(self._path).open() as file:
            file.seek(torn.position)
            reason = TornTail.reason_at(file.read(BatchHeader.SIZE), torn.size) or torn.reason
        self._broken.add(
            Invariant.TORN,
            f"{reason}; {torn.size} bytes to the end of the file",
            "a whole batch, or the end of the file",
            position=torn.position,
            offset=self._next_offset_due(),
        )

    # Queries

    def part(self) -> SegmentPart:
        end = self._next_offset_due()
        aborted = self._read_aborted()
        return SegmentPart(
            segment=self._segment,
            first_offset=None if self._first is None else self._first[0],
            last_base=self._last_base,
            end_offset=end,
            first_epoch=-1 if self._first is None else self._first[1],
            last_epoch=self._epoch,
            is_torn=self._torn,
            doubtful_from=self._doubtful_from,
            shows_cleaning=self._shows_cleaning,
            gaps=tuple(self._gaps),
            broken=self._broken.all(),
            rows=tuple(self._rows),
            aborted_index=aborted,
            digests=self._digests,
        )

    # Steps

    def _next_offset_due(self) -> int:
        """The offset that is expected after the last batch."""
        return max([self._end, *(old.next_offset for old in self._old)])

    def _doubt(self, table: Ints, number: int, awaited: int, *, is_valid: bool) -> None:
        """Notes that from this batch on the segment may differ from what was written."""
        if self._doubtful_from is None:
            self._doubtful_from = int(table[kernel.POSITION, number])
        base = int(table[kernel.BASE_OFFSET, number])
        if not is_valid:
            expected = f"CRC {table[kernel.CRC, number]}"
            self._report(Invariant.CRC, table, number, "another CRC", expected)
        if base < awaited:
            expected = f"{awaited} or above"
            self._report(Invariant.OFFSET_ORDER, table, number, f"a batch from {base} on", expected)

    def _take_places(self, table: Ints, awaited: Ints) -> None:
        bases, lasts = table[kernel.BASE_OFFSET], table[kernel.LAST_OFFSET]
        is_gap = bases > awaited
        if self._first is None:
            self._first = int(bases[0]), int(table[kernel.LEADER_EPOCH, 0])
            is_gap[0] = False
        for number in np.flatnonzero(is_gap)[: GAPS_MAX - len(self._gaps)]:
            self._gaps.append((int(awaited[number]), int(bases[number])))
        self._last_base = max(self._last_base, int(bases.max()))
        has_horizon = (table[kernel.ATTRIBUTES] & BatchHeader.DELETE_HORIZON) != 0
        is_less = table[kernel.RECORD_COUNT] != lasts - bases + 1
        self._shows_cleaning |= bool((has_horizon | is_less).any())
        epochs = table[kernel.LEADER_EPOCH].tolist()
        for number, (epoch, last_offset) in enumerate(zip(epochs, lasts.tolist(), strict=True)):
            if epoch != self._epoch or last_offset >= self._epoch_until:
                self._judge_epoch(table, number, epoch, last_offset)
        self._sum_up(table)

    def _judge_epoch(self, table: Ints, number: int, epoch: int, last_offset: int) -> None:
        epoch_before = self._epoch
        self._epoch = epoch  # what follows is held against this one, so it is reported once
        base = int(table[kernel.BASE_OFFSET, number])
        if epoch < epoch_before:
            expected = f"{epoch_before} or a higher one"
            self._report(Invariant.LEADER_EPOCH, table, number, f"epoch {epoch}", expected)
            return
        if self._epochs is None:
            self._epoch_until = ENDLESS
            return
        if base < (self._facts.log_start or 0):
            return
        epoch_known, until = epoch_at(self._epochs, base)
        self._epoch_until = until
        if epoch_known != epoch or last_offset >= until:
            up_to = f" up to offset {until}" if until < ENDLESS else ""
            expected = f"epoch {epoch_known}{up_to}, by {names.FileName.LEADER_EPOCHS}"
            actual = f"a batch of epoch {epoch}"
            self._report(Invariant.LEADER_EPOCH, table, number, actual, expected)
            self._epoch_until = ENDLESS  # reported once, not with each batch of it

    def _sum_up(self, table: Ints) -> None:
        """Add the batches to the digests by which replicas are compared."""
        bases = table[kernel.BASE_OFFSET]
        facts = self._facts
        is_compared = (facts.compare_from <= bases) & (bases < facts.compare_until)
        sums = digests_of(table[:, is_compared])
        buckets = bases[is_compared] >> BUCKET_BITS
        for bucket in np.unique(buckets).tolist():
            bucket_sums = sums[buckets == bucket]
            count, total = self._digests.get(bucket, (0, 0))
            total = (total + int(bucket_sums.sum(dtype=np.uint64))) & SUM_MASK
            self._digests[bucket] = count + len(bucket_sums), total

    def _take_producers(self, table: Ints, is_valid: Truths) -> None:
        counts = table[kernel.PRODUCER_ID] >= 0
        is_control = (table[kernel.ATTRIBUTES] & BatchHeader.CONTROL) != 0
        kinds = table[kernel.CONTROL_TYPE]
        is_odd = ((kinds != ABORT) & (kinds != COMMIT)) | ~is_valid
        for number in np.flatnonzero(counts & is_control & is_odd).tolist():
            counts[number] = self._is_marker(table, number)
        rows = with_what_goes_on(table[:, counts])
        needed = ~_lie_between(rows, self._snapshots)
        if needed.any():
            self._rows.append(rows[:, needed])

    def _is_marker(self, table: Ints, number: int) -> bool:
        """Whether a control batch ends a transaction, by its record, with which it completes the
        row. An emptied batch ends nothing. A control batch that is no marker is reported.
        """
        with RegularFile(self._path).open() as file:
            file.seek(int(table[kernel.POSITION, number]))
            data = file.read(int(table[kernel.BATCH_SIZE, number]))
        try:
            control = read_control_record(data)
        except CorruptBatchError as error:
            rule, expected = Invariant.UNREADABLE_MARKER, "a control record"
            self._report(rule, table, number, str(error), expected)
            return False
        if control is None:
            return False
        if not control.is_marker:
            self._report(
                Invariant.UNREADABLE_MARKER,
                table,
                number,
                f"a control record of type {control.type}",
                "a COMMIT or an ABORT; a real broker that reads this ends as it starts",
            )
            return False
        table[kernel.CONTROL_TYPE, number] = control.type
        table[kernel.COORDINATOR_EPOCH, number] = control.coordinator_epoch
        return True

    def _read_aborted(self) -> tuple[AbortedTxn, ...] | None:
        path = self._path.with_suffix(names.Suffix.TXN_INDEX)
        none: tuple[AbortedTxn, ...] = ()
        return read_or_tell(
            path,
            lambda data: tuple(txn_index.decode(data, place=path.name)),
            "whole entries that ascend",
            self._broken.found.append,
            missing=none,
        )

    def _report(
        self, rule: Invariant, table: Ints, number: int, actual: str, expected: str
    ) -> None:
        self._broken.add(
            rule,
            actual,
            expected,
            position=int(table[kernel.POSITION, number]),
            offset=int(table[kernel.BASE_OFFSET, number]),
        )


def with_what_goes_on(table: Ints) -> Ints:
    """The rows of producers' batches with the column ``GOES_ON``: whether the batch has the epoch
    and type of its producer's previous batch, and the next sequence.
    """
    order = np.argsort(table[kernel.PRODUCER_ID], kind="stable")
    rows = table[:, order]
    sequences = rows[kernel.BASE_SEQUENCE]
    size = rows[kernel.LAST_OFFSET] - rows[kernel.BASE_OFFSET] + 1
    alike = (kernel.PRODUCER_ID, kernel.PRODUCER_EPOCH, kernel.ATTRIBUTES)
    goes_on = np.zeros(rows.shape[1], dtype=np.int64)
    goes_on[1:] = (sequences[:-1] >= 0) & (
        sequences[1:] == (sequences[:-1] + size[:-1]) & BatchHeader.SEQUENCE_MAX
    )
    goes_on[1:] &= (rows[alike, 1:] == rows[alike, :-1]).all(axis=0)
    goes_on &= (rows[kernel.ATTRIBUTES] & BatchHeader.CONTROL) == 0
    marked = np.empty((table.shape[0] + 1, table.shape[1]), dtype=np.int64)
    marked[:-1] = table
    marked[-1, order] = goes_on
    return marked


def _lie_between(rows: Ints, snapshots: Ints) -> Truths:
    """Which rows both continue the previous batch and are continued by the next one, with no
    snapshot between.
    """
    order = np.argsort(rows[kernel.PRODUCER_ID], kind="stable")
    goes_on = rows[-1, order] != 0
    stretch = np.searchsorted(snapshots, rows[kernel.BASE_OFFSET, order], side="right")
    between = np.zeros(len(order), dtype=np.bool_)
    between[:-1] = goes_on[:-1] & goes_on[1:] & (stretch[:-1] == stretch[1:])
    is_between: Truths = np.empty_like(between)
    is_between[order] = between
    return is_between


def epoch_at(epochs: Sequence[tuple[int, int]], offset: int) -> tuple[int, int]:
    """(leader epoch of an offset, offset where the next epoch begins) by a checkpoint; epoch -1 for
    offsets before its first entry.
    """
    next_number = bisect_right(epochs, offset, key=lambda entry: entry[1])
    until = epochs[next_number][1] if next_number < len(epochs) else ENDLESS
    return (epochs[next_number - 1][0] if next_number else -1), until


def digests_of(table: Ints) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """One number per batch, from its header; the CRC in it covers the rest."""
    digests = np.zeros(table.shape[1], dtype=np.uint64)
    for column in (kernel.BASE_OFFSET, kernel.LAST_OFFSET, kernel.LEADER_EPOCH, kernel.CRC):
        digests = (digests ^ table[column].astype(np.uint64)) * _FACTOR
        digests ^= digests >> np.uint64(29)
    return digests


_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
"""A factor of SplitMix64."""
