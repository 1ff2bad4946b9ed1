"""Opening a file that may be anything: a named pipe never answers, a link to itself leads nowhere.

A file that is not regular is an ``OSError`` here, so that a reader of log directories names it and
goes on. A file that should be small is not read whole where it is not.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

SMALL_BYTES_MAX: Final = 32 << 20
"""Limit for a checkpoint file: one of 100,000 partitions with names of 249 characters is 27 MB."""


def open_regular(path: Path) -> int:
    """A descriptor for reading.

    Raises:
        OSError: It can't be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, f"{_kind(mode)}, not a file", str(path))
    return descriptor


def read_regular(path: Path, bytes_max: int | None = None) -> bytes:
    """All of a file.

    Args:
        path: The file.
        bytes_max: One that is larger is not read.

    Raises:
        OSError: It can't be read, is no regular file, or is too large.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if bytes_max is not None and size > bytes_max:
            raise OSError(
                errno.EFBIG, f"{size} bytes, no more than {bytes_max} are read", str(path)
            )
        return file.read()


def why_unreadable(path: Path) -> str:
    """Why a file can't be opened; empty where it can."""
    try:
        os.close(open_regular(path))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or socket"
