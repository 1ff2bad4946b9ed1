"""Writes the two sparse indexes of a segment, as a broker writes them for its ``.log`` file.

- ``.index``: (offset relative to the base, position) in 4 bytes each: a batch's last offset and the
  position where the batch begins. A broker adds an entry when more than ``index.interval.bytes``
  were written since the last one (Kafka's OffsetIndex).
- ``.timeindex``: (largest timestamp so far, relative offset of the batch that had it) in 8 and 4
  bytes. A broker adds an entry at the same moments and at the end of the segment (TimeIndex).

A broker rebuilds missing indexes. While a segment is written, its indexes have their largest
possible size (``segment.index.bytes``); after an unclean stop the rest of such a file is zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from txnsim.wire.batch import read_batch_header

_OFFSET: Final = Struct(">ii")
_TIME: Final = Struct(">qi")
"""Entry of ``.timeindex``: largest timestamp so far, relative offset."""


def encode_indexes(
    batches: Iterable[bytes], *, base_offset: int, index_interval_bytes: int
) -> tuple[bytes, bytes]:
    """Encode ``.index`` and ``.timeindex`` of a segment with these batches."""
    offsets: list[bytes] = []
    times: list[bytes] = []
    position = unindexed = 0
    largest, brought_by, timed_until = -1, base_offset, -1

    for batch in batches:
        header = read_batch_header(batch)
        if header.max_timestamp_ms > largest:
            largest, brought_by = header.max_timestamp_ms, header.last_offset
        if unindexed > index_interval_bytes:
            offsets.append(_OFFSET.pack(header.last_offset - base_offset, position))
            if largest > timed_until:
                times.append(_TIME.pack(largest, brought_by - base_offset))
                timed_until = largest
            unindexed = 0
        unindexed += header.size
        position += header.size
    if largest > timed_until:
        times.append(_TIME.pack(largest, brought_by - base_offset))
    return b"".join(offsets), b"".join(times)
