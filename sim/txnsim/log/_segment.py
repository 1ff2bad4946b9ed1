"""A segment of a log: complete record batches from a base offset on (Kafka's LogSegment).

A log is cut into segments so that its old end can be dropped and rewritten piece by piece. Only the
last one, the active segment, is written. It is a list of batches and two arrays, with first offsets
and end positions, so that a read is two bisections and a slice without copying bytes. Positions
count from the segment's start. Kafka's counterparts are FileRecords, OffsetIndex and TimeIndex,
without the files.

Kafka's indexes are sparse, and clients can observe that: in one answer (``offset_behind``), and
because a full index ends the segment. So the entries that they would have are kept or counted, too.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

from txnsim.log.config import LogConfig

NO_TIMESTAMP: Final = -1
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION: Final = 35

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""Offsets are indexed relative to the base in 32 bits, so a segment can't span more."""
OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12


class Segment:
    """A segment: batches in order of offset; compaction may have left gaps."""

    __slots__ = (
        *("_bases", "_batches", "_ends"),
        *("_indexed_offsets", "_indexed_positions", "_time_entry_count", "_timed_until"),
        "_unindexed_bytes",
        *("base_offset", "created_ms", "first_timestamp", "index_interval_bytes"),
        *("max_timestamp", "modified_ms", "roll_jitter_ms"),
    )

    def __init__(
        self,
        base_offset: int,
        *,
        created_ms: int = 0,
        roll_jitter_ms: int = 0,
        index_interval_bytes: int = 4096,
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.modified_ms = created_ms
        """When it was last written; stands for the largest timestamp if no record has one."""
        self.roll_jitter_ms = roll_jitter_ms
        self.index_interval_bytes = index_interval_bytes
        self.first_timestamp = NO_TIMESTAMP
        """Largest timestamp of the first batch, from which ``segment.ms`` counts."""
        self.max_timestamp = NO_TIMESTAMP
        """Largest timestamp of all batches."""
        self._batches: list[bytes] = []
        self._bases = array("q")
        self._ends = array("q")
        self._indexed_offsets = array("q")
        self._indexed_positions = array("q")
        self._time_entry_count = 0
        self._timed_until = NO_TIMESTAMP
        self._unindexed_bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    # Commands

    def append(
        self,
        batch: bytes,
        base_offset: int,
        last_offset: int,
        *,
        max_timestamp: int,
        now_ms: int,
        config: LogConfig | None = None,
    ) -> bool:
        """Append a batch; False if ``config`` is given and requires a new segment for it
        (LogSegment.shouldRoll).

        The segment's age counts in timestamps of records, from the first batch on; by the clock
        only if the first batch has none.
        """
        end_positions = self._ends
        size_bytes = len(batch)
        position = end_positions[-1] if end_positions else 0
        if config is not None:
            first_timestamp = self.first_timestamp
            index_bytes = config.segment_index_bytes
            if (
                position + size_bytes > config.roll_bytes
                or (
                    position
                    and (
                        max_timestamp - first_timestamp
                        if first_timestamp >= 0
                        else now_ms - self.created_ms
                    )
                    > config.segment_ms - self.roll_jitter_ms
                )
                or len(self._indexed_offsets) >= index_bytes // OFFSET_ENTRY_BYTES
                or self._time_entry_count >= index_bytes // TIME_ENTRY_BYTES - 1
                or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            ):
                return False
        if not position:
            self.first_timestamp = max_timestamp
        end_positions.append(position + size_bytes)
        self._bases.append(base_offset)
        self._batches.append(batch)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
        if self._unindexed_bytes > self.index_interval_bytes:
            self._indexed_offsets.append(last_offset)
            self._indexed_positions.append(position)
            if self.max_timestamp > self._timed_until:
                self._timed_until = self.max_timestamp
                self._time_entry_count += 1
            self._unindexed_bytes = 0
        self._unindexed_bytes += size_bytes
        self.modified_ms = now_ms
        return True

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Drop the batch that contains ``offset`` and all later ones."""
        kept_count = self.index_of(offset)
        del self._batches[kept_count:]
        del self._bases[kept_count:]
        del self._ends[kept_count:]
        kept_entry_count = bisect_left(self._indexed_offsets, offset)
        del self._indexed_offsets[kept_entry_count:]
        del self._indexed_positions[kept_entry_count:]
        self._time_entry_count = min(self._time_entry_count, kept_entry_count)
        self._unindexed_bytes = 0  # as LogSegment.truncateTo leaves it
        self.max_timestamp = max(map(max_timestamp_of, self._batches), default=NO_TIMESTAMP)
        self._timed_until = min(self._timed_until, self.max_timestamp)
        if not self._batches:
            self.created_ms = now_ms
            self.first_timestamp = NO_TIMESTAMP

    # Queries: when it was written

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp of its records; the time of the last write if none has one."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    @property
    def index_bytes(self) -> int:
        """Size of the larger one of its two indexes."""
        return max(
            len(self._indexed_offsets) * OFFSET_ENTRY_BYTES,
            self._time_entry_count * TIME_ENTRY_BYTES,
        )

    # Queries: where things are

    def index_of(self, offset: int) -> int:
        """Index of the first batch whose last offset is at least ``offset``; the number of batches
        if there is none.
        """
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return 0
        return index if self.last_offset(index) >= offset else index + 1

    def end_index_of(self, upper_offset: int) -> int:
        """Number of batches that are completely below ``upper_offset``."""
        batch_count = bisect_left(self._bases, upper_offset)
        return (
            batch_count - 1
            if batch_count and self.last_offset(batch_count - 1) >= upper_offset
            else batch_count
        )

    def end_index_within(self, start_index: int, size_max: int) -> int:
        """Index after the last batch that fits into ``size_max`` bytes, reading from index
        ``start_index``.
        """
        return bisect_right(self._ends, self.position(start_index) + size_max)

    def position(self, index: int) -> int:
        """Position of the first byte of batch ``index``, or of the end."""
        return self._ends[index - 1] if index else 0

    def offset_behind(self, position: int) -> int | None:
        """Last offset of the first indexed batch at or after ``position``; None if no batch is
        indexed there (OffsetIndex.fetchUpperBoundOffset).
        """
        entry_index = bisect_left(self._indexed_positions, position)
        return (
            self._indexed_offsets[entry_index] if entry_index < len(self._indexed_offsets) else None
        )

    def slice(self, start_index: int, end_index: int) -> list[bytes]:
        """Batches ``start_index`` … ``end - 1``, not copied."""
        return self._batches[start_index:end_index]

    def batches(self) -> Iterable[bytes]:
        return self._batches

    def batch(self, index: int) -> bytes:
        """Batch ``index`` as it is stored."""
        return self._batches[index]

    def batch_base(self, index: int) -> int:
        """First offset of batch ``index``."""
        return self._bases[index]

    def last_offset(self, index: int) -> int:
        """Last offset of batch ``index``; compaction keeps it even if the last record is
        removed.
        """
        (offset_delta,) = _LAST_OFFSET_DELTA.unpack_from(
            self._batches[index], _LAST_OFFSET_DELTA_POSITION
        )
        return self._bases[index] + int(offset_delta)

    @property
    def next_offset(self) -> int:
        """Offset after the segment's last batch (LogSegment.readNextOffset)."""
        batch_count = len(self._batches)
        return self.last_offset(batch_count - 1) + 1 if batch_count else self.base_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of the segment's batches."""
        return self._ends[-1] if self._ends else 0


def max_timestamp_of(batch: bytes) -> int:
    """Largest timestamp of a stored batch, from its header."""
    (timestamp,) = _MAX_TIMESTAMP.unpack_from(batch, _MAX_TIMESTAMP_POSITION)
    return int(timestamp)
