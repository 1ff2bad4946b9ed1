"""Reads and writes files that users name: reads are bounded, and a write is complete or leaves
nothing.

Reading: users name the files, and others may have written them. A device has no end, and a file can
grow while it is read, so the limit counts the bytes that were read.

Writing: a file or a folder is made under a temporary name in the same folder, and is renamed when
it is complete. So a full disk leaves no partial file, the old content stays, and the error names
the path and says what to do next.
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
"""Largest configuration, certificate, rule or story, in bytes."""
LINE_BYTES_MAX: Final = 64 << 20
"""Longest line of a trace or a history, in bytes."""
LINES_BYTES_MAX: Final = 4 << 30
"""Largest trace or history that is read line by line, in bytes."""

FOR_ALL: Final = 0o666
"""Mode of a file that every user may read and write, before the umask."""
FOR_ITS_OWNER: Final = 0o600
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors for a full disk, a used-up quota and a file above its size limit."""
TO_DO: Final = {
    errno.ENOENT: "check how it is spelt, and the folder that you are in",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EACCES: "change its permissions, or run this as a user who may",
    errno.ECONNREFUSED: "nothing listens there; check the address, and that a broker runs",
}
"""Advice for the user, by error number."""
NEXT: Final = "make room, or name another place, and run the command again"


# Reading


def read_given(path: Path | None, *, bytes_max: int = GIVEN_BYTES_MAX) -> bytes:
    """Read a whole file, or standard input if there is no path.

    Raises:
        OSError: It can't be read, or is larger than ``bytes_max`` bytes (EFBIG).
    """
    if path is None:
        return read_whole(sys.stdin.buffer, bytes_max=bytes_max)
    with path.open("rb") as file:
        return read_whole(file, bytes_max=bytes_max)


def read_whole(file: BinaryIO, *, bytes_max: int = GIVEN_BYTES_MAX) -> bytes:
    """Read an open file from its position to its end.

    Raises:
        OSError: It can't be read, or has more than ``bytes_max`` bytes (EFBIG).
    """
    file_bytes = file.read(bytes_max + 1)
    if len(file_bytes) > bytes_max:
        raise _too_large_error()
    return file_bytes


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Read the lines of an open file, one at a time.

    Raises:
        OSError: It can't be read; a line or the whole file is too large (EFBIG).
    """
    bytes_left = LINES_BYTES_MAX
    while line := file.readline(LINE_BYTES_MAX + 1):
        bytes_left -= len(line)
        if len(line) > LINE_BYTES_MAX or bytes_left < 0:
            raise _too_large_error()
        yield line


# Writing


def write_whole(
    path: Path, content: str | bytes, *, mode: int = FOR_ALL, error_prefix: str = ""
) -> None:
    """Replace a file with new content in one move.

    If the path is a symbolic link, the link stays and its target is replaced. A path that is no
    regular file, such as a pipe, is written to directly.

    Args:
        path: The file to write.
        content: All of its content; a text is encoded as UTF-8.
        mode: Permissions of the new file, before the umask.
        error_prefix: Put in front of the path in the error's message, such as the name of an
            option.

    Raises:
        ConfigError: The file can't be written.
    """
    content_bytes = content.encode() if isinstance(content, str) else content
    resolved_path = path.resolve()
    try:
        if resolved_path.exists() and not resolved_path.is_file():
            with resolved_path.open("wb", buffering=0) as output_file:
                output_file.write(content_bytes)
            return
    except OSError as error:
        raise _not_written_error(path, error, error_prefix) from error
    with place_when_whole(path, error_prefix=error_prefix) as part_path:
        part_path.touch(mode=mode)
        part_path.write_bytes(content_bytes)


def write_all(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write several files to a folder, all of them or none; other files of the folder stay.

    Args:
        folder: The folder; it is created if it does not exist.
        files: Name -> content.

    Returns:
        The path of each file.

    Raises:
        ConfigError: A file can't be written.
    """
    with ExitStack() as exit_stack:
        for file_name, content in files.items():
            part_path = exit_stack.enter_context(place_when_whole(folder / file_name))
            part_path.parent.mkdir(parents=True, exist_ok=True)
            part_path.write_bytes(content)
    return tuple(folder / file_name for file_name in files)


