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

from collections.abc import Generator, Iterable
from struct import Struct
from typing import Final

from txnsim.wire.batch import read_batch_header

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
"""Entry of ``.timeindex``: largest timestamp so far, relative offset."""


BATCHES_PER_STEP: Final = 1_000


def encode_indexes_in_steps(
    batches: Iterable[bytes], *, base_offset: int, index_interval_bytes: int
) -> Generator[int, None, tuple[bytes, bytes]]:
    """Encode ``.index`` and ``.timeindex`` of a segment with these batches.

    Yields:
        The number of batches, after every thousand.
    """
    offset_entries: list[bytes] = []
    time_entries: list[bytes] = []
    position = unindexed_bytes = 0
    largest_timestamp_ms, timestamp_offset, indexed_timestamp_ms = -1, base_offset, -1

    for batch_number, batch in enumerate(batches, start=1):
        if not batch_number % BATCHES_PER_STEP:
            yield BATCHES_PER_STEP
        header = read_batch_header(batch)
        if header.max_timestamp_ms > largest_timestamp_ms:
            largest_timestamp_ms, timestamp_offset = header.max_timestamp_ms, header.last_offset
        if unindexed_bytes > index_interval_bytes:
            offset_entries.append(_OFFSET_ENTRY.pack(header.last_offset - base_offset, position))
            if largest_timestamp_ms > indexed_timestamp_ms:
                time_entries.append(
                    _TIME_ENTRY.pack(largest_timestamp_ms, timestamp_offset - base_offset)
                )
                indexed_timestamp_ms = largest_timestamp_ms
            unindexed_bytes = 0
        unindexed_bytes += header.size
        position += header.size
    if largest_timestamp_ms > indexed_timestamp_ms:
        time_entries.append(_TIME_ENTRY.pack(largest_timestamp_ms, timestamp_offset - base_offset))
    return b"".join(offset_entries), b"".join(time_entries)
