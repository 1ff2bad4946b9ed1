"""The two sparse indexes of a segment, as a broker writes them beside its ``.log`` file.

- ``.index``: (offset relative to the base, position) in 4 bytes each, of a batch's last offset and
  where the batch begins, once more than ``index.interval.bytes`` have been written since the last
  entry (Kafka's OffsetIndex);
- ``.timeindex``: (largest timestamp so far, relative offset of the batch that brought it) in 8 and
  4 bytes, at the same moments and once more at the end of the segment (TimeIndex).

A broker makes missing ones again. While a segment is written, its indexes have their largest
possible size (``segment.index.bytes``); after an unclean stop the rest of such a file is zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from txnsim.errors import CorruptLogRecordError
from txnsim.wire.batch import read_batch_header

_OFFSET: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
"""Of ``.timeindex``: largest timestamp so far, relative offset."""


def encode_indexes(
    batches: Iterable[bytes], *, base_offset: int, index_interval_bytes: int
) -> tuple[bytes, bytes]:
    """The bytes of ``.index`` and ``.timeindex`` of a segment with these batches."""
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
                times.append(TIME_ENTRY.pack(largest, brought_by - base_offset))
                timed_until = largest
            unindexed = 0
        unindexed += header.size
        position += header.size
    if largest > timed_until:
        times.append(TIME_ENTRY.pack(largest, brought_by - base_offset))
    return b"".join(offsets), b"".join(times)


def decode_offset_index(
    data: bytes, *, base_offset: int, place: str
) -> tuple[tuple[int, int], ...]:
    """(offset, position) of each entry, without the zeros behind the last one.

    Raises:
        CorruptLogRecordError: Bytes that are no whole entry (OffsetIndex.sanityCheck).
    """
    _check_whole(data, _OFFSET.size, place)
    found: list[tuple[int, int]] = []
    for relative, position in _OFFSET.iter_unpack(data):
        if found and not relative:
            break
        found.append((base_offset + relative, position))
    # A lone entry of zeros is the front of an unused file.
    return () if found == [(base_offset, 0)] and len(data) > _OFFSET.size else tuple(found)


def decode_time_index(data: bytes, *, base_offset: int, place: str) -> tuple[tuple[int, int], ...]:
    """(largest timestamp, offset) of each entry, without the zeros behind the last one.

    Raises:
        CorruptLogRecordError: Bytes that are no whole entry (TimeIndex.sanityCheck).
    """
    _check_whole(data, TIME_ENTRY.size, place)
    found: list[tuple[int, int]] = []
    for timestamp, relative in TIME_ENTRY.iter_unpack(data):
        if not timestamp and not relative:
            break
        found.append((timestamp, base_offset + relative))
    return tuple(found)


def _check_whole(data: bytes, entry_bytes: int, place: str) -> None:
    left = len(data) % entry_bytes
    if left:
        raise CorruptLogRecordError(
            f"{place}, byte {len(data) - left}: {left} bytes, entries have {entry_bytes}"
        )