@contextmanager
def place_when_whole(path: Path, *, error_prefix: str = "") -> Iterator[Path]:
    """Give a temporary path to write a file or a folder to; at the end it replaces the one at
    ``path``.

    Args:
        path: The final path.
        error_prefix: Put in front of the path in the error's message, such as the name of an
            option.

    Yields:
        The temporary path. Nothing exists there, even if an earlier run was killed.

    Raises:
        ConfigError: The path can't be written. An error while reading inside the block stays an
            OSError.
    """
    resolved_path = path.resolve()
    part_path = resolved_path.with_name(f".{resolved_path.name}.part")
    missing_folders = [folder for folder in resolved_path.parents if not folder.exists()]
    try:
        _remove(part_path)
        yield part_path
        if part_path.is_dir():
            _remove(resolved_path)
        part_path.replace(resolved_path)
    except BaseException as error:
        with suppress(OSError):  # the error that is being raised says more
            _remove(part_path)
            for folder in missing_folders:
                folder.rmdir()
        if isinstance(error, OSError) and _is_about_path(error, part_path):
            raise _not_written_error(path, error, error_prefix) from error
        raise


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Put the folder's name into an error for lack of room, around writes to a temporary folder.

    Raises:
        OSError: There is no room; the error names the folder.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM and error.filename is None:
            raise OSError(error.errno, error.strerror, str(folder)) from error
        raise


def append(file: FileIO, added_bytes: bytes) -> None:
    """Append data to a file, all of it or nothing.

    Args:
        file: Open for appending, without a buffer: data in a buffer could not be taken back.
        added_bytes: The bytes to append.

    Raises:
        OSError: The data can't be written; the error names the file.
    """
    end_position = file.seek(0, 2) if file.seekable() else None
    unwritten_data = memoryview(added_bytes)
    try:
        while unwritten_data:
            # A disk that is nearly full writes a part; only the returned count shows that.
            unwritten_data = unwritten_data[file.write(unwritten_data) :]
    except OSError as error:
        if end_position is not None:
            with suppress(OSError):  # a device has no end to cut
                file.truncate(end_position)
        raise OSError(error.errno, error.strerror, str(file.name)) from error


def advice(error: OSError) -> str:
    """Advice for a lack of room, with a leading separator; "" for any other error."""
    return f"; {NEXT}" if error.errno in NO_ROOM else ""


def problem_of(error: Exception) -> str:
    """Describe what is wrong with a file or an address that a user named, and what to do about it.

    The text has no error numbers and no Python names, and leaves the file's name to the caller.

    Args:
        error: The error from opening, reading or connecting.
    """
    match error:
        case UnicodeDecodeError():
            return f"byte {error.start} is no UTF-8: this is no text file"
        case OSError(errno=int(error_number)) if error_number in TO_DO:
            # asyncio puts its own text into strerror.
            problem_text = (
                "Connection refused" if error_number == errno.ECONNREFUSED else error.strerror
            )
            return f"{problem_text}; {TO_DO[error_number]}"
        case OSError():
            return f"{error.strerror or error}{advice(error)}"
        case _:
            return str(error)


def _remove(path: Path) -> None:
    if path.is_dir():
        import shutil  # few commands write folders; the import slows every start

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_about_path(error: OSError, part_path: Path) -> bool:
    """Whether the error names ``part_path``, a path in it or a folder above it, or says without a
    name that the disk is full.
    """
    if error.errno in NO_ROOM and error.filename is None:
        return True
    failed_path = Path(str(error.filename))
    return (
        failed_path == part_path
        or part_path in failed_path.parents
        or failed_path in part_path.parents
    )


def _not_written_error(path: Path, error: OSError, error_prefix: str) -> ConfigError:
    from txnsim.errors import ConfigError  # slow to import: it loads kio's error codes

    remark = "; nothing of it is there" if error.errno in NO_ROOM else ""
    return ConfigError(f"{error_prefix}{path}: {error.strerror}{remark}{advice(error)}")


def _too_large_error() -> OSError:
    return OSError(errno.EFBIG, "File too large")
