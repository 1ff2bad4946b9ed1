"""Reads the ``.log`` file of a segment: record batches, one after the other.

The file is read in pieces of bounded size, even if it is long. The data after the last valid batch
is a *torn tail*: an unclean stop leaves one, and a broker truncates it when it recovers the log
(LogSegment.recover). Messages of formats before v2 are not read. Kafka's counterparts: FileRecords,
FileLogInputStream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from txnsim.storage.regular_file import RegularFile, size_of_open
from txnsim.wire.batch import BatchHeader, crc_is_valid, read_batch_header
from txnsim.wire.old_messages import OldMessage

CHUNK_BYTES: Final = 1 << 20
"""Bytes of a read; a larger batch is read at once."""


class TornTail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a file from the first invalid byte on."""

    position: int
    """Position of the first byte that belongs to no valid batch."""
    size: int
    """Number of bytes from there to the end of the file."""
    reason: str

    @staticmethod
    def reason_at(front: bytes, bytes_left: int) -> str:
        """What is wrong with a batch, as far as its header shows; empty if nothing is."""
        if bytes_left < BatchHeader.SIZE:
            return f"{bytes_left} bytes, less than a header"
        magic = front[BatchHeader.MAGIC_POSITION]
        if magic != BatchHeader.MAGIC:
            return f"a batch of format {magic}, only {BatchHeader.MAGIC} is read"
        length = BatchHeader.OVERHEAD + _length_of(front)
        if not BatchHeader.LENGTH_MIN <= length - BatchHeader.OVERHEAD <= BatchHeader.BYTES_MAX:
            return f"a batch that claims {length} bytes"
        if length > bytes_left:
            return f"{bytes_left} bytes of a batch of {length}"
        return ""


class StoredBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A batch and its position in the file."""

    position: int
    header: BatchHeader
    data: bytes


def read_log_file(
    path: Path,
    *,
    on_torn: Callable[[TornTail], object],
    check_crc: bool = True,
    on_old: Callable[[int], object] | None = None,
) -> Iterator[StoredBatch]:
    """Yield the valid batches of a segment, in order.

    Args:
        path: The file.
        on_torn: Called once with the torn tail, if there is one; no batch follows.
        check_crc: Whether to compute each batch's CRC; without it, damaged records stay undetected.
        on_old: Called with the offset of each message of format 0 or 1, which is skipped; without
            it, such a message begins the torn tail.

    Raises:
        OSError: The file can't be read.
    """
    with RegularFile(path).open(is_sequential=True) as file:
        size = size_of_open(file)
        window = Window(file, CHUNK_BYTES)
        position = 0
        while position < size:
            front = window.bytes_at(position, BatchHeader.SIZE)
            if on_old is not None and (old := _old_at(window, front, position, size)) is not None:
                on_old(old.offset)
                position += old.size
                continue
            problem = TornTail.reason_at(front, size - position)
            if not problem:
                data = window.bytes_at(position, BatchHeader.OVERHEAD + _length_of(front))
                header = read_batch_header(data)
                if check_crc and not crc_is_valid(data, header):
                    problem = header.wrong_crc
            if problem:
                on_torn(TornTail(position=position, size=size - position, reason=problem))
                return
            yield StoredBatch(position=position, header=header, data=data)
            position += header.size


def _old_at(window: Window, front: bytes, position: int, size: int) -> OldMessage | None:
    """The valid message of an old format that begins at this position; None if there is none."""
    old = OldMessage.parse(front)
    if old is None or old.size > min(size - position, BatchHeader.BYTES_MAX):
        return None
    return old if old.is_sound(window.bytes_at(position, old.size)) else None


def _length_of(front: bytes) -> int:
    """Size of a batch after its length field, as that field claims."""
    return int.from_bytes(front[8 : BatchHeader.OVERHEAD], "big", signed=True)


class Window:
    """A part of a file in memory, to read batches from."""

    __slots__ = ("_chunk_bytes", "_data", "_file", "_start")

    def __init__(self, file: BinaryIO, chunk_bytes: int) -> None:
        self._file = file
        self._chunk_bytes = chunk_bytes
        self._start = 0
        self._data = b""

    def bytes_at(self, position: int, length: int) -> bytes:
        """``length`` bytes of the file from ``position`` on; fewer at the end of the file."""
        begin = position - self._start
        if begin < 0 or begin + length > len(self._data):
            self._file.seek(position)
            self._data = self._file.read(max(length, self._chunk_bytes))
            self._start, begin = position, 0
        return self._data[begin : begin + length]
