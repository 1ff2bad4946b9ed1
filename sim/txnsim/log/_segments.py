"""The segments of one log: which one holds an offset, and reads within it (Kafka's LogSegments, and
the reading half of LocalLog).

There is always at least one; the last is the active one, the only one that is written. A read never
crosses from one segment into the next, as on a real broker.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from txnsim.log._segment import Segment

_ALL_BATCHES: Final = 1 << 62


class Span(NamedTuple):
    """Complete batches of one segment, not copied."""

    batches: list[bytes]
    size: int
    segment: Segment
    reach_position: int
    """Position after the bytes that a reader gets; the next batch may be cut off there."""
    cut_batch: bytes
    """The beginning of the next batch, which a reader gets and discards."""


class Segments:
    """Segments in the order of their base offsets."""

    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, first_segment: Segment) -> None:
        self._segments: list[Segment] = [first_segment]
        self._base_offsets: list[int] = [first_segment.base_offset]
        self.active = first_segment
        """The segment that is written."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    # Commands

    def add(self, segment: Segment) -> None:
        """Roll: write to this segment from now on. It replaces an empty one with the same base
        offset.
        """
        if self.active.base_offset == segment.base_offset:
            assert not len(self.active)
            self._segments.pop()
            self._base_offsets.pop()
        assert not self._segments or segment.base_offset > self._base_offsets[-1]
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def drop_first(self, count: int) -> None:
        """Drop the oldest ``count`` segments, but never all of them."""
        assert count < len(self._segments)
        del self._segments[:count]
        del self._base_offsets[:count]

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Drop every batch from the one that contains ``offset`` on; a segment that begins there
        stays, empty (LocalLog.truncateTo).
        """
        kept_count = max(1, bisect_right(self._base_offsets, offset))
        del self._segments[kept_count:]
        del self._base_offsets[kept_count:]
        self.active = self._segments[-1]
        self.active.truncate_to(offset, now_ms=now_ms)

    def replace_segments(self, old_segments: Sequence[Segment], new_segment: Segment) -> bool:
        """Replace the segments ``old_segments`` by ``new_segment`` (UnifiedLog.replaceSegments);
        False, and no change, if they are no longer here.
        """
        old_count = len(old_segments)
        first_index = bisect_right(self._base_offsets, old_segments[0].base_offset) - 1
        if self._segments[first_index : first_index + old_count] != list(old_segments):
            return False
        self._segments[first_index : first_index + old_count] = [new_segment]
        self._base_offsets[first_index : first_index + old_count] = [new_segment.base_offset]
        self.active = self._segments[-1]
        return True

    # Queries

    @property
    def first_base_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._base_offsets[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def inactive_segments(self) -> list[Segment]:
        return self._segments[:-1]

    def floor_index(self, offset: int) -> int:
        """Index of the segment for the offset; 0 for offsets before the first segment."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def segments_between(self, start_offset: int, end_offset: int) -> list[Segment]:
        """Segments that may hold offsets of ``[start, end)`` (LogSegments.values)."""
        if start_offset >= end_offset:
            return []
        return self._segments[
            self.floor_index(start_offset) : bisect_right(self._base_offsets, end_offset - 1)
        ]

    def higher_base_offset(self, segment: Segment, default: int) -> int:
        """Base offset of the next segment; ``default`` after the last one."""
        next_index = bisect_right(self._base_offsets, segment.base_offset)
        return self._base_offsets[next_index] if next_index < len(self._base_offsets) else default

    def batches(self, offset: int) -> Iterator[bytes]:
        """Batches from the one that contains ``offset`` on; later changes of the log don't affect
        the iteration.
        """
        segment_index = self.floor_index(offset)
        batch_lists = [
            self._segments[segment_index].slice(
                self._segments[segment_index].index_of(offset), _ALL_BATCHES
            )
        ]
        batch_lists += [
            segment.slice(0, _ALL_BATCHES) for segment in self._segments[segment_index + 1 :]
        ]
        for batch_list in batch_lists:
            yield from batch_list

    def batch_at(self, offset: int) -> bytes | None:
        """The first batch of ``batches(offset)``; None if there is none. No list is copied."""
        segment_and_index = self.segment_holding(offset)
        if segment_and_index is None:
            return None
        segment, batch_index = segment_and_index
        return segment.batch(batch_index)

    def segment_holding(self, offset: int) -> tuple[Segment, int] | None:
        """Segment and index of the first batch that ends at or after ``offset``; None if there is
        none.
        """
        for segment_index in range(self.floor_index(offset), len(self._segments)):
            segment = self._segments[segment_index]
            batch_index = segment.index_of(offset)
            if batch_index < len(segment):
                return segment, batch_index
        return None

    def read(
        self, offset: int, upper_offset: int, *, max_bytes: int, reads_one_batch_at_least: bool
    ) -> Span | None:
        """Batches of one segment from ``offset`` up to, but excluding, ``upper_offset``; None if
        there are none (LocalLog.read).
        """
        segment = self.active
        if offset >= segment.base_offset:
            start_index = segment.index_of(offset)
            if start_index == len(segment):
                return None
        else:
            segment_and_index = self.segment_holding(offset)
            if segment_and_index is None:
                return None
            segment, start_index = segment_and_index
        upper_index = segment.end_index_of(upper_offset)
        size_index = segment.end_index_within(start_index, max_bytes)
        bytes_limit = max_bytes
        if size_index <= start_index and reads_one_batch_at_least:
            size_index = start_index + 1
            bytes_limit = segment.position(size_index) - segment.position(start_index)
        begin_position = segment.position(start_index)
        end_index = max(start_index, min(upper_index, size_index))
        size_bytes = segment.position(end_index) - begin_position
        reach_position = min(begin_position + bytes_limit, segment.position(upper_index))
        bytes_left = reach_position - begin_position - size_bytes
        return Span(
            batches=segment.slice(start_index, end_index),
            size=size_bytes,
            segment=segment,
            reach_position=reach_position,
            # The first one is never cut: from Fetch v3 on that is an empty answer
            # (ReplicaManager.readFromLog, firstEntryIncomplete).
            cut_batch=segment.slice(end_index, end_index + 1)[0][:bytes_left]
            if bytes_left > 0 and end_index > start_index
            else b"",
        )

    def is_older(self, offset: int, upper_offset: int) -> bool:
        """Whether ``offset`` is in an older segment than ``upper_offset``
        (LogOffsetMetadata.onOlderSegment).
        """
        return offset < self.active.base_offset and self.floor_index(offset) < self.floor_index(
            upper_offset
        )

    def bytes_between(self, offset: int, upper_offset: int) -> int:
        """Greatest number of bytes that a read of ``[offset, upper)`` from one segment can
        return.
        """
        segment = self._segments[self.floor_index(offset)]
        return max(
            0,
            segment.position(segment.end_index_of(upper_offset))
            - segment.position(segment.index_of(offset)),
        )
