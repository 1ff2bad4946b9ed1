"""The table ``records``: every record, decompressed and decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from txnsim.pipeline.scan import kernel
from txnsim.pipeline.scan.pieces import Ints
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.pipeline.tables.batches import of_headers
from txnsim.pipeline.tables.decoded import decoded_batches
from txnsim.pipeline.tables.rows import ROWS_MAX, Job, Make, Rows, integers, of_segment, values
from txnsim.wire.batch_header import SEQUENCE_MAX
from txnsim.wire.records import Record

BYTES_MAX: Final = 8 << 20
"""About how much of keys and values is handed over at once."""


def read(segment: SegmentFile, job: Job) -> Iterator[Rows]:
    """The rows of a segment.

    Raises:
        OSError: The file can't be read.
    """
    chunk = _Chunk()
    for batch in decoded_batches(segment, job):
        for record in batch.records():
            if chunk.is_full:
                yield chunk.rows(segment)
                chunk = _Chunk()
            chunk.take(record, batch.columns)
    if chunk.records:
        yield chunk.rows(segment)


class _Chunk:
    """Records and the headers of their batches, until they are enough for an Arrow batch."""

    __slots__ = ("_batches", "_bytes", "_of_batch", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._batches: list[Ints] = []
        self._of_batch: list[int] = []
        """Record -> number of its batch."""
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self.records) >= ROWS_MAX or self._bytes >= BYTES_MAX

    def take(self, record: Record, batch: Ints) -> None:
        if not self._batches or self._batches[-1] is not batch:
            self._batches.append(batch)
        self.records.append(record)
        self._of_batch.append(len(self._batches) - 1)
        self._bytes += len(record.key or b"") + len(record.value or b"")

    def rows(self, segment: SegmentFile) -> Rows:
        records = self.records
        table = np.stack(self._batches, axis=1)[:, self._of_batch]
        offsets = np.array([record.offset for record in records], dtype=np.int64)
        return Rows(
            len(records),
            {
                **of_segment(segment, len(records)),
                "offset": integers(offsets),
                "timestamp_ms": values(lambda: [record.timestamp_ms for record in records]),
                "key": values(lambda: [record.key for record in records]),
                "value": values(lambda: [record.value for record in records]),
                "headers": values(lambda: [_headers(record) for record in records]),
                "sequence": _sequences(table, offsets),
                "batch_base_offset": integers(table[kernel.BASE_OFFSET]),
                "batch_position": integers(table[kernel.POSITION]),
                **of_headers(table),
            },
        )


def _headers(record: Record) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in record.headers]


def _sequences(table: Ints, offsets: Ints) -> Make:
    """Of each record; they begin anew behind the largest int32 (incrementSequence)."""
    base = table[kernel.BASE_SEQUENCE]
    sequences = (base + offsets - table[kernel.BASE_OFFSET]) & SEQUENCE_MAX
    return integers(sequences, absent=base < 0)
