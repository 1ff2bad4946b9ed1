"""The table ``endings``: the transactions that ended in a segment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.pieces import Ints
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.pipeline.scan.walk import ending_rows
from txnsim.pipeline.tables.fragments import numbers_of, of_producers
from txnsim.pipeline.tables.rows import (
    Job,
    Make,
    Rows,
    in_span,
    of_segment,
    truths,
)


def read(segment: SegmentFile, job: Job) -> Iterator[Rows]:
    """The rows of a segment."""
    for table in ending_rows(Path(segment.path), until=segment.size):
        by_row = np.ascontiguousarray(table.T)
        if segment.span is not None:
            by_row = by_row[in_span(by_row[:, fk.ENDED_MARKER], segment)]
        wanted = of_producers(by_row, by_row[:, fk.ENDED_PRODUCER], job)
        if len(wanted):
            yield Rows(len(wanted), {**of_segment(segment, len(wanted)), **_columns(wanted)})


def _columns(table: Ints) -> dict[str, Make]:
    return {
        **numbers_of("endings", table),
        "is_commit": truths(table[:, fk.ENDED_COMMITTED] == 1),
    }
