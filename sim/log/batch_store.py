"""The bytes of a log: whole record batches, found by offset and by size.

One list of batches and two arrays beside it, first offset and position of the end, so that a read
is two bisections and a slice without copying a byte. Positions count all bytes ever stored, like
the position in an endless file; dropping a prefix does not move them. Kafka's counterparts are
FileRecords and OffsetIndex, without the files.

Kafka's index is sparse, and how sparse shows in one answer (``offset_behind``). So the entries that
it would have are kept, too.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23

INDEX_INTERVAL_BYTES: Final = 4096
"""A batch is indexed once more than this has been written since the last one that was
(``index.interval.bytes``).
"""

DEVIATIONS: Final = (
    "A Fetch returns whole batches only; Apache Kafka cuts the last one off where the size limit "
    "falls, and consumers throw the piece away.",
)


class BatchStore:
    """Batches in the order of their offsets; compaction may have left gaps."""

    __slots__ = (
        *("_bases", "_batches", "_ends", "_start_position"),
        *("_indexed_offsets", "_indexed_positions", "_unindexed_bytes"),
    )

    def __init__(self) -> None:
        self._batches: list[bytes] = []
        self._bases = array("q")
        self._ends = array("q")
        self._start_position = 0
        self._indexed_offsets = array("q")
        self._indexed_positions = array("q")
        self._unindexed_bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    # Commands

    def append(self, batch: bytes, base_offset: int) -> None:
        """Add a batch behind the others."""
        ends = self._ends
        size = len(batch)
        position = ends[-1] if ends else self._start_position
        ends.append(position + size)
        self._bases.append(base_offset)
        self._batches.append(batch)
        if self._unindexed_bytes > INDEX_INTERVAL_BYTES:
            self._indexed_offsets.append(self.last_offset(len(ends) - 1))
            self._indexed_positions.append(position)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds ``offset`` and all behind it."""
        keep = self.index_of(offset)
        del self._batches[keep:]
        del self._bases[keep:]
        del self._ends[keep:]
        entries = bisect_left(self._indexed_offsets, offset)
        del self._indexed_offsets[entries:]
        del self._indexed_positions[entries:]
        self._unindexed_bytes = 0  # as LogSegment.truncateTo leaves it

    def drop_before(self, offset: int) -> tuple[bytes, ...]:
        """Drop the batches that lie wholly below ``offset`` and return them."""
        gone = self.index_of(offset)
        if not gone:
            return ()
        dropped = tuple(self._batches[:gone])
        self._start_position = self._ends[gone - 1]
        del self._batches[:gone]
        del self._bases[:gone]
        del self._ends[:gone]
        entries = bisect_left(self._indexed_positions, self._start_position)
        del self._indexed_offsets[:entries]
        del self._indexed_positions[:entries]
        return dropped

    # Queries

    def index_of(self, offset: int) -> int:
        """Index of the first batch whose last offset is at least ``offset``; their number when
        there is none.
        """
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return 0
        return index if self.last_offset(index) >= offset else index + 1

    def end_index_of(self, upper: int) -> int:
        """How many batches lie wholly below ``upper``."""
        count = bisect_left(self._bases, upper)
        return count - 1 if count and self.last_offset(count - 1) >= upper else count

    def end_index_within(self, start: int, size_max: int) -> int:
        """Index behind the last batch that fits into ``size_max`` bytes, reading from index
        ``start``.
        """
        return bisect_right(self._ends, self.position(start) + size_max)

    def position(self, index: int) -> int:
        """Position of the first byte of batch ``index``, or of the end."""
        return self._ends[index - 1] if index else self._start_position

    def offset_behind(self, position: int) -> int | None:
        """Last offset of the first indexed batch at ``position`` or behind; None where no batch is
        indexed there (OffsetIndex.fetchUpperBoundOffset).
        """
        entry = bisect_left(self._indexed_positions, position)
        return self._indexed_offsets[entry] if entry < len(self._indexed_offsets) else None

    def slice(self, start: int, end: int) -> tuple[bytes, ...]:
        """Batches ``start`` … ``end - 1``, not copied."""
        return tuple(self._batches[start:end])

    def batch(self, index: int) -> bytes:
        """Batch ``index`` as it is stored."""
        return self._batches[index]

    def base_offset(self, index: int) -> int:
        """First offset of batch ``index``."""
        return self._bases[index]

    def first_offset(self, default: int) -> int:
        """First offset of the first batch; ``default`` when there is none."""
        return self._bases[0] if self._bases else default

    def last_offset(self, index: int) -> int:
        """Last offset of batch ``index``; kept by compaction even where the last record is gone."""
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(self._batches[index], _LAST_OFFSET_DELTA_AT)
        return self._bases[index] + int(delta)

    @property
    def size_bytes(self) -> int:
        """Bytes of the batches that are still here."""
        return self._ends[-1] - self._start_position if self._ends else 0
