"""Reads a segment's file in pieces of bounded size, one after the other into one buffer. Large
reads into reused memory run at the speed of the page cache, or of the disk if the file is not
cached. Mapping the file is slower there, and empty files can't be mapped. The code that reads a
piece says where the next one begins. So bytes that it does not need (the rest of a large batch) are
skipped, and the last, torn header of a piece comes again at the front of the next one. The size of
the file is read once: what a broker appends meanwhile is not read.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from txnsim.storage.regular_file import RangeFile, RegularFile

PIECE_BYTES: Final = 4 << 20
"""Small enough to stay in a CPU's cache between reading and walking, but large enough for the
disk.
"""
DELETED: Final = ".deleted"
"""Suffix of a file that a broker is going to delete."""
PIECE_BYTES_MIN: Final = 256
"""Enough for a header and the record of a marker."""


class ShorterFileError(OSError):
    """A file has become shorter than it was when the read was planned."""


Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


class PieceReader:
    """Reads one file in pieces; the bytes of a piece are valid until the next one is read."""

    def __init__(
        self,
        file: RangeFile,
        piece_bytes: int,
        end_position: int | None = None,
        buffer: Bytes | None = None,
    ) -> None:
        if piece_bytes < PIECE_BYTES_MIN:
            raise ValueError(f"piece_bytes is {piece_bytes}, expected {PIECE_BYTES_MIN} or more")
        if end_position is not None and file.size < end_position:
            raise shorter_file_error(file.size, end_position)
        self._file = file
        self.size = file.size if end_position is None else end_position
        """Number of bytes to read."""
        buffer_bytes = min(piece_bytes, max(self.size, 1))
        self._buffer = (
            np.empty(buffer_bytes, dtype=np.uint8) if buffer is None else buffer[:buffer_bytes]
        )
        self._view = memoryview(self._buffer.data)

    def read(self, position: int) -> Bytes:
        """The piece that begins at ``position``; empty after the end."""
        wanted_bytes = min(len(self._buffer), max(self.size - position, 0))
        filled_bytes = 0
        while filled_bytes < wanted_bytes:
            byte_count = self._file.read_into(
                self._view[filled_bytes:wanted_bytes], position + filled_bytes
            )
            if not byte_count:
                raise shorter_file_error(position + filled_bytes, self.size)
            filled_bytes += byte_count
        return self._buffer[:filled_bytes]

    def read_whole(self, position: int, size: int) -> memoryview:
        """Read ``size`` bytes from ``position`` on, fewer at the end: for a batch larger than a
        piece. They are valid until the next piece is read.
        """
        if size <= len(self._buffer):
            return memoryview(self.read(position).data)[:size]
        whole_bytes = bytearray(min(size, max(self.size - position, 0)))
        view = memoryview(whole_bytes)
        filled_bytes = 0
        while filled_bytes < len(whole_bytes):
            byte_count = self._file.read_into(view[filled_bytes:], position + filled_bytes)
            if not byte_count:
                raise shorter_file_error(position + filled_bytes, self.size)
            filled_bytes += byte_count
        return view


def shorter_file_error(size: int, planned: int) -> ShorterFileError:
    """The error for a file of ``size`` bytes of which ``planned`` bytes were to be read."""
    return ShorterFileError(
        errno.EINVAL,
        f"{size} bytes, {planned - size} fewer than when the read was planned: it was cut off, or"
        " another file has taken its place",
    )


@contextmanager
def pieces_of(
    path: Path,
    piece_bytes: int = PIECE_BYTES,
    *,
    end_position: int | None = None,
    buffer: Bytes | None = None,
) -> Iterator[PieceReader]:
    """Open a file up to ``end_position``. A caller may pass a buffer to reuse for many files."""
    range_file = _open_segment(path, end_position)
    try:
        yield PieceReader(range_file, piece_bytes, end_position, buffer)
    except ShorterFileError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        range_file.close()


def _open_segment(path: Path, end_position: int | None) -> RangeFile:
    """Open a segment's file. A running broker may have renamed it since the read was planned:
    segments that retention or the cleaner gives up are renamed, and deleted after
    ``file.delete.delay.ms`` (LocalLog.deleteSegmentFiles).
    """
    try:
        file = RegularFile(path).ranges(is_sequential=True)
    except FileNotFoundError:
        renamed_file = _open_renamed(path)
        if renamed_file is None:
            raise
        return renamed_file
    if end_position is not None and file.size < end_position:
        renamed_file = _open_renamed(path)
        if renamed_file is not None and renamed_file.size >= end_position:
            file.close()
            return renamed_file
        if renamed_file is not None:
            renamed_file.close()
    return file


def _open_renamed(path: Path) -> RangeFile | None:
    try:
        return RegularFile(path.with_name(f"{path.name}{DELETED}")).ranges(is_sequential=True)
    except OSError:
        return None
