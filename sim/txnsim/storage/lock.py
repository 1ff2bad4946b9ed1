"""The lock of a log directory, which tells whether a broker runs on it (LogManager.lockLogDirs).

A broker holds an exclusive lock on a file in the directory as long as it lives; the operating
system releases the lock however the broker ends. This module tries a shared lock, which needs only
the right to read.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Final

from txnsim.storage.regular_file import RegularFile

LOCK_NAME: Final = ".lock"


def is_in_use(log_dir: Path) -> bool:
    """Whether a broker on this machine uses the directory.

    Raises:
        OSError: The lock file can't be read, or is no regular file.
    """
    lock_path = log_dir / LOCK_NAME
    if not lock_path.exists():
        return False
    with RegularFile(lock_path).open() as lock_file:
        try:
            fcntl.lockf(lock_file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
