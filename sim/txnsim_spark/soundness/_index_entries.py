"""The entries of a segment's two sparse indexes (``txnsim.storage._indexes`` has their form)."""

from __future__ import annotations

from struct import Struct
from typing import Final

from txnsim.errors import CorruptLogRecordError

_OFFSET: Final = Struct(">ii")
_TIME: Final = Struct(">qi")


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
    _check_whole(data, _TIME.size, place)
    found: list[tuple[int, int]] = []
    for timestamp, relative in _TIME.iter_unpack(data):
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
