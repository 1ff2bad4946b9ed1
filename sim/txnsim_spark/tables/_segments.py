"""The table ``segments``: size, offsets and times of each segment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from txnsim_spark.file_faults import refuse_damage
from txnsim_spark.scan import kernel
from txnsim_spark.scan.segments import Damage, SegmentFile
from txnsim_spark.schemas import SegmentRow
from txnsim_spark.tables._damage import check_headers, sound_rows
from txnsim_spark.tables.rows import Rows, TableJob, of_segment, of_structs

WALKED: Final = frozenset(
    {
        *("sound_bytes", "batches", "records", "first_offset", "last_offset"),
        *("max_timestamp_ms", "max_timestamp"),
    }
)
"""Columns that are only known after a walk through the segment."""


def read(segment: SegmentFile, job: TableJob) -> Iterator[Rows]:
    """The row of a segment."""
    path = Path(segment.path)
    size = path.stat().st_size
    if WALKED.isdisjoint(job.columns):
        row = SegmentRow(file=segment.path, size_bytes=size, is_last=segment.is_last)
    else:
        check_headers(segment, job)
        row = _walk_segment(segment, size, job)
    return of_structs(iter([row]), partial(of_segment, segment))


def _walk_segment(segment: SegmentFile, size: int, job: TableJob) -> SegmentRow:
    damages: list[Damage] = []
    batches = records = 0
    first_offset: int | None = None
    last_offset: int | None = None
    newest = -1
    for table in sound_rows(segment, damages.append):
        batches += table.shape[1]
        records += int(table[kernel.RECORD_COUNT].sum())
        newest = max(newest, int(table[kernel.MAX_TIMESTAMP].max()))
        last_offset = int(table[kernel.LAST_OFFSET, -1])
        if first_offset is None:
            first_offset = int(table[kernel.BASE_OFFSET, 0])
    for damage in damages:
        refuse_damage(segment, damage, job.options)
    damages = [damage for damage in damages if damage.position + damage.size == segment.size]
    return SegmentRow(
        file=segment.path,
        size_bytes=size,
        is_last=segment.is_last,
        sound_bytes=damages[0].position if damages else segment.size,
        batches=batches,
        records=records,
        first_offset=first_offset,
        last_offset=last_offset,
        max_timestamp_ms=None if newest < 0 else newest,
    )
