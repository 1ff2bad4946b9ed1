"""The table ``segments``: size, offsets and times of each segment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from txnsim_spark.file_faults import refuse_damage
from txnsim_spark.scan import kernel
from txnsim_spark.scan.segments import SegmentDamage, SegmentFile
from txnsim_spark.schemas import SegmentRow
from txnsim_spark.tables._damage import check_headers, sound_rows
from txnsim_spark.tables.rows import Rows, TableJob, rows_of_structs, segment_columns

WALK_COLUMNS: Final = frozenset(
    {
        *("sound_bytes", "batches", "records", "first_offset", "last_offset"),
        *("max_timestamp_ms", "max_timestamp"),
    }
)
"""Columns that are only known after a walk through the segment."""


def read(segment: SegmentFile, job: TableJob) -> Iterator[Rows]:
    path = Path(segment.path)
    size_bytes = path.stat().st_size
    if WALK_COLUMNS.isdisjoint(job.columns):
        row = SegmentRow(file=segment.path, size_bytes=size_bytes, is_last=segment.is_last)
    else:
        check_headers(segment, job)
        row = _walk_segment(segment, size_bytes, job)
    return rows_of_structs(iter([row]), partial(segment_columns, segment))


def _walk_segment(segment: SegmentFile, size_bytes: int, job: TableJob) -> SegmentRow:
    damages: list[SegmentDamage] = []
    batch_count = record_count = 0
    first_offset: int | None = None
    last_offset: int | None = None
    newest_timestamp = -1
    for table in sound_rows(segment, damages.append):
        batch_count += table.shape[1]
        record_count += int(table[kernel.RECORD_COUNT].sum())
        newest_timestamp = max(newest_timestamp, int(table[kernel.MAX_TIMESTAMP].max()))
        last_offset = int(table[kernel.LAST_OFFSET, -1])
        if first_offset is None:
            first_offset = int(table[kernel.BASE_OFFSET, 0])
    for damage in damages:
        refuse_damage(segment, damage, job.options)
    damages = [damage for damage in damages if damage.position + damage.size == segment.size]
    return SegmentRow(
        file=segment.path,
        size_bytes=size_bytes,
        is_last=segment.is_last,
        sound_bytes=damages[0].position if damages else segment.size,
        batches=batch_count,
        records=record_count,
        first_offset=first_offset,
        last_offset=last_offset,
        max_timestamp_ms=None if newest_timestamp < 0 else newest_timestamp,
    )
