"""The audit file of ``repair`` and ``abort``: a JSON line before each attempt and one after it.

While one command has the file open, a second one waits. So two operators in one directory repair
one after the other, and the second one sees what the first one did.
"""

from __future__ import annotations

import fcntl
from io import FileIO
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.errors import ConfigError
from txnsim.files import append, problem_of

AUDIT_FILE: Final = Path("txnsim-repairs.jsonl")


def _wait_for(file: FileIO, path: Path | None) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        TERMINAL.warn(f"Another command writes to {path}: waiting for its end.")
        fcntl.flock(file, fcntl.LOCK_EX)


class Audit:
    """The audit file, open while a command runs.

    Args:
        path: The file; None for a command that changes nothing.
        cluster_id: Written into every line.

    Raises:
        ConfigError: The file can't be written.
    """

    def __init__(self, path: Path | None, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        try:
            self._file = None if path is None else path.open("ab", buffering=0)
            if self._file is not None:
                _wait_for(self._file, path)
        except OSError as failure:
            raise ConfigError(f"{path}: {problem_of(failure)}; nothing was done") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, **audit_fields: Any) -> None:
        """Add a line. A failed write ends the command with an OSError, so that nothing is done
        without a record.
        """
        if self._file is not None:
            line = msgspec.json.encode({"cluster_id": self._cluster_id, **audit_fields})
            append(self._file, line + b"\n")
