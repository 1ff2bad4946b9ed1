"""A full disk for tests that are not root: a limit on the size of files, so that a write fails in
the middle, and a full device.
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
    """Limit the size of files that this process writes, while the block runs."""
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
    """A device that is always full: one in ``folder`` if this process may create devices, else the
    machine's. A process with that right could overwrite the machine's own if there were a bug.
    """
    device_file = folder / "full"
    try:
        os.mknod(device_file, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        device_file.open("wb").close()  # refused where the disk has no devices
    except PermissionError:
        return Path("/dev/full")
    return device_file
