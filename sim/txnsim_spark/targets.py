"""Where results are written: never over a file that exists; a full disk is named."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from txnsim.errors import BadInputError

_NO_ROOM: Final = "No space left on device"
"""Part of a Java message that tells of a full disk."""


def refuse_existing(target: Path, kind: str) -> None:
    """Refuse a place that is taken.

    Args:
        target: Where to write.
        kind: "file" or "folder".

    Raises:
        BadInputError: Something is there.
    """
    if target.exists():
        raise BadInputError(f"{target} is there already; name another {kind}")


@contextmanager
def written_by_spark(place: str) -> Iterator[None]:
    """Have Spark write somewhere.

    Raises:
        OSError: A disk is full: that of the place, or that of Spark's own files.
    """
    try:
        yield
    except Exception as error:
        if _NO_ROOM not in str(error):
            raise
        where = f"{place}, or a temporary file of Spark's (spark.local.dir)"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), where) from error
