"""A file before it is written: so the same files can go into a folder or over a connection."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """Its place below some folder, and its bytes in pieces."""

    path: str
    """With ``/`` between folders."""
    parts: tuple[bytes, ...]

    @classmethod
    def of(cls, path: str, data: bytes) -> StoredFile:
        """A file in one piece."""
        return cls(path=path, parts=(data,))

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(map(len, self.parts))

    def below(self, folder: str) -> StoredFile:
        """The same file one folder deeper."""
        return StoredFile(path=f"{folder}/{self.path}", parts=self.parts)


def write_files(directory: Path, files: Iterable[StoredFile]) -> int:
    """Write files below a folder; nothing is written over.

    Returns:
        How many bytes were written.

    Raises:
        FileExistsError: One is there already.
        OSError: One can't be written.
    """
    size = 0
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as opened:
            opened.writelines(file.parts)
        size += file.size
    return size


def tar_of(files: Iterable[StoredFile], *, modified_ms: int) -> Iterator[bytes]:
    """The bytes of a tar archive of them, piece by piece."""
    for file in files:
        info = tarfile.TarInfo(file.path)
        info.size = file.size
        info.mtime = modified_ms // 1_000
        yield info.tobuf(tarfile.GNU_FORMAT)
        yield from file.parts
        yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
