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
from txnsim_spark.tables._damage import check_headers, refuser_of
from txnsim_spark.tables.rows import (
    ArrayMaker,
    SegmentTables,
    TableJob,
    boolean_column,
    nonnegative_column,
    rows_in_span,
)


def fragments(segment: SegmentFile, job: TableJob) -> Iterator[Ints]:
    """The rows of a segment: a producer may have several."""
    check_headers(segment, job)
    on_damage = refuser_of(segment, job)
    for table in fragment_rows(Path(segment.path), end_position=segment.size, on_damage=on_damage):
        yield _rows_of_producers(table, table[:, fk.PRODUCER], job)


def endings(segment: SegmentFile, job: TableJob) -> Iterator[Ints]:
    """The rows of a segment: one for each marker."""
    check_headers(segment, job)
    on_damage = refuser_of(segment, job)
    for table in ending_rows(Path(segment.path), end_position=segment.size, on_damage=on_damage):
        endings_by_row = np.ascontiguousarray(table.T)
        if segment.offset_span is not None:
            endings_by_row = endings_by_row[
                rows_in_span(endings_by_row[:, fk.ENDED_MARKER], segment)
            ]
        yield _rows_of_producers(endings_by_row, endings_by_row[:, fk.ENDED_PRODUCER], job)


def _rows_of_producers(table: Ints, producer_ids: Ints, job: TableJob) -> Ints:
    """Rows of the wanted producers; all rows if no ids are given."""
    if job.producer_ids is None:
        return table
    producer_rows: Ints = table[np.isin(producer_ids, list(job.producer_ids))]
    return producer_rows


def columns_of_endings(table: Ints, segment_tables: SegmentTables) -> dict[str, ArrayMaker]:
    """Columns from rows of ended transactions."""
    del segment_tables
    is_commit = boolean_column(table[:, fk.ENDED_COMMITTED] == 1)
    return {**_number_columns("endings", table), "is_commit": is_commit}


def columns_of(table: Ints, segment_tables: SegmentTables = ()) -> dict[str, ArrayMaker]:
    """Columns from rows of fragments."""
    del segment_tables
    head_columns = table[:, fk.HEAD_IS_COMMIT]
    return {
        **_number_columns("fragments", table[:, : fk.TABLE_COLUMNS]),
        "head_is_commit": boolean_column(head_columns == 1, absent_value=head_columns < 0),
    }


def _number_columns(table_name: str, table: Ints) -> dict[str, ArrayMaker]:
    """Columns of the kernel's numbers, which are the last columns of the table, in order."""
    names_of_numbers = [
        column.name for column in TABLES[table_name].columns if column.type != TIMESTAMP_TYPE
    ]
    column_names = names_of_numbers[-table.shape[1] :]
    return {
        column: nonnegative_column(np.ascontiguousarray(table[:, column_index]))
        for column_index, column in enumerate(column_names)
    }
