"""A disk without room, for who is not root: a file may have so many bytes, and a write fails in the
middle, as on a full disk.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def little_room(file_bytes_max: int = 1_000) -> Iterator[None]:
    """Let no file of this process grow further, for so long."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
