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


def positions_of(
    segment: SegmentFile, start: int, chosen: Callable[[Path, Ints], Ints]
) -> Iterator[int]:
    """Positions of the chosen batches from ``start`` on, up to the first malformed batch or one of
    an old format.
    """
    path = Path(segment.path)
    old: list[OldRun] = []
    for rows in batch_rows(path, until=segment.size, on_old=old.append, start=start):
        table = rows[:, rows[kernel.POSITION] < old[0].position] if old else rows
        if table.shape[1]:
            yield from table[kernel.POSITION, chosen(path, table)].tolist()
        if old:
            return


def ends_and_unsound(path: Path, table: Ints) -> Ints:
    """First and last batch, batches with a wrong CRC, and the batch before each of those."""
    matters = ~crcs_are_right(path, table)
    matters[:-1] |= matters[1:]
    matters[0] = matters[-1] = True
    return np.flatnonzero(matters)


def first_to_reach(table: Ints, offsets: Sequence[int]) -> Ints:
    """Offset -> the first batch that ends at or after it; offsets without such a batch are left
    out.
    """
    reach = np.maximum.accumulate(table[kernel.LAST_OFFSET])
    rows = np.unique(np.searchsorted(reach, np.array(offsets, dtype=np.int64)))
    reaching_rows: Ints = rows[rows < len(reach)]
    return reaching_rows


def controls_behind(table: Ints, offset: int) -> Ints:
    """Control batches at or after an offset."""
    kinds = table[kernel.CONTROL_TYPE]
    is_marker = (kinds == COMMIT) | (kinds == ABORT)
    return np.flatnonzero(is_marker & (table[kernel.BASE_OFFSET] >= offset))


def controls_and_gaps(table: Ints, expected: int) -> tuple[Ints, bool, int]:
    """Control batches; whether offsets are missing between the batches, or from the expected one to
    the first; and the offset behind the last.
    """
    bases, lasts = table[kernel.BASE_OFFSET], table[kernel.LAST_OFFSET]
    has_gap = bool(bases[0] > expected or (bases[1:] > lasts[:-1] + 1).any())
    is_control = (table[kernel.ATTRIBUTES] & BatchHeader.CONTROL) != 0
    return np.flatnonzero(is_control), has_gap, int(lasts[-1]) + 1
