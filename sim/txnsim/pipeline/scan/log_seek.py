"""Places in a replica's log, found through its sparse index: its end, the batch of an offset, the
batches behind an offset.

Little is read, also of a large log. An index may be wrong: an entry counts only if the batch at its
position has its offset. If no entry counts, the segment is read from its start. Kafka's
counterparts: OffsetIndex.lookup, LogSegment.read, LogSegment.recover.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import BinaryIO, Final

import msgspec

from txnsim.errors import CorruptBatchError
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.storage import names
from txnsim.storage.indexes import TIME_ENTRY
from txnsim.storage.log_file import (
    OldMessage,
    TornTail,
    Window,
    problem_of,
    read_log_file,
    wrong_crc,
)
from txnsim.storage.regular_file import open_regular, read_regular, size_of_open
from txnsim.wire.batch import (
    BatchHeader,
    crc_is_valid,
    read_batch_header,
    read_control_record,
)
from txnsim.wire.batch_header import HEADER_SIZE, MAGIC_POSITION
from txnsim.wire.old_messages import is_old

ENTRY: Final = Struct(">ii")
_TRIES: Final = 64
"""Entries at the end of an index that are looked at before it is given up: an unclean stop leaves
some that point behind the end of the file.
"""
_MARKER_BYTES_MAX: Final = 1 << 12
_WINDOW_BYTES: Final = 64 << 10
"""So much is read at once: some entries of an index lie in it."""


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a segment."""

    end_offset: int
    """Behind the last batch that counts."""
    problem: str = ""
    """What is wrong with it, with its place; empty if nothing is."""


def end_offset_of(segment: SegmentFile) -> int:
    """Where the log ends, as its last segment tells: behind its last whole batch, and a sound one
    where a starting broker computes CRCs.

    Raises:
        OSError: A file can't be read.
    """
    return tail_of(segment).end_offset


def tail_of(segment: SegmentFile) -> Tail:
    """The end of a segment. Only batches behind the last entry of its index are looked at.

    Raises:
        OSError: A file can't be read.
    """
    end, position, problem = segment.base_offset, 0, ""
    with open_file(segment.path) as file:
        position = position_before(segment, None)
        window = Window(file, _WINDOW_BYTES)
        for at, header in _walk(window, segment, position):
            is_sound = _is_sound(window, at, header)
            if end == segment.base_offset and at:  # what lies before the index entry is not read
                end = header.base_offset
            if not is_sound and not problem:
                problem = f"{segment.path}, byte {at}: {wrong_crc(header)}"
            if not is_sound and segment.is_recovered:
                return Tail(end_offset=end, problem=problem)
            end, position = header.last_offset + 1, at + header.size
        if position < segment.size:
            end, position, why = _past_old(file, segment, position, end)
            if why and not problem:
                problem = f"{segment.path}, byte {position}: {why}"
    return Tail(end_offset=end, problem=problem)


def _past_old(
    file: BinaryIO, segment: SegmentFile, position: int, end: int
) -> tuple[int, int, str]:
    """(end offset, position, what is wrong) behind messages of old formats, and what follows."""
    file.seek(position)
    front = file.read(HEADER_SIZE)
    if len(front) <= MAGIC_POSITION or not is_old(front):
        return end, position, problem_of(front, segment.size - position)
    old: list[OldMessage] = []
    torn: list[TornTail] = []
    found = read_log_file(
        Path(segment.path), on_torn=torn.append, check_crc=False, on_old=old.append
    )
    last = -1
    for stored in found:
        last = max(last, stored.header.last_offset)
    end = max([end, last + 1, *(one.offset + 1 for one in old[-1:])])
    if torn:
        return end, torn[0].position, torn[0].reason
    return end, segment.size, ""


def last_batch_of(segment: SegmentFile) -> BatchHeader | None:
    """The last whole and sound batch of a segment.

    Raises:
        OSError: A file can't be read.
    """
    last = None
    for window, position, header in _batches(segment, None):
        if not _is_sound(window, position, header):
            break
        last = header
    return last


def batch_at(segment: SegmentFile, offset: int, *, check_crc: bool = False) -> BatchHeader | None:
    """The batch of a record; None where the segment has it no more.

    Args:
        segment: The segment.
        offset: Of the record.
        check_crc: None too where its CRC is wrong.

    Raises:
        OSError: A file can't be read.
    """
    for window, position, header in _batches(segment, offset):
        if header.last_offset >= offset:
            is_there = header.base_offset <= offset
            is_wrong = is_there and check_crc and not _is_sound(window, position, header)
            return header if is_there and not is_wrong else None
    return None


