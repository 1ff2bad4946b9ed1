"""The table ``fragments``: what each producer did in a segment, mergeable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.pieces import Ints
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.pipeline.scan.walk import fragment_rows
from txnsim.pipeline.tables.rows import (
    Job,
    Make,
    Rows,
    ignored,
    not_negative,
    of_segment,
    truths,
)

COLUMNS: Final = {
    "producer_id": fk.PRODUCER,
    "first_offset": fk.FIRST_OFFSET,
    "last_offset": fk.LAST_OFFSET,
    "batches": fk.BATCHES,
    "records": fk.RECORDS,
    "bytes": fk.BYTES,
    "first_epoch": fk.FIRST_EPOCH,
    "first_sequence": fk.FIRST_SEQUENCE,
    "last_epoch": fk.LAST_EPOCH,
    "last_sequence": fk.LAST_SEQUENCE,
    "last_timestamp_ms": fk.LAST_TIMESTAMP,
    "commits": fk.COMMITS,
    "aborts": fk.ABORTS,
    "coordinator_epoch": fk.COORDINATOR_EPOCH,
    "head_offset": fk.HEAD_OFFSET,
    "head_marker_offset": fk.HEAD_MARKER,
    "open_offset": fk.OPEN_OFFSET,
    "open_timestamp_ms": fk.OPEN_TIMESTAMP,
    "open_last_timestamp_ms": fk.OPEN_LAST_TIMESTAMP,
    "open_epoch": fk.OPEN_EPOCH,
    "open_records": fk.OPEN_RECORDS,
    "sequence_gaps": fk.SEQUENCE_GAPS,
    "epochs_back": fk.EPOCHS_BACK,
    "idle_markers": fk.IDLE_MARKERS,
}
"""Column -> that of the kernel's table; ``head_is_commit`` is none of numbers."""


def read(segment: SegmentFile, job: Job) -> Iterator[Rows]:
    """The rows of a segment.

    Raises:
        OSError: The file can't be read.
    """
    for table in fragment_rows(Path(segment.path), on_damage=ignored, until=segment.size):
        wanted = of_producers(table, table[:, fk.PRODUCER], job)
        if len(wanted):
            yield Rows(len(wanted), {**of_segment(segment, len(wanted)), **columns_of(wanted)})


def of_producers(table: Ints, producers: Ints, job: Job) -> Ints:
    """The rows of the producers that are wanted."""
    if job.producer_ids is None:
        return table
    found: Ints = table[np.isin(producers, list(job.producer_ids))]
    return found


def columns_of(table: Ints) -> dict[str, Make]:
    """The columns of rows of the kernel's."""
    head = table[:, fk.HEAD_IS_COMMIT]
    numbers = {name: np.ascontiguousarray(table[:, at]) for name, at in COLUMNS.items()}
    return {
        **{name: not_negative(values) for name, values in numbers.items()},
        "head_is_commit": truths(head == 1, absent=head < 0),
    }
