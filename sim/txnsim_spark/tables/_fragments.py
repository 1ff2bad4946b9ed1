"""The tables of what producers did in a segment, from the compiled walk: ``fragments``, which can
be merged, and ``endings``, the transactions that ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.scan.walk import ending_rows, fragment_rows
from txnsim_spark.schemas import TABLES, TIMESTAMP_TYPE
from txnsim_spark.tables._damage import check_headers, refusing
from txnsim_spark.tables.rows import (
    ArrayMaker,
    SegmentTables,
    TableJob,
    in_span,
    not_negative,
    truths,
)


def fragments(segment: SegmentFile, job: TableJob) -> Iterator[Ints]:
    """The rows of a segment: a producer may have several."""
    check_headers(segment, job)
    on_damage = refusing(segment, job)
    for table in fragment_rows(Path(segment.path), end_position=segment.size, on_damage=on_damage):
        yield _of_producers(table, table[:, fk.PRODUCER], job)


def endings(segment: SegmentFile, job: TableJob) -> Iterator[Ints]:
    """The rows of a segment: one for each marker."""
    check_headers(segment, job)
    on_damage = refusing(segment, job)
    for table in ending_rows(Path(segment.path), end_position=segment.size, on_damage=on_damage):
        by_row = np.ascontiguousarray(table.T)
        if segment.offset_span is not None:
            by_row = by_row[in_span(by_row[:, fk.ENDED_MARKER], segment)]
        yield _of_producers(by_row, by_row[:, fk.ENDED_PRODUCER], job)


def _of_producers(table: Ints, producers: Ints, job: TableJob) -> Ints:
    """Rows of the wanted producers; all rows if no ids are given."""
    if job.producer_ids is None:
        return table
    of_producers: Ints = table[np.isin(producers, list(job.producer_ids))]
    return of_producers


def columns_of_endings(table: Ints, segment_tables: SegmentTables) -> dict[str, ArrayMaker]:
    """Columns from rows of ended transactions."""
    del segment_tables
    is_commit = truths(table[:, fk.ENDED_COMMITTED] == 1)
    return {**_numbers_of("endings", table), "is_commit": is_commit}


def columns_of(table: Ints, segment_tables: SegmentTables = ()) -> dict[str, ArrayMaker]:
    """Columns from rows of fragments."""
    del segment_tables
    head = table[:, fk.HEAD_IS_COMMIT]
    return {
        **_numbers_of("fragments", table[:, : fk.TABLE_COLUMNS]),
        "head_is_commit": truths(head == 1, absent=head < 0),
    }


def _numbers_of(name: str, table: Ints) -> dict[str, ArrayMaker]:
    """Columns of the kernel's numbers, which are the last columns of the table, in order."""
    of_numbers = [column.name for column in TABLES[name].columns if column.type != TIMESTAMP_TYPE]
    columns = of_numbers[-table.shape[1] :]
    return {
        column: not_negative(np.ascontiguousarray(table[:, at]))
        for at, column in enumerate(columns)
    }
