"""Opening a file that may be anything: a named pipe never answers, a link to itself leads nowhere.

A file that is not regular is an ``OSError`` here, so that a reader of log directories names it and
goes on. A file that should be small is not read whole where it is not.

Who reads what a broker has left opens it here and nowhere else, so a folder whose content lies in
another store (``MOUNTS``) is read by all of them: names, sizes and times are those of local files
without content, bytes come from the store, range by range.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SMALL_BYTES_MAX: Final = 32 << 20
"""Limit for a checkpoint file: one of 100,000 partitions with names of 249 characters is 27 MB."""
_BUFFER_BYTES: Final = 64 << 10
"""Smallest read from a store."""


class RangeFile(Protocol):
    """An open file that is read at any place."""

    @property
    def size(self) -> int:
        """In bytes, when it was opened."""
        ...

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill a view, or some of it, from a position on.

        Returns:
            How many bytes; 0 at the end.

        Raises:
            OSError: They can't be read.
        """
        ...

    def close(self) -> None: ...


class Mounted(Protocol):
    """A store that local files stand for."""

    def open(self, place: Path, is_sequential: bool) -> RangeFile:  # noqa: FBT001 - internal
        """Its file, to be read from beginning to end or not; an ``OSError`` where it can't be."""
        ...

    def expect(self, places: Sequence[Path]) -> None:
        """Files that are going to be read from beginning to end, in this order."""
        ...


class Mounts:
    """The folders whose files are read from a store, in this process."""

    def __init__(self) -> None:
        self._stores: dict[str, Mounted] = {}
        """Folder, with a slash at its end -> what its files are read from."""

    def mount(self, root: Path, store: Mounted) -> None:
        """Have all files below a folder read from a store."""
        self._stores[f"{root}/"] = store

    def at(self, path: Path) -> Mounted | None:
        """Store that holds a path; None for a local path."""
        if not self._stores:
            return None
        text = str(path)
        return next((store for root, store in self._stores.items() if text.startswith(root)), None)

    def expect(self, places: Sequence[str]) -> None:
        """Files are going to be read from beginning to end, in this order: a store asks early."""
        for root, store in self._stores.items():
            store.expect([Path(place) for place in places if place.startswith(root)])


MOUNTS: Final = Mounts()


class RegularFile:
    """A file by its path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ranges(self, *, is_sequential: bool = False) -> RangeFile:
        """Open it, to be read at any place.

        Raises:
            OSError: It can't be opened, or is no regular file.
        """
        store = MOUNTS.at(self.path)
        if store is not None:
            return store.open(self.path, is_sequential)
        file = _LocalFile(_descriptor_of(self.path))
        if is_sequential:
            file.read_ahead()
        return file

    def open(self, *, is_sequential: bool = False) -> BinaryIO:
        """Open it, to be read from its beginning.

        Raises:
            OSError: It can't be opened, or is no regular file.
        """
        file = self.ranges(is_sequential=is_sequential)
        if isinstance(file, _LocalFile):
            return os.fdopen(file.descriptor, "rb")
        return io.BufferedReader(_Stream(file), _BUFFER_BYTES)

    def read(self, *, is_small: bool = False) -> bytes:
        """All of it; one that should be small only where it is.

        Raises:
            OSError: It can't be read, is no regular file, or is too large.
        """
        with self.open() as file:
            size = size_of_open(file)
            if is_small and size > SMALL_BYTES_MAX:
                raise OSError(
                    errno.EFBIG,
                    f"{size} bytes, no more than {SMALL_BYTES_MAX} are read",
                    str(self.path),
                )
            # It may grow meanwhile.
            return file.read(SMALL_BYTES_MAX + 1) if is_small else file.read()

    def text(self) -> str:
        """All of a small file; bytes that are no UTF-8 are replaced.

        Raises:
            OSError: It can't be read, is no regular file, or is too large.
        """
        return self.read(is_small=True).decode(errors="replace")

    def why_unreadable(self) -> str:
        """Why it can't be opened; empty where it can."""
        try:
            self.ranges().close()
        except OSError as error:
            return error.strerror or str(error)
        return ""


def size_of_open(file: BinaryIO) -> int:
    """In bytes; the file is at its beginning then."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


class _LocalFile:
    """A file of this machine."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read_ahead(self) -> None:
        """The kernel reads further ahead then; not every system can do that."""
        advise: Any = getattr(os, "posix_fadvise", None)
        if advise is not None:
            advise(self.descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def read_into(self, view: memoryview, position: int) -> int:
        """As the system reads."""
        return os.preadv(self.descriptor, [view], position)

    def close(self) -> None:
        os.close(self.descriptor)


class _Stream(io.RawIOBase):
    """A file of a store as Python's own files are."""

    def __init__(self, file: RangeFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """What comes next."""
        count = self._file.read_into(memoryview(buffer).cast("B"), self._position)
        self._position += count
        return count

    def readall(self) -> bytes:
        """The rest at once: Python would ask for 8 kB at a time."""
        unread = bytearray(max(0, self._file.size - self._position))
        filled = 0
        while filled < len(unread):
            count = self._file.read_into(memoryview(unread)[filled:], self._position)
            if not count:
                break
            self._position += count
            filled += count
        return bytes(unread[:filled])

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on elsewhere."""
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}
        self._position = begin[whence] + offset
        return self._position

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _descriptor_of(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, f"{_kind(mode)}, not a file", str(path))
    return descriptor


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or socket"
