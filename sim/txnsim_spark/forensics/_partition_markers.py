"""Reads a producer's markers in front of its open transaction, from a replica's segments.

It reads backwards from the segment in which the transaction begins to one whose greatest timestamp
is older than the requested time. If the log begins after offset 0, retention has deleted markers.
The first remaining marker, of any producer, shows since when the markers are complete. Kafka's
counterpart: ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from txnsim.storage.regular_file import MOUNTS
from txnsim.txn.marker_payment import (
    AFTER_ALL_MARKERS_MS,
    BEFORE_ALL_MARKERS_MS,
    NO_MARKERS,
    PartitionMarker,
    PartitionMarkers,
)
from txnsim.wire.batch import BatchHeader
from txnsim_spark.scan.log_seek import greatest_timestamp_of, read_markers
from txnsim_spark.scan.segments import SegmentFile

ReadMarkers = Callable[[int], PartitionMarkers]
"""Reads the markers since a time, in milliseconds."""


def marker_reader_of(
    segments: Sequence[SegmentFile], producer_id: int, *, before_offset: int
) -> ReadMarkers:
    """A function that reads a producer's markers in front of an offset, given a time."""

    def read(since_ms: int) -> PartitionMarkers:
        return markers_before(segments, producer_id, before_offset=before_offset, since_ms=since_ms)

    return read


def markers_before(
    segments: Sequence[SegmentFile], producer_id: int, *, before_offset: int, since_ms: int
) -> PartitionMarkers:
    """The markers of a producer in front of an offset, since a time.

    Args:
        segments: Segments of the replica, by offset.
        producer_id: The producer.
        before_offset: First offset of the open transaction.
        since_ms: Older markers are not needed.
    """
    needed_segments = _needed_segments(segments, before_offset, since_ms)
    if not needed_segments:
        return NO_MARKERS
    MOUNTS.expect([segment.path for segment in needed_segments])
    found_gaps: list[None] = []
    markers: list[tuple[BatchHeader, bool]] = []
    try:
        for segment in needed_segments:
            markers += (
                (header, is_commit)
                for header, is_commit in read_markers(segment, lambda: found_gaps.append(None))
                if header.base_offset < before_offset
            )
    except OSError:  # reported where the replica was looked at
        found_gaps.append(None)
    if found_gaps:
        whole_since_ms = AFTER_ALL_MARKERS_MS
    elif needed_segments[0] is not segments[0]:
        whole_since_ms = since_ms
    elif segments[0].base_offset == 0:
        whole_since_ms = BEFORE_ALL_MARKERS_MS
    else:
        whole_since_ms = markers[0][0].max_timestamp_ms if markers else AFTER_ALL_MARKERS_MS
    return PartitionMarkers(
        markers=tuple(
            PartitionMarker(
                offset=header.base_offset,
                producer_epoch=header.producer_epoch,
                is_commit=is_commit,
                timestamp_ms=header.max_timestamp_ms,
            )
            for header, is_commit in markers
            if header.producer_id == producer_id
        ),
        complete_since_ms=whole_since_ms,
    )


def _needed_segments(
    segments: Sequence[SegmentFile], before_offset: int, since_ms: int
) -> Sequence[SegmentFile]:
    """The segments to read: older ones end before the time, newer ones begin after the offset."""
    end_index = sum(segment.base_offset < before_offset for segment in segments)
    begin_index = end_index
    while begin_index > 0:
        greatest_timestamp = greatest_timestamp_of(segments[begin_index - 1])
        # The newest segment has no last entry in its index yet.
        if (
            begin_index < end_index
            and greatest_timestamp is not None
            and greatest_timestamp < since_ms
        ):
            break
        begin_index -= 1
    return segments[begin_index : max(end_index, 1)]
