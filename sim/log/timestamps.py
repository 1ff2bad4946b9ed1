"""Which record was stamped when? The searches behind ListOffsets (Kafka's
LogSegment.findOffsetByTimestamp).

There is no time index: the headers are scanned. Only tools and consumers that seek ask this, and a
header costs less than a microsecond. Control records are found like others, as on a real broker.
"""

from __future__ import annotations

import struct
from typing import Final

from sim.errors import MissingExtraError
from sim.log.answers import NO_TIMESTAMP
from sim.log.batch_store import BatchStore
from sim.wire.batch import Record, read_batch_header, read_records

_MAX_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


def first_at_or_after(store: BatchStore, timestamp: int, *, start: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record at offset ``start`` or above that is stamped
    ``timestamp`` or later.
    """
    for index in range(store.index_of(start), len(store)):
        batch = store.batch(index)
        if _max_timestamp(batch) < timestamp:
            continue
        for found in _stamped_offsets(batch):
            if found[0] >= timestamp and found[1] >= start:
                return found
    return None


def first_of_max(store: BatchStore, *, start: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record that carries the largest timestamp of the log."""
    largest = NO_TIMESTAMP
    index_largest = -1
    for index in range(store.index_of(start), len(store)):
        timestamp = _max_timestamp(store.batch(index))
        if timestamp > largest:
            largest = timestamp
            index_largest = index
    if index_largest < 0:
        return None
    for found in _stamped_offsets(store.batch(index_largest)):
        if found[0] == largest:
            return found
    return largest, store.last_offset(index_largest)


def _max_timestamp(batch: bytes) -> int:
    (timestamp,) = _MAX_TIMESTAMP.unpack_from(batch, _MAX_TIMESTAMP_AT)
    return int(timestamp)


def _stamped_offsets(batch: bytes) -> list[tuple[int, int]]:
    """(timestamp, offset) of each record of a batch; of one that can't be opened what its header
    says.
    """
    try:
        return [(_stamp(record), record.offset) for record in read_records(batch)]
    except MissingExtraError:
        # No codec: the first record carries the base timestamp, and nobody knows which one the
        # largest.
        header = read_batch_header(batch)
        return [
            (header.base_timestamp_ms, header.base_offset),
            (header.max_timestamp_ms, header.last_offset),
        ]


def _stamp(record: Record) -> int:
    """The timestamp of a record that was read, which always has one."""
    assert record.timestamp_ms is not None
    return record.timestamp_ms
