"""Which record was stamped when? The searches behind ListOffsets (Kafka's
UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp).

There is no time index within a segment: the headers are scanned. Only tools and consumers that seek
ask this, and a header costs less than a microsecond. Control records are found like others, as on a
real broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from txnsim.errors import MissingExtraError
from txnsim.log.segment import Segment, max_timestamp_of
from txnsim.wire.batch import Record, read_batch_header, read_records


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, *, start: int
) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record at offset ``start`` or above that is stamped
    ``timestamp`` or later.

    Only the first segment that reaches ``timestamp`` is asked, also where its records of that time
    lie below ``start``.
    """
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            return _in_segment(segment, timestamp, start=start)
    return None


def first_of_max(segments: Iterable[Segment]) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record that carries the largest timestamp of the log."""
    segment = max(segments, key=lambda segment: segment.max_timestamp)
    for batch in segment.batches():
        if max_timestamp_of(batch) == segment.max_timestamp:
            for found in _stamped_offsets(batch):
                if found[0] == segment.max_timestamp:
                    return found
            return None
    return None


def _in_segment(segment: Segment, timestamp: int, *, start: int) -> tuple[int, int] | None:
    for index in range(segment.index_of(start), len(segment)):
        batch = segment.batch(index)
        if max_timestamp_of(batch) < timestamp:
            continue
        for found in _stamped_offsets(batch):
            if found[0] >= timestamp and found[1] >= start:
                return found
    return None


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
