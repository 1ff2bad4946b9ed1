"""Bounds the lines of a trace before it is read: a reader keeps a line whole, and a file that is
not a trace may have one line without an end.
"""

from __future__ import annotations

import bz2
import gzip
import sys
import zlib
from collections.abc import Callable, Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Final

from txnsim.errors import BadInputError
from txnsim.files import problem_of

LINE_BYTES_MAX: Final = 32 << 20
"""Longest line of a trace, in bytes: Spark's memory would not hold much longer ones."""
PACKED_SUFFIXES: Final = (".gz", ".zst", ".bz2", ".deflate", ".lz4", ".snappy")
"""Suffixes of files that Spark unpacks."""
_PIECE_BYTES: Final = 1 << 20
"""Less than the longest line: one that is too long has no end in the piece after its first."""
_LINE_FEED: Final = b"\n"


def measure_trace(trace_file: Path, *, bytes_max: int = sys.maxsize) -> int:
    """Read through a trace, and return its size in bytes; of a packed one it is what comes out of
    it, which may be a thousand times as much.

    Args:
        trace_file: A regular file; if it is packed, with one of ``MEASURED_SUFFIXES``. What is
            appended to it meanwhile is not read.
        bytes_max: Above so many bytes it is not read any further.

    Raises:
        BadInputError: A line is too long, or the file can't be unpacked.
        OSError: It can't be read.
    """
    open_packed = _OPEN_PACKED.get(trace_file.suffix)
    if open_packed is None:
        stored_bytes = trace_file.stat().st_size
        with trace_file.open("rb") as unpacked_file:
            return _measure_lines(trace_file, unpacked_file, min(stored_bytes, bytes_max + 1))
    try:
        with open_packed(trace_file) as unpacked_file:
            return _measure_lines(trace_file, unpacked_file, bytes_max + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInputError(f"{trace_file}: it can't be unpacked: {problem_of(error)}") from error


def _measure_lines(trace_file: Path, unpacked_file: BufferedIOBase, bytes_max: int) -> int:
    bytes_read = line_start_byte = 0
    line_number = 1
    while bytes_read < bytes_max:
        piece = unpacked_file.read(min(_PIECE_BYTES, bytes_max - bytes_read))
        if not piece:
            break
        first_line_end = piece.find(_LINE_FEED)
        if (
            len(piece) if first_line_end < 0 else first_line_end
        ) + bytes_read - line_start_byte > LINE_BYTES_MAX:
            raise BadInputError(
                f"{trace_file}: line {line_number}, which begins at byte {line_start_byte}, has"
                f" more than {LINE_BYTES_MAX} bytes: no line of a trace is that long"
            )
        if first_line_end >= 0:  # a line between two ends in one piece is no longer than it
            line_number += piece.count(_LINE_FEED)
            line_start_byte = bytes_read + piece.rfind(_LINE_FEED) + 1
        bytes_read += len(piece)
    return bytes_read


def _open_zstd(trace_file: Path) -> BufferedIOBase:
    import pyarrow

    unpacked_file: BufferedIOBase = pyarrow.input_stream(str(trace_file), compression="zstd")
    return unpacked_file


_OPEN_PACKED: Final[Mapping[str, Callable[[Path], BufferedIOBase]]] = {
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".zst": _open_zstd,
}
MEASURED_SUFFIXES: Final = tuple(_OPEN_PACKED)
"""Suffixes of packed files that are measured. Hadoop's lz4 and snappy are formats of its own."""