def marked_producers(segment: SegmentFile, offset: int) -> Iterator[int]:
    """The producers of the markers at or behind an offset.

    Raises:
        OSError: A file can't be read.
    """
    for window, position, header in _batches(segment, offset):
        if header.base_offset >= offset and header.is_control and _is_marker(window, position):
            yield header.producer_id


def greatest_timestamp_of(segment: SegmentFile) -> int | None:
    """Of a closed segment, as the last entry of its ``.timeindex`` says; None where that can't be
    gone by, as Kafka's own check of the index has it (TimeIndex.sanityCheck).

    A segment gets this entry when it is closed (LogSegment.onBecomeInactiveSegment). It counts if
    it is not before the first one, and no offset of it lies outside of the segment.
    """
    try:
        with open_regular(Path(segment.path).with_suffix(names.TIME_INDEX_SUFFIX)) as file:
            size = size_of_open(file)
            if not size or size % TIME_ENTRY.size:
                return None
            first, _ = TIME_ENTRY.unpack(file.read(TIME_ENTRY.size))
            file.seek(size - TIME_ENTRY.size)
            greatest, relative = TIME_ENTRY.unpack(file.read(TIME_ENTRY.size))
    except (OSError, StructError):  # gone, or cut since its size was asked: nothing is known
        return None
    behind = segment.next_base_offset
    is_within = relative >= 0 and (behind is None or segment.base_offset + relative < behind)
    return int(greatest) if is_within and 0 < first <= greatest else None


def open_file(path: str) -> BinaryIO:
    """A segment, opened for reading.

    Raises:
        OSError: It can't be read.
    """
    return open_regular(Path(path))


def _is_marker(window: Window, position: int) -> bool:
    try:
        control = read_control_record(window.bytes_at(position, _MARKER_BYTES_MAX))
    except CorruptBatchError:
        return False
    return control is not None and control.is_marker


def _is_sound(window: Window, position: int, header: BatchHeader) -> bool:
    return crc_is_valid(window.bytes_at(position, header.size), header)


def _batches(segment: SegmentFile, offset: int | None) -> Iterator[tuple[Window, int, BatchHeader]]:
    """Batches with their places, from one before an offset on, or from near the segment's end."""
    with open_file(segment.path) as file:
        window = Window(file, _WINDOW_BYTES)
        for position, header in _walk(window, segment, position_before(segment, offset)):
            yield window, position, header


def _walk(window: Window, segment: SegmentFile, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """Whole batches with their places, up to where they make no sense."""
    size = segment.size
    while position + HEADER_SIZE <= size:
        try:
            header = read_batch_header(window.bytes_at(position, HEADER_SIZE))
        except CorruptBatchError:
            return
        behind = position + header.size
        if behind > size:
            return
        yield position, header
        position = behind


def position_before(segment: SegmentFile, offset: int | None) -> int:
    """Where a batch begins that lies before an offset, or near the segment's end: as near as the
    index tells.

    Raises:
        OSError: The segment can't be read.
    """
    if offset is not None and offset <= segment.base_offset:
        return 0
    path = Path(segment.path).with_suffix(names.INDEX_SUFFIX)
    try:
        data = read_regular(path)
    except OSError:  # without its index a segment is walked over
        return 0
    count = entries_used(data)
    if len(data) < count * ENTRY.size:
        return 0
    if offset is not None:
        relative = offset - segment.base_offset
        count = bisect_left(range(count), relative, key=lambda number: entry_in(data, number)[0])
    with open_file(segment.path) as file:
        for number in range(count - 1, max(-1, count - 1 - _TRIES), -1):
            relative, position = entry_in(data, number)
            if whole_batch_at(file, segment, position, segment.base_offset + relative) is not None:
                return position
    return 0


def entries_used(index: bytes) -> int:
    """How many entries an index has; the last one may be torn. A living broker keeps it larger than
    it is, filled up with zeros.
    """
    return -(-len(index.rstrip(b"\0")) // ENTRY.size)


def entry_in(index: bytes, number: int) -> tuple[int, int]:
    """(offset behind the segment's own, position)."""
    relative, position = ENTRY.unpack_from(index, number * ENTRY.size)
    return relative, position


def whole_batch_at(
    file: BinaryIO, segment: SegmentFile, position: int, offset: int
) -> BatchHeader | None:
    """The batch that begins at a position, if it is whole and has an offset."""
    if not 0 <= position <= segment.size - HEADER_SIZE:
        return None
    file.seek(position)
    try:
        header = read_batch_header(file.read(HEADER_SIZE))
    except CorruptBatchError:
        return None
    has_offset = header.base_offset <= offset <= header.last_offset
    return header if has_offset and position + header.size <= segment.size else None
