"""Finds places in a replica's log through its sparse index: its end, the batch of an offset, the
batches after an offset. It reads little, even of a large log. An index may be wrong: an entry
counts only if the batch at its position has its offset. If no entry counts, the segment is walked
over from its start, once for all places, with the compiled walk (``seek``) if it is large. Kafka's
counterparts: OffsetIndex.lookup, LogSegment.read, LogSegment.recover.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from txnsim.errors import CorruptBatchError
from txnsim.on_demand_imports import has_libraries
from txnsim.storage import names
from txnsim.storage.log_file import FileWindow, TornTail, read_log_file
from txnsim.storage.regular_file import RegularFile
from txnsim.wire.batch import (
    COMMIT,
    BatchHeader,
    crc_is_valid,
    read_batch_header,
    read_control_record,
)
from txnsim.wire.old_messages import OldMessage
from txnsim_spark.libraries import LIBRARIES
from txnsim_spark.scan.segments import SegmentFile

if TYPE_CHECKING:
    from txnsim_spark.scan.pieces import Ints

_INDEX_ENTRY: Final = Struct(">ii")
_TIME_INDEX_ENTRY: Final = Struct(">qi")
_ENTRIES_TRIED_MAX: Final = 64
"""Number of entries at the end of an index that are tried: after an unclean stop some are beyond
the end of the file.
"""
_MARKER_BYTES_MAX: Final = 1 << 12
_WINDOW_BYTES: Final = 64 << 10
"""Bytes per read: enough for some entries of an index."""
INTERPRETED_BYTES_MAX: Final = 4 << 20
"""Up to this size Python walks over a log batch by batch: loading the compiled walk would take
longer.
"""


class SegmentTail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a segment."""

    end_offset: int
    """Offset after the last valid batch."""
    problem: str = ""
    """What is wrong there, with its place; empty without a problem."""


def end_offset_of(segment: SegmentFile) -> int:
    """End of the log, from its last segment: after the last complete batch; or, if a starting
    broker computes CRCs, after the last sound one.
    """
    return tail_of(segment).end_offset


def tail_of(segment: SegmentFile) -> SegmentTail:
    """The end of a segment. Only batches after the last index entry are read."""
    end_offset, position, problem = segment.base_offset, 0, ""
    with open_file(segment.path) as file:
        position = position_before(segment, None)
        window = FileWindow(file, _WINDOW_BYTES)
        for batch_position, header in _walk_batches(
            window, segment, position, _end_and_unsound_batches
        ):
            is_sound = _is_sound(window, batch_position, header)
            # Batches before the index entry are not read: they end where the first one here begins.
            if end_offset == segment.base_offset and batch_position:
                end_offset = header.base_offset
            if not is_sound and not problem:
                problem = f"{segment.path}, byte {batch_position}: {header.wrong_crc}"
            if not is_sound and segment.is_recovered:
                return SegmentTail(end_offset=end_offset, problem=problem)
            end_offset, position = header.last_offset + 1, batch_position + header.size
        if position < segment.size:
            end_offset, position, reason = _tail_past_old_messages(
                file, segment, position, end_offset
            )
            if reason and not problem:
                problem = f"{segment.path}, byte {position}: {reason}"
    return SegmentTail(end_offset=end_offset, problem=problem)


def _tail_past_old_messages(
    file: BinaryIO, segment: SegmentFile, position: int, end_offset: int
) -> tuple[int, int, str]:
    """(end offset, position, problem) after messages of old formats and the batches that follow
    them.
    """
    file.seek(position)
    header_bytes = file.read(BatchHeader.SIZE)
    if OldMessage.parse(header_bytes) is None:
        return end_offset, position, TornTail.reason_at(header_bytes, segment.size - position)
    old_offsets: list[int] = []
    torn_tails: list[TornTail] = []
    batches = read_log_file(
        Path(segment.path),
        on_torn=torn_tails.append,
        checks_crc=False,
        note_old_message=old_offsets.append,
    )
    last_offset = -1
    for stored_batch in batches:
        last_offset = max(last_offset, stored_batch.header.last_offset)
    end_offset = max(
        [end_offset, last_offset + 1, *(old_offset + 1 for old_offset in old_offsets[-1:])]
    )
    if torn_tails:
        return end_offset, torn_tails[0].position, torn_tails[0].reason
    return end_offset, segment.size, ""


def last_batch_of(segment: SegmentFile) -> BatchHeader | None:
    """The last whole and sound batch of a segment."""
    last_header = None
    for window, position, header in _positioned_batches(segment, None, _end_and_unsound_batches):
        if not _is_sound(window, position, header):
            break
        last_header = header
    return last_header


class LookedUpBatch(msgspec.Struct, frozen=True):
    """A batch that was looked up."""

    header: BatchHeader
    is_sound: bool
    """Whether its CRC is right."""


