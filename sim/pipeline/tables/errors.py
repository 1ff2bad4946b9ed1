"""The table ``errors``: where a file stops making sense, and why."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from sim.pipeline.segments import SegmentFile
from sim.pipeline.tables.rows import Job, Rows, of_segment, of_structs
from sim.pipeline.walk import damage_of


class ErrorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One place."""

    file: str
    kind: str
    position: int
    size_bytes: int
    is_cut: bool
    reason: str


def read(segment: SegmentFile, job: Job) -> Iterator[Rows]:
    """The rows of a segment."""
    del job
    return of_structs(_damages(segment), partial(of_segment, segment))


def _damages(segment: SegmentFile) -> Iterator[ErrorRow]:
    try:
        found = damage_of(Path(segment.path))
    except OSError as error:
        yield ErrorRow(
            file=segment.path,
            kind="unreadable",
            position=0,
            size_bytes=segment.size,
            is_cut=False,
            reason=str(error),
        )
        return
    if found is not None:
        yield ErrorRow(
            file=segment.path,
            kind=found.kind,
            position=found.position,
            size_bytes=found.size,
            is_cut=segment.is_last,
            reason=found.reason,
        )
