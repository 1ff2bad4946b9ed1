"""A disk without room, for who is not root: a file may have so many bytes, and a write fails in the
middle, as on a full disk; and a device that is full.
"""

from __future__ import annotations

import os
import resource
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def little_room(file_bytes_max: int = 1_000) -> Iterator[None]:
    """Let no file of this process grow further, for so long."""
    old_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python 3.11 leaves what it has compiled cut off, and the next import fails for good.
    has_bytecode, sys.dont_write_bytecode = not sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, old_limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old_limit)
        sys.dont_write_bytecode = not has_bytecode


def full_device(folder: Path) -> Path:
    """A device without room, to write to: one in a folder, where this process may make one. Such a
    process could put a file at the place of the machine's own, were there a bug.
    """
    device = folder / "full"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        device.open("wb").close()  # refused where the disk has no devices
    except PermissionError:
        return Path("/dev/full")
    return device
