"""The file by which ``txnsim serve`` says that it is ready (``--ready-file``).

It is there only while the cluster is: one that was left behind by a run before goes at the start,
ours at every orderly end. After a crash it stays, and no process has the process id in it any more.
What is not ours, or no regular file, is never removed.

It appears whole: a program that waits for it never reads half of it. What is no regular file, a
pipe or a device, is written to and stays what it is. With a token in it only its owner may read it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.files import FOR_ALL, FOR_ITS_OWNER, problem_of, write_whole

_BYTES_MAX: Final = 1_000_000
"""A larger file is none of ours."""


def check(path: Path) -> None:
    """See before anything starts that the file can be made.

    Raises:
        ConfigError: Its folder is missing, or it is a folder itself.
    """
    if path.is_dir():
        raise ConfigError(f"--ready-file {path}: is a directory")
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"--ready-file {path}: there is no directory {path.resolve().parent}")


def write(path: Path, content: bytes, *, is_secret: bool) -> None:
    """Write it; a link stays, and what it points at is written.

    Raises:
        ConfigError: It can't be written.
    """
    mode = FOR_ITS_OWNER if is_secret else FOR_ALL
    write_whole(path, content, mode=mode, what="--ready-file ")


def remove_old(path: Path) -> None:
    """Remove what a run before has left, so that its addresses are not taken for ours.

    Raises:
        ConfigError: It is ours and can't be removed.
    """
    _remove(path, only_of=None)


def remove_ours(path: Path) -> None:
    """Remove what this process has written; another process' file stays.

    Raises:
        ConfigError: It can't be removed.
    """
    _remove(path, only_of=os.getpid())


def _remove(path: Path, *, only_of: int | None) -> None:
    target = path.resolve()
    try:
        facts = _facts(target)
        if facts is not None and only_of in (None, facts["pid"]):
            target.unlink()
    except OSError as error:
        raise ConfigError(f"--ready-file {path}: {problem_of(error)}") from error


def _facts(target: Path) -> dict[str, Any] | None:
    """The content of a ready file; None for a missing file or another format."""
    if not target.is_file() or target.stat().st_size > _BYTES_MAX:
        return None
    try:
        facts = msgspec.json.decode(target.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_ours = isinstance(facts, dict) and {"bootstrap", "http", "pid"} <= facts.keys()
    return facts if is_ours else None
