"""The file that tells other programs that ``txnsim serve`` is ready (``--ready-file``).

The file exists only while the cluster runs: a start removes the file of an earlier run, and every
orderly end removes our own. After a crash it stays, with the id of a process that no longer runs. A
file that is not ours, or not a regular file, is never removed.

The file appears in one step, so that a program that waits for it never reads half of it. A pipe or
a device is written to and stays what it is. If the file contains a token, only its owner may read
it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.files import FOR_ALL, FOR_ITS_OWNER, problem_of, write_whole

_BYTES_MAX: Final = 1_000_000
"""A larger file is not one of ours."""


def check(path: Path) -> None:
    """Check before anything starts that the file can be created.

    Raises:
        ConfigError: The folder is missing, or the path is a folder.
    """
    if path.is_dir():
        raise ConfigError(f"--ready-file {path}: is a directory")
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"--ready-file {path}: there is no directory {path.resolve().parent}")


def write(path: Path, file_bytes: bytes, *, is_secret: bool) -> None:
    """Write the file; through a symbolic link its target.

    Raises:
        ConfigError: The file can't be written.
    """
    file_mode = FOR_ITS_OWNER if is_secret else FOR_ALL
    write_whole(path, file_bytes, mode=file_mode, error_prefix="--ready-file ")


def remove_old(path: Path) -> None:
    """Remove the file of an earlier run: it has other addresses than this cluster.

    Raises:
        ConfigError: The file is one of txnsim's and can't be removed.
    """
    _remove_file(path, owner_pid=None)


def remove_ours(path: Path) -> None:
    """Remove the file that this process has written; another process' file stays.

    Raises:
        ConfigError: The file can't be removed.
    """
    _remove_file(path, owner_pid=os.getpid())


def _remove_file(path: Path, *, owner_pid: int | None) -> None:
    resolved_path = path.resolve()
    try:
        file_facts = _read_facts(resolved_path)
        if file_facts is not None and owner_pid in (None, file_facts["pid"]):
            resolved_path.unlink()
    except OSError as error:
        raise ConfigError(f"--ready-file {path}: {problem_of(error)}") from error


def _read_facts(ready_path: Path) -> dict[str, Any] | None:
    """The content of a ready file; None for a missing file or another format."""
    if not ready_path.is_file() or ready_path.stat().st_size > _BYTES_MAX:
        return None
    try:
        file_facts = msgspec.json.decode(ready_path.read_bytes())
    except (msgspec.DecodeError, RecursionError):
        return None
    is_ready_file = (
        isinstance(file_facts, dict) and {"bootstrap", "http", "pid"} <= file_facts.keys()
    )
    return file_facts if is_ready_file else None
