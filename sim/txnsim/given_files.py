"""Files that people name, and others may have written: never more of one is read than a bound.

A device has no end, and a file can grow while it is read, so the size counts that is met.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

GIVEN_BYTES_MAX: Final = 64 << 20
"""Of a configuration, a certificate, a rule, a story."""
LINE_BYTES_MAX: Final = 64 << 20
"""Of one line of a trace or a history."""
LINES_BYTES_MAX: Final = 4 << 30
"""Total size of all lines in bytes."""


def read_given(path: Path, *, at_most: int = GIVEN_BYTES_MAX) -> bytes:
    """All of a file.

    Raises:
        OSError: It can't be read, or is larger than that (EFBIG).
    """
    with path.open("rb") as file:
        return read_whole(file, at_most=at_most)


def read_whole(file: BinaryIO, *, at_most: int = GIVEN_BYTES_MAX) -> bytes:
    """What is left of an open file.

    Raises:
        OSError: It can't be read, or is more than that (EFBIG).
    """
    data = file.read(at_most + 1)
    if len(data) > at_most:
        raise _too_large()
    return data


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an open file.

    Raises:
        OSError: It can't be read; a line, or the whole, is too large (EFBIG).
    """
    left = LINES_BYTES_MAX
    while line := file.readline(LINE_BYTES_MAX + 1):
        left -= len(line)
        if len(line) > LINE_BYTES_MAX or left < 0:
            raise _too_large()
        yield line


def _too_large() -> OSError:
    return OSError(errno.EFBIG, "File too large")