def batches_at(segment: SegmentFile, offsets: Iterable[int]) -> dict[int, LookedUpBatch]:
    """Offset -> batch that holds the offset; missing offsets are omitted."""
    batch_by_offset: dict[int, LookedUpBatch] = {}
    offsets_by_start_position: dict[int, list[int]] = {}
    for offset in sorted(offsets):
        offsets_by_start_position.setdefault(position_before(segment, offset), []).append(offset)
    if not offsets_by_start_position:
        return batch_by_offset
    with open_file(segment.path) as file:
        window = FileWindow(file, _WINDOW_BYTES)
        for start_position, wanted_offsets in offsets_by_start_position.items():
            offsets_to_find = wanted_offsets[::-1]

            def rows_reaching_offsets(
                _path: Path, table: Ints, sought_offsets: list[int] = offsets_to_find
            ) -> Ints:
                from txnsim_spark.scan._seek import first_batches_to_reach

                return first_batches_to_reach(table, sought_offsets)

            for position, header in _walk_batches(
                window, segment, start_position, rows_reaching_offsets
            ):
                while offsets_to_find and header.last_offset >= offsets_to_find[-1]:
                    offset = offsets_to_find.pop()
                    if header.base_offset <= offset:
                        batch_by_offset[offset] = LookedUpBatch(
                            header, _is_sound(window, position, header)
                        )
                if not offsets_to_find:
                    break
    return batch_by_offset


def last_batch_position(segment: SegmentFile) -> tuple[int, bytes]:
    """(position, header) of the last whole batch of a segment; -1 without any."""
    with open_file(segment.path) as file:
        window = FileWindow(file, _WINDOW_BYTES)
        last_position = -1
        start_position = position_before(segment, None)
        for position, _ in _walk_batches(window, segment, start_position, _end_and_unsound_batches):
            last_position = position
        return last_position, b"" if last_position < 0 else bytes(
            window.bytes_at(last_position, BatchHeader.SIZE)
        )


def header_at(segment: SegmentFile, position: int) -> bytes:
    """The bytes at the position of a batch's header."""
    with open_file(segment.path) as file:
        file.seek(position)
        return file.read(BatchHeader.SIZE)


def batch_from(segment: SegmentFile, position: int, offset: int) -> LookedUpBatch | None:
    """The whole batch that begins at a position, if it has an offset."""
    with open_file(segment.path) as file:
        header = whole_batch_at(file, segment, position, offset)
        if header is None:
            return None
        file.seek(position)
        return LookedUpBatch(header, crc_is_valid(file.read(header.size), header))


def markers_in(segment: SegmentFile, offset: int) -> Iterator[tuple[int, int]]:
    """(producer id, offset) of the markers at or after an offset."""

    def control_rows(_path: Path, table: Ints) -> Ints:
        from txnsim_spark.scan._seek import markers_from_offset

        return markers_from_offset(table, offset)

    for window, position, header in _positioned_batches(segment, offset, control_rows):
        if header.base_offset >= offset and header.is_control and _is_marker(window, position):
            yield header.producer_id, header.base_offset


def read_markers(
    segment: SegmentFile, on_gap: Callable[[], None]
) -> Iterator[tuple[BatchHeader, bool]]:
    """Every marker of a segment, and whether it commits, by offset.

    Args:
        segment: The segment.
        on_gap: Called if markers may be missing: the cleaner removed batches or emptied one, or the
            segment is malformed before its end.
    """
    expected_offset = segment.base_offset
    is_compiled_walk = False

    def control_rows(_path: Path, table: Ints) -> Ints:
        nonlocal expected_offset, is_compiled_walk
        from txnsim_spark.scan._seek import control_batches_and_gap

        rows, has_gap, expected_offset = control_batches_and_gap(table, expected_offset)
        is_compiled_walk = True
        if has_gap:
            on_gap()
        return rows

    for window, position, header in _positioned_batches(segment, segment.base_offset, control_rows):
        if not is_compiled_walk:  # then every batch comes by here
            if header.base_offset > expected_offset:
                on_gap()
            expected_offset = header.last_offset + 1
        if not header.is_control:
            continue
        try:
            control_record = read_control_record(window.bytes_at(position, _MARKER_BYTES_MAX))
        except CorruptBatchError:
            control_record = None
        if control_record is None:
            on_gap()
        elif control_record.is_marker:
            yield header, control_record.type == COMMIT
    if segment.next_base_offset is not None and expected_offset < segment.next_base_offset:
        on_gap()


def greatest_timestamp_of(segment: SegmentFile) -> int | None:
    """Greatest timestamp of a closed segment, from the last entry of its ``.timeindex``; None if
    that can't be trusted, by the rules of Kafka's own check (TimeIndex.sanityCheck). A segment gets
    this entry when it is closed (LogSegment.onBecomeInactiveSegment). It counts if it is not before
    the first one, and if all offsets are within the segment.
    """
    try:
        with RegularFile(Path(segment.path).with_suffix(names.Suffix.TIME_INDEX)).open() as file:
            index_size = file.seek(0, os.SEEK_END)
            if not index_size or index_size % _TIME_INDEX_ENTRY.size:
                return None
            file.seek(0)
            first_timestamp, _ = _TIME_INDEX_ENTRY.unpack(file.read(_TIME_INDEX_ENTRY.size))
            file.seek(index_size - _TIME_INDEX_ENTRY.size)
            greatest_timestamp, relative_offset = _TIME_INDEX_ENTRY.unpack(
                file.read(_TIME_INDEX_ENTRY.size)
            )
    except (OSError, StructError):  # gone, or cut since its size was asked: nothing is known
        return None
    next_base_offset = segment.next_base_offset
    is_within_segment = relative_offset >= 0 and (
        next_base_offset is None or segment.base_offset + relative_offset < next_base_offset
    )
    return (
        int(greatest_timestamp)
        if is_within_segment and 0 < first_timestamp <= greatest_timestamp
        else None
    )


