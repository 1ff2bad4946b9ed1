"""Finds the batches of a large segment that matter for a search, with one compiled walk over its
headers. ``log_seek`` uses it if no index helps: Python needs more than a microsecond per batch, so
a gigabyte of small batches would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from txnsim.wire.batch import ABORT, COMMIT, BatchHeader
from txnsim_spark.scan import kernel
from txnsim_spark.scan.crcs import crcs_are_right
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.scan.walk import OldRun, batch_rows


def chosen_positions(
    segment: SegmentFile, start_position: int, choose_rows: Callable[[Path, Ints], Ints]
) -> Iterator[int]:
    """Positions of the chosen batches from ``start_position`` on, up to the first malformed batch
    or one of an old format.
    """
    path = Path(segment.path)
    old_runs: list[OldRun] = []
    for rows in batch_rows(
        path, end_position=segment.size, on_old_run=old_runs.append, start=start_position
    ):
        table = rows[:, rows[kernel.POSITION] < old_runs[0].position] if old_runs else rows
        if table.shape[1]:
            yield from table[kernel.POSITION, choose_rows(path, table)].tolist()
        if old_runs:
            return


def end_and_unsound_batches(path: Path, table: Ints) -> Ints:
    """First and last batch, batches with a wrong CRC, and the batch before each of those."""
    is_chosen = ~crcs_are_right(path, table)
    is_chosen[:-1] |= is_chosen[1:]
    is_chosen[0] = is_chosen[-1] = True
    return np.flatnonzero(is_chosen)


def first_batches_to_reach(table: Ints, offsets: Sequence[int]) -> Ints:
    """Offset -> the first batch that ends at or after it; offsets without such a batch are left
    out.
    """
    highest_offsets = np.maximum.accumulate(table[kernel.LAST_OFFSET])
    row_numbers = np.unique(np.searchsorted(highest_offsets, np.array(offsets, dtype=np.int64)))
    reaching_rows: Ints = row_numbers[row_numbers < len(highest_offsets)]
    return reaching_rows


def markers_from_offset(table: Ints, offset: int) -> Ints:
    """Control batches at or after an offset."""
    control_types = table[kernel.CONTROL_TYPE]
    is_marker = (control_types == COMMIT) | (control_types == ABORT)
    return np.flatnonzero(is_marker & (table[kernel.BASE_OFFSET] >= offset))


def control_batches_and_gap(table: Ints, expected_offset: int) -> tuple[Ints, bool, int]:
    """Control batches; whether offsets are missing between the batches, or from the expected one to
    the first; and the offset behind the last.
    """
    base_offsets, last_offsets = table[kernel.BASE_OFFSET], table[kernel.LAST_OFFSET]
    has_gap = bool(
        base_offsets[0] > expected_offset or (base_offsets[1:] > last_offsets[:-1] + 1).any()
    )
    is_control = (table[kernel.ATTRIBUTES] & BatchHeader.CONTROL) != 0
    return np.flatnonzero(is_control), has_gap, int(last_offsets[-1]) + 1
