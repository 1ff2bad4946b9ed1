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
        until: int | None = None,
        buffer: Bytes | None = None,
    ) -> None:
        if piece_bytes < PIECE_BYTES_MIN:
            raise ValueError(f"piece_bytes is {piece_bytes}, expected {PIECE_BYTES_MIN} or more")
        if until is not None and file.size < until:
            raise shorter(file.size, until)
        self._file = file
        self.size = file.size if until is None else until
        """Number of bytes to read."""
        room = min(piece_bytes, max(self.size, 1))
        self._buffer = np.empty(room, dtype=np.uint8) if buffer is None else buffer[:room]
        self._view = memoryview(self._buffer.data)

    def read(self, position: int) -> Bytes:
        """The piece that begins at ``position``; empty after the end."""
        want = min(len(self._buffer), max(self.size - position, 0))
        filled = 0
        while filled < want:
            count = self._file.read_into(self._view[filled:want], position + filled)
            if not count:
                raise shorter(position + filled, self.size)
            filled += count
        return self._buffer[:filled]

    def read_whole(self, position: int, size: int) -> memoryview:
        """Read ``size`` bytes from ``position`` on, fewer at the end: for a batch larger than a
        piece. They are valid until the next piece is read.
        """
        if size <= len(self._buffer):
            return memoryview(self.read(position).data)[:size]
        data = bytearray(min(size, max(self.size - position, 0)))
        view = memoryview(data)
        filled = 0
        while filled < len(data):
            count = self._file.read_into(view[filled:], position + filled)
            if not count:
                raise shorter(position + filled, self.size)
            filled += count
        return view


def shorter(size: int, planned: int) -> ShorterFileError:
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
    until: int | None = None,
    buffer: Bytes | None = None,
) -> Iterator[PieceReader]:
    """Open a file up to the position ``until``. A caller that reads many files passes a buffer to
    reuse.
    """
    file = _open_segment(path, until)
    try:
        yield PieceReader(file, piece_bytes, until, buffer)
    except ShorterFileError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        file.close()


def _open_segment(path: Path, until: int | None) -> RangeFile:
    """Open a segment's file. A running broker may have renamed it since the read was planned:
    segments that retention or the cleaner gives up are renamed, and deleted after
    ``file.delete.delay.ms`` (LocalLog.deleteSegmentFiles).
    """
    try:
        file = RegularFile(path).ranges(is_sequential=True)
    except FileNotFoundError:
        renamed = _open_renamed(path)
        if renamed is None:
            raise
        return renamed
    if until is not None and file.size < until:
        renamed = _open_renamed(path)
        if renamed is not None and renamed.size >= until:
            file.close()
            return renamed
        if renamed is not None:
            renamed.close()
    return file


def _open_renamed(path: Path) -> RangeFile | None:
    try:
        return RegularFile(path.with_name(f"{path.name}{DELETED}")).ranges(is_sequential=True)
    except OSError:
        return None