def open_file(path: str) -> BinaryIO:
    """Open a segment for reading."""
    return RegularFile(Path(path)).open()


def _is_marker(window: FileWindow, position: int) -> bool:
    try:
        control_record = read_control_record(window.bytes_at(position, _MARKER_BYTES_MAX))
    except CorruptBatchError:
        return False
    return control_record is not None and control_record.is_marker


def _is_sound(window: FileWindow, position: int, header: BatchHeader) -> bool:
    return crc_is_valid(window.bytes_at(position, header.size), header)


RowChoice = Callable[[Path, "Ints"], "Ints"]
"""Function: (segment, table of its batches) -> the rows that matter."""


def _end_and_unsound_batches(path: Path, table: Ints) -> Ints:
    from txnsim_spark.scan._seek import end_and_unsound_batches

    return end_and_unsound_batches(path, table)


def _positioned_batches(
    segment: SegmentFile, offset: int | None, choose_rows: RowChoice
) -> Iterator[tuple[FileWindow, int, BatchHeader]]:
    """Batches with their positions, from a batch before an offset on, or from near the segment's
    end.
    """
    with open_file(segment.path) as file:
        window = FileWindow(file, _WINDOW_BYTES)
        start_position = position_before(segment, offset)
        for position, header in _walk_batches(window, segment, start_position, choose_rows):
            yield window, position, header


def _walk_batches(
    window: FileWindow, segment: SegmentFile, position: int, choose_rows: RowChoice
) -> Iterator[tuple[int, BatchHeader]]:
    """Batches with their positions, up to the first malformed one; of a large segment only the
    chosen ones.
    """
    size = segment.size
    if size - position > INTERPRETED_BYTES_MAX and has_libraries(*LIBRARIES):
        from txnsim_spark.scan._seek import chosen_positions

        for batch_position in chosen_positions(segment, position, choose_rows):
            yield (
                batch_position,
                read_batch_header(window.bytes_at(batch_position, BatchHeader.SIZE)),
            )
        return
    while position + BatchHeader.SIZE <= size:
        try:
            header = read_batch_header(window.bytes_at(position, BatchHeader.SIZE))
        except CorruptBatchError:
            return
        end_position = position + header.size
        if end_position > size:
            return
        yield position, header
        position = end_position


def position_before(segment: SegmentFile, offset: int | None) -> int:
    """Position of a batch before an offset, or of one near the segment's end: as near as the index
    allows.
    """
    if offset is not None and offset <= segment.base_offset:
        return 0
    index = SparseIndex(segment)
    entry_count = len(index)
    if offset is not None:
        entry_count = bisect_left(index, offset - segment.base_offset, key=itemgetter(0))
    with open_file(segment.path) as file:
        for entry_number in range(
            entry_count - 1, max(-1, entry_count - 1 - _ENTRIES_TRIED_MAX), -1
        ):
            relative_offset, position = index[entry_number]
            if (
                whole_batch_at(file, segment, position, segment.base_offset + relative_offset)
                is not None
            ):
                return position
    return 0


class SparseIndex:
    """The entries of a segment's ``.index``: (offset relative to the base offset, position).
    Without the file there are none. A living broker allocates it in advance and fills it with
    zeros.
    """

    def __init__(self, segment: SegmentFile) -> None:
        try:
            self._data = RegularFile(Path(segment.path).with_suffix(names.Suffix.INDEX)).read()
        except OSError:
            self._data = b""
        used_entries = -(-len(self._data.rstrip(b"\0")) // _INDEX_ENTRY.size)
        self._entry_count = min(used_entries, len(self._data) // _INDEX_ENTRY.size)

    def __len__(self) -> int:
        return self._entry_count

    def __getitem__(self, entry_number: int) -> tuple[int, int]:
        relative_offset, position = _INDEX_ENTRY.unpack_from(
            self._data, entry_number * _INDEX_ENTRY.size
        )
        return relative_offset, position


def whole_batch_at(
    file: BinaryIO, segment: SegmentFile, position: int, offset: int
) -> BatchHeader | None:
    """The batch at a position, if it is whole and contains an offset."""
    if not 0 <= position <= segment.size - BatchHeader.SIZE:
        return None
    file.seek(position)
    try:
        header = read_batch_header(file.read(BatchHeader.SIZE))
    except CorruptBatchError:
        return None
    has_offset = header.base_offset <= offset <= header.last_offset
    return header if has_offset and position + header.size <= segment.size else None
