"""Opens files that may be of any kind: a named pipe would never answer, a link to itself leads
nowhere.

A file that is not regular is an ``OSError`` here, so that a reader of log directories reports it
and goes on. A file that should be small is refused if it is large.

All code that reads a broker's files opens them here and nowhere else. So all of it can read a
folder whose content is in another store (``MOUNTS``): names, sizes and times are those of local
files without content, the bytes come from the store, range by range.
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
"""Largest small file, in bytes: a checkpoint of 100,000 partitions with names of 249 characters has
27 MB.
"""
WHOLE_BYTES_MAX: Final = 256 << 20
"""Largest file that is read whole, in bytes: a snapshot of 4 million producers, an index of 7
million aborted transactions. A sparse file of any size takes no room on a disk, and all of the
memory.
"""
_BUFFER_BYTES: Final = 64 << 10
"""Smallest read from a store, in bytes."""


class RangeFile(Protocol):
    """An open file that can be read at any position."""

    @property
    def size(self) -> int:
        """Size in bytes when the file was opened."""
        ...

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill a view, or its beginning, with the bytes from a position on.

        Returns:
            Number of bytes; 0 at the end of the file.

        Raises:
            OSError: The file can't be read.
        """
        ...

    def close(self) -> None: ...


class MountedStore(Protocol):
    """A store that has the content of local files."""

    def open(self, path: Path, is_sequential: bool) -> RangeFile:  # noqa: FBT001 - internal
        """Open the file of a local path; raises ``OSError`` if that fails. ``is_sequential`` says
        that it will be read from beginning to end.
        """
        ...

    def expect(self, paths: Sequence[Path]) -> None:
        """Announce files that will be read from beginning to end, in this order."""
        ...


class Mounts:
    """The folders whose files this process reads from a store."""

    def __init__(self) -> None:
        self._stores: dict[str, MountedStore] = {}
        """Folder, with a slash at its end -> its store."""

    def mount(self, root: Path, store: MountedStore) -> None:
        """Make all files below a folder be read from a store."""
        self._stores[f"{root}/"] = store

    def store_of(self, path: Path) -> MountedStore | None:
        """The store that has the content of a path; None for a local path."""
        if not self._stores:
            return None
        path_text = str(path)
        return next(
            (store for root, store in self._stores.items() if path_text.startswith(root)), None
        )

    def expect(self, paths: Sequence[str]) -> None:
        """Announce files that will be read from beginning to end, in this order, so that their
        stores can read ahead.
        """
        for root, store in self._stores.items():
            store.expect([Path(path) for path in paths if path.startswith(root)])


MOUNTS: Final = Mounts()


class RegularFile:
    """A file to be opened, by its path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ranges(self, *, is_sequential: bool = False) -> RangeFile:
        """Open the file for reads at any position.

        Raises:
            OSError: The file can't be opened, or is no regular file.
        """
        store = MOUNTS.store_of(self.path)
        if store is not None:
            return store.open(self.path, is_sequential)
        file = _LocalFile(_descriptor_of(self.path))
        if is_sequential:
            file.read_ahead()
        return file

    def open(self, *, is_sequential: bool = False) -> BinaryIO:
        """Open the file for reading from its beginning.

        Raises:
            OSError: The file can't be opened, or is no regular file.
        """
        file = self.ranges(is_sequential=is_sequential)
        if isinstance(file, _LocalFile):
            return os.fdopen(file.descriptor, "rb")
        return io.BufferedReader(_StoreStream(file), _BUFFER_BYTES)

    def read(self, *, is_small: bool = False) -> bytes:
        """Read the whole file as it is when it is opened; with ``is_small``, refuse a file that is
        not small.

        Raises:
            OSError: The file can't be read, is no regular file, or is too large.
        """
        with self.open() as file:
            file_bytes = size_of_open(file)
            bytes_max = SMALL_BYTES_MAX if is_small else WHOLE_BYTES_MAX
            if file_bytes > bytes_max:
                raise OSError(
                    errno.EFBIG,
                    f"{file_bytes} bytes, no more than {bytes_max} are read",
                    str(self.path),
                )
            return file.read(file_bytes)  # it may grow meanwhile

    def text(self) -> str:
        """Read a whole small file as text; bytes that are no UTF-8 are replaced.

        Raises:
            OSError: The file can't be read, is no regular file, or is too large.
        """
        return self.read(is_small=True).decode(errors="replace")

    def why_unreadable(self) -> str:
        """Why the file can't be opened; empty if it can."""
        try:
            self.ranges().close()
        except OSError as error:
            return error.strerror or str(error)
        return ""


def size_of_open(file: BinaryIO) -> int:
    """Size of an open file in bytes; moves its position to the beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


class _LocalFile:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read_ahead(self) -> None:
        """Make the kernel read further ahead, on systems that can."""
        fadvise: Any = getattr(os, "posix_fadvise", None)
        if fadvise is not None:
            fadvise(self.descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill the view, or its beginning, with bytes from the position on; returns
        their number.
        """
        return os.preadv(self.descriptor, [view], position)

    def close(self) -> None:
        os.close(self.descriptor)


class _StoreStream(io.RawIOBase):
    """A file of a store as a Python file object."""

    def __init__(self, file: RangeFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer with the next bytes."""
        byte_count = self._file.read_into(memoryview(buffer).cast("B"), self._position)
        self._position += byte_count
        return byte_count

    def readall(self) -> bytes:
        """Read the rest of the file at once: Python's own method would ask for 8 kB at a time."""
        unread_bytes = bytearray(max(0, self._file.size - self._position))
        filled_bytes = 0
        while filled_bytes < len(unread_bytes):
            byte_count = self._file.read_into(
                memoryview(unread_bytes)[filled_bytes:], self._position
            )
            if not byte_count:
                break
            self._position += byte_count
            filled_bytes += byte_count
        return bytes(unread_bytes[:filled_bytes])

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        base_position_by_whence = {
            os.SEEK_SET: 0,
            os.SEEK_CUR: self._position,
            os.SEEK_END: self._file.size,
        }
        self._position = base_position_by_whence[whence] + offset
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
        error_number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(error_number, f"{_file_kind(mode)}, not a file", str(path))
    return descriptor


def _file_kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or socket"
