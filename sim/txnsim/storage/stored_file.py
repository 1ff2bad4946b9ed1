"""A file that is not written yet, and a tar archive of such files: to send files over a
connection.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator

import msgspec


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file's relative path, and its bytes in pieces."""

    path: str
    """The path, with ``/`` between folders."""
    parts: tuple[bytes, ...]

    @classmethod
    def of(cls, path: str, data: bytes) -> StoredFile:
        """Make a file in one piece."""
        return cls(path=path, parts=(data,))

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.parts))

    def in_folder(self, folder: str) -> StoredFile:
        """The same file in a folder."""
        return StoredFile(path=f"{folder}/{self.path}", parts=self.parts)


def tar_of(
    files: Iterable[StoredFile], *, modified_ms: int, ends_archive: bool = True
) -> Iterator[bytes]:
    """Yield the bytes of a tar archive of the files, piece by piece; unless ``ends_archive``, more
    files may follow.
    """
    for file in files:
        tar_info = tarfile.TarInfo(file.path)
        tar_info.size = file.size_bytes
        tar_info.mtime = modified_ms // 1_000
        yield tar_info.tobuf(tarfile.GNU_FORMAT)
        yield from file.parts
        yield bytes(-tar_info.size % tarfile.BLOCKSIZE)
    if ends_archive:
        yield bytes(2 * tarfile.BLOCKSIZE)
