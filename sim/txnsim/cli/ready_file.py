"""The file by which ``txnsim serve`` says that it is ready (``--ready-file``).

It appears whole: whoever waits for it never reads half of it. What is no regular file, a pipe or a
device, is written to and stays what it is. With a token in it only its owner may read it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from txnsim.errors import ConfigError

_FOR_ITS_OWNER: Final = 0o600
_FOR_ALL: Final = 0o644


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

    Args:
        path: Where.
        content: All of it.
        is_secret: It holds a token.

    Raises:
        ConfigError: It can't be written.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            with target.open("wb", buffering=0) as device:
                device.write(content)
            return
        partial = target.with_name(target.name + ".partial")
        partial.unlink(missing_ok=True)
        partial.touch(mode=_FOR_ITS_OWNER if is_secret else _FOR_ALL)
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        raise ConfigError(f"--ready-file {path}: {error.strerror}") from error
