"""A disk without room, for who is not root: a file may have so many bytes, and a write fails in the
middle, as on a full disk.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def little_room(file_bytes_max: int = 1_000) -> Iterator[None]:
    """Let no file of this process grow further, for so long."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python 3.11 leaves what it has compiled cut off, and the next import fails for good.
    has_bytecode, sys.dont_write_bytecode = not sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = not has_bytecode
