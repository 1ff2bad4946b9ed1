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
    size_bytes: int
    """Number of bytes from there to the end of the file."""
    reason: str

    @staticmethod
    def reason_at(header_bytes: bytes, bytes_left: int) -> str:
        """What is wrong with a batch, as far as its header shows; empty if nothing is."""
        if bytes_left < BatchHeader.SIZE:
            return f"{bytes_left} bytes, less than a header"
        magic = header_bytes[BatchHeader.MAGIC_POSITION]
        if magic != BatchHeader.MAGIC:
            return f"a batch of format {magic}, only {BatchHeader.MAGIC} is read"
        batch_bytes = BatchHeader.OVERHEAD + _length_of(header_bytes)
        if (
            not BatchHeader.LENGTH_MIN
            <= batch_bytes - BatchHeader.OVERHEAD
            <= BatchHeader.BYTES_MAX
        ):
            return f"a batch that claims {batch_bytes} bytes"
        if batch_bytes > bytes_left:
            return f"{bytes_left} bytes of a batch of {batch_bytes}"
        return ""


class StoredBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A batch and its position in the file."""

    position: int
    header: BatchHeader
    batch_bytes: bytes


def read_log_file(
    path: Path,
    *,
    on_torn: Callable[[TornTail], object],
    checks_crc: bool = True,
    note_old_message: Callable[[int], object] | None = None,
) -> Iterator[StoredBatch]:
    """Yield the valid batches of a segment, in order.

    Args:
        path: The file.
        on_torn: Called once with the torn tail, if there is one; no batch follows.
        checks_crc: Whether to compute each batch's CRC; without it, damaged records stay
            undetected.
        note_old_message: Called with the offset of each message of format 0 or 1, which is skipped;
            without it, such a message begins the torn tail.

    Raises:
        OSError: The file can't be read.
    """
    with RegularFile(path).open(is_sequential=True) as file:
        file_bytes = size_of_open(file)
        window = FileWindow(file, CHUNK_BYTES)
        position = 0
        while position < file_bytes:
            header_bytes = window.bytes_at(position, BatchHeader.SIZE)
            if (
                note_old_message is not None
                and (old_message := _old_message_at(window, header_bytes, position, file_bytes))
                is not None
            ):
                note_old_message(old_message.offset)
                position += old_message.size
                continue
            torn_reason = TornTail.reason_at(header_bytes, file_bytes - position)
            if not torn_reason:
                batch_bytes = window.bytes_at(
                    position, BatchHeader.OVERHEAD + _length_of(header_bytes)
                )
                header = read_batch_header(batch_bytes)
                if checks_crc and not crc_is_valid(batch_bytes, header):
                    torn_reason = header.wrong_crc
            if torn_reason:
                on_torn(
                    TornTail(
                        position=position, size_bytes=file_bytes - position, reason=torn_reason
                    )
                )
                return
            yield StoredBatch(position=position, header=header, batch_bytes=batch_bytes)
            position += header.size


def _old_message_at(
    window: FileWindow, header_bytes: bytes, position: int, file_bytes: int
) -> OldMessage | None:
    """The valid message of an old format that begins at this position; None if there is none."""
    old_message = OldMessage.parse(header_bytes)
    if old_message is None or old_message.size > file_bytes - position:
        return None
    return (
        old_message if old_message.is_sound(window.bytes_at(position, old_message.size)) else None
    )


def _length_of(header_bytes: bytes) -> int:
    """Size of a batch after its length field, as that field claims."""
    return int.from_bytes(header_bytes[8 : BatchHeader.OVERHEAD], "big", signed=True)


class FileWindow:
    """A part of a file in memory, to read batches from."""

    __slots__ = ("_chunk_bytes", "_data", "_file", "_start")

    def __init__(self, file: BinaryIO, chunk_bytes: int) -> None:
        self._file = file
        self._chunk_bytes = chunk_bytes
        self._start = 0
        self._data = b""

    def bytes_at(self, position: int, length: int) -> bytes:
        """``length`` bytes of the file from ``position`` on; fewer at the end of the file."""
        window_index = position - self._start
        if window_index < 0 or window_index + length > len(self._data):
            self._file.seek(position)
            self._data = self._file.read(max(length, self._chunk_bytes))
            self._start, window_index = position, 0
        return self._data[window_index : window_index + length]
