"""Files of people: what is read is bounded, what is written is there whole or not at all.

Read: people name the files, and others may have written them. A device has no end, and a file can
grow while it is read, so the size counts that is met.

Written: a file or a folder is made beside its place, and takes its name when all of it is there.
So a full disk leaves nothing in part, what was there before stays, and the error names the place
and says what to do next.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from txnsim.errors import ConfigError

GIVEN_BYTES_MAX: Final = 64 << 20
"""Of a configuration, a certificate, a rule, a story."""
LINE_BYTES_MAX: Final = 64 << 20
"""Of one line of a trace or a history."""
LINES_BYTES_MAX: Final = 4 << 30
"""Total size of all lines in bytes."""

FOR_ALL: Final = 0o666
"""The mode of a file."""
FOR_ITS_OWNER: Final = 0o600
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A full disk, a quota, a limit on the size of a file."""
TO_DO: Final = {
    errno.ENOENT: "check how it is spelt, and the folder that you are in",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EACCES: "change its permissions, or run this as a user who may",
    errno.ECONNREFUSED: "nothing listens there; check the address, and that a broker runs",
}
"""What helps, by the kind of error."""
NEXT: Final = "make room, or name another place, and run the command again"


# Read


def read_given(path: Path | None, *, at_most: int = GIVEN_BYTES_MAX) -> bytes:
    """All of a file; of standard input where there is no path.

    Raises:
        OSError: It can't be read, or is larger than that (EFBIG).
    """
    if path is None:
        return read_whole(sys.stdin.buffer, at_most=at_most)
    with path.open("rb") as file:
        return read_whole(file, at_most=at_most)


def read_whole(file: BinaryIO, *, at_most: int = GIVEN_BYTES_MAX) -> bytes:
    """What is left of an open file.

    Raises:
        OSError: It can't be read, or is more than that (EFBIG).
    """
    data = file.read(at_most + 1)
    if len(data) > at_most:
        raise _too_large()
    return data


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an open file.

    Raises:
        OSError: It can't be read; a line, or the whole, is too large (EFBIG).
    """
    bytes_left = LINES_BYTES_MAX
    while line := file.readline(LINE_BYTES_MAX + 1):
        bytes_left -= len(line)
        if len(line) > LINE_BYTES_MAX or bytes_left < 0:
            raise _too_large()
        yield line


# Written


def write_whole(path: Path, content: str | bytes, *, mode: int = FOR_ALL, what: str = "") -> None:
    """Write all of a file in one move; a link stays, and what it points at is written.

    What is no file, such as a pipe, is written to.

    Args:
        path: Where.
        content: All of it.
        mode: Of the file.
        what: Said in front of the path of what can't be written, as the name of an option.

    Raises:
        ConfigError: It can't be written.
    """
    data = content.encode() if isinstance(content, str) else content
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            with target.open("wb", buffering=0) as device:
                device.write(data)
            return
    except OSError as error:
        raise _not_written(path, error, what) from error
    with whole(path, what=what) as part:
        part.touch(mode=mode)
        part.write_bytes(data)


def write_all(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write files of a folder, all of them or none; what else is there stays.

    Args:
        folder: Where; made if need be.
        files: Content by name.

    Returns:
        Where each of them is.

    Raises:
        ConfigError: One can't be written.
    """
    with ExitStack() as together:
        for name, content in files.items():
            part = together.enter_context(whole(folder / name))
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content)
    return tuple(folder / name for name in files)


@contextmanager
def whole(path: Path, *, what: str = "") -> Iterator[Path]:
    """A file or a folder in the making; it replaces what is at its place.

    Args:
        path: Where it will be.
        what: Said in front of the path of what can't be written, as the name of an option.

    Yields:
        Where to make it. Nothing is there, also where a run before was killed.

    Raises:
        ConfigError: It can't be written. What can't be read inside stays an OSError.
    """
    target = path.resolve()
    part = target.with_name(f".{target.name}.part")
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        _remove(part)
        yield part
        if part.is_dir():
            _remove(target)
        part.replace(target)
    except BaseException as error:
        with suppress(OSError):  # the error that is under way says more
            _remove(part)
            for folder in missing:
                folder.rmdir()
        if isinstance(error, OSError) and _is_about(error, part):
            raise _not_written(path, error, what) from error
        raise


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Write in a folder that is no result, such as a temporary one.

    Raises:
        OSError: There is no room; it names the folder.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM and error.filename is None:
            raise OSError(error.errno, error.strerror, str(folder)) from error
        raise


def append(file: FileIO, data: bytes) -> None:
    """Add to the end of a file, all of the data or none of it.

    Args:
        file: Open for appending, without a buffer: what a buffer holds can't be taken back.
        data: What to add.

    Raises:
        OSError: It can't be written; the error names the file.
    """
    end = file.seek(0, 2) if file.seekable() else None
    unwritten = memoryview(data)
    try:
        while unwritten:
            # A disk that is nearly full takes a part, and says so by the count alone.
            unwritten = unwritten[file.write(unwritten) :]
    except OSError as error:
        if end is not None:
            with suppress(OSError):  # a device has no end to cut
                file.truncate(end)
        raise OSError(error.errno, error.strerror, str(file.name)) from error


def advice(error: OSError) -> str:
    """Advice for an error, with a leading separator; "" if there is none."""
    return f"; {NEXT}" if error.errno in NO_ROOM else ""


def problem_of(error: Exception) -> str:
    """What is wrong with a file or an address that people named, and what to do, without numbers
    and names of Python's. The name itself stands in front.

    Args:
        error: From opening, reading or connecting.
    """
    match error:
        case UnicodeDecodeError():
            return f"byte {error.start} is no UTF-8: this is no text file"
        case OSError(errno=int(number)) if number in TO_DO:
            # asyncio puts words of its own into strerror.
            words = "Connection refused" if number == errno.ECONNREFUSED else error.strerror
            return f"{words}; {TO_DO[number]}"
        case OSError():
            return f"{error.strerror or error}{advice(error)}"
        case _:
            return str(error)


def _remove(path: Path) -> None:
    if path.is_dir():
        import shutil  # few commands write folders, and each would start later

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_about(error: OSError, part: Path) -> bool:
    """Whether the disk is full, or the error concerns ``part`` or a folder above."""
    if error.errno in NO_ROOM:
        return True
    failed_path = Path(str(error.filename))
    return failed_path == part or part in failed_path.parents or failed_path in part.parents


def _not_written(path: Path, error: OSError, what: str) -> ConfigError:
    from txnsim.errors import ConfigError  # it knows kio's error codes: slow to import

    remark = "; nothing of it is there" if error.errno in NO_ROOM else ""
    return ConfigError(f"{what}{path}: {error.strerror}{remark}{advice(error)}")


def _too_large() -> OSError:
    return OSError(errno.EFBIG, "File too large")
