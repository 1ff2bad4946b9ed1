"""Which record was stamped when? The searches behind ListOffsets (Kafka's
UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp).

There is no time index within a segment: the headers are scanned. Only tools and consumers that seek
ask this, and a header costs less than a microsecond. Control records are found like others, as on a
real broker. A batch may hold hundreds of thousands of records, so they are read in steps; the log
may have changed in between, so the next batch is looked up again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from txnsim.errors import MissingExtraError
from txnsim.log.segment import Segment, max_timestamp_of
from txnsim.log.unpacking import Steps, payload_in_steps
from txnsim.wire.batch import read_batch_header
from txnsim.wire.compression import DECOMPRESSED_MAX
from txnsim.wire.records import stamps_in

Stamp = tuple[int, int]
"""(timestamp, offset) of a record."""

STEP_RECORDS: Final = 1_000
_RECORD_NS: Final = 800


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, *, start: int
) -> Steps[Stamp | None]:
    """The first record at offset ``start`` or above that is stamped ``timestamp`` or later.

    Only the first segment that reaches ``timestamp`` is asked, also where its records of that time
    lie below ``start``.
    """
    found = (segment for segment in segments if segment.largest_timestamp >= timestamp)
    segment = next(found, None)
    at = start
    while segment is not None:
        index = _index_of(segment, at, timestamp)
        if index is None:
            break
        at = segment.last_offset(index) + 1
        stamp = yield from _first(
            segment.batch(index), lambda stamp: stamp[0] >= timestamp and stamp[1] >= start
        )
        if stamp is not None:
            return stamp
    return None


def first_of_max(segments: Iterable[Segment]) -> Steps[Stamp | None]:
    """The first record that carries the largest timestamp of the log."""
    segment = max(segments, key=lambda segment: segment.max_timestamp)
    newest = segment.max_timestamp
    index = _index_of(segment, segment.base_offset, newest)
    if index is None:
        return None
    return (yield from _first(segment.batch(index), lambda stamp: stamp[0] == newest))


def _index_of(segment: Segment, start: int, timestamp: int) -> int | None:
    """The first batch with offsets of at least ``start`` that reaches the timestamp."""
    for index in range(segment.index_of(start), len(segment)):
        if max_timestamp_of(segment.batch(index)) >= timestamp:
            return index
    return None


def _first(batch: bytes, is_wanted: Callable[[Stamp], bool]) -> Steps[Stamp | None]:
    """The first matching record; of a batch without a codec, the header's values."""
    header = read_batch_header(batch)
    try:
        payload = yield from payload_in_steps(header, batch, DECOMPRESSED_MAX)
    except MissingExtraError:
        # No codec: the first record carries the base timestamp, and the record with the largest one
        # is unknown.
        stamps = (
            (header.base_timestamp_ms, header.base_offset),
            (header.max_timestamp_ms, header.last_offset),
        )
        return next(filter(is_wanted, stamps), None)
    for number, stamp in enumerate(stamps_in(payload, header), start=1):
        if is_wanted(stamp):
            return stamp
        if not number % STEP_RECORDS:
            yield STEP_RECORDS * _RECORD_NS
    return None
