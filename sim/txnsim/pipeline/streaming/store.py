"""Where a stream's output lies: the few things that an atomic commit needs of a file system.

A directory that is renamed appears whole or not at all, and a rename onto what is there already
fails. Local and shared file systems give that, and HDFS; object stores whose rename is a copy do
not, so they are refused. Hadoop's counterpart is ``FileContext.rename`` without ``OVERWRITE``.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol

from txnsim.errors import ConfigError
from txnsim.written_files import working_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPYING_SCHEMES: Final = frozenset({"s3", "s3a", "s3n", "gs", "oss", "wasb", "wasbs", "cosn"})
"""Object stores: a rename there copies file by file, and others see it half done."""


class Store(Protocol):
    """A directory, addressed by paths below it, with slashes."""

    def url(self, path: str) -> str:
        """What Spark is given to write there."""

    def names(self, path: str) -> list[str]:
        """What lies in a directory, sorted; nothing where there is none."""

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None where there is none."""

    def write(self, path: str, data: bytes) -> None:
        """Make a file, its directory included."""

    def publish(self, source: str, target: str) -> bool:
        """Give a directory its final name, in one step; False: somebody has been there before."""

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it; nothing where there is none."""


def open_store(location: str, spark: SparkSession | None = None) -> Store:
    """The store of a path or URL.

    Args:
        location: A path of this machine, or what Hadoop's file systems take.
        spark: Reaches the others; only paths and ``file:`` without.

    Raises:
        ConfigError: It can't hold what is written once and only once.
    """
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return LocalStore(Path(location).absolute())
    if scheme == "file":
        return LocalStore(Path("/" + path.lstrip("/")))
    if scheme in COPYING_SCHEMES:
        raise ConfigError(
            f"{location}: a rename in this object store is no single step, so a batch can't appear"
            " there whole or not at all; take a file system (HDFS, NFS, a local disk)"
        )
    if spark is None:
        raise ConfigError(f"{location}: needs a SparkSession")
    return HadoopStore(location, spark)


class LocalStore:
    """A file system that this process and all workers see under one path."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def url(self, path: str) -> str:
        """See ``Store``."""
        return f"file://{self.root / path}"  # as Hadoop writes it: no character is encoded

    def names(self, path: str) -> list[str]:
        """See ``Store``."""
        try:
            return sorted(os.listdir(self.root / path))
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes | None:
        """See ``Store``."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        """See ``Store``; the bytes are on the disk when this returns."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with working_in(target), target.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def publish(self, source: str, target: str) -> bool:
        """See ``Store``; rename(2) refuses a directory that is not empty."""
        final = self.root / target
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            (self.root / source).rename(final)
        except OSError as failure:
            if failure.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        directory = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # the name too: what is called committed outlives the machine
        finally:
            os.close(directory)
        return True

    def remove(self, path: str) -> None:
        """See ``Store``."""
        shutil.rmtree(self.root / path, ignore_errors=True)


class HadoopStore:
    """Any of Hadoop's file systems, through the driver's JVM."""

    def __init__(self, root: str, spark: SparkSession) -> None:
        context: Any = spark.sparkContext  # whose way into the JVM has no public name
        self._gateway: Any = context._gateway
        self._jvm: Any = context._jvm
        self._root = root.rstrip("/")
        self._files: Any = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._jvm.java.net.URI(self._root), context._jsc.hadoopConfiguration()
        )

    def url(self, path: str) -> str:
        """See ``Store``."""
        return f"{self._root}/{path}"

    def names(self, path: str) -> list[str]:
        """See ``Store``."""
        if not self._files.util().exists(self._path(path)):
            return []
        found = self._files.util().listStatus(self._path(path))
        return sorted(str(one.getPath().getName()) for one in found)

    def read(self, path: str) -> bytes | None:
        """See ``Store``."""
        if not self._files.util().exists(self._path(path)):
            return None
        stream = self._files.open(self._path(path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, path: str, data: bytes) -> None:
        """See ``Store``."""
        file = self._path(path)
        self._make_directory(str(PurePosixPath(path).parent))
        flags = self._jvm.java.util.EnumSet.of(
            self._jvm.org.apache.hadoop.fs.CreateFlag.CREATE,
            self._jvm.org.apache.hadoop.fs.CreateFlag.OVERWRITE,
        )
        options = self._array(self._jvm.org.apache.hadoop.fs.Options.CreateOpts)
        stream = self._files.create(file, flags, options)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()

    def publish(self, source: str, target: str) -> bool:
        """See ``Store``."""
        if self._files.util().exists(self._path(target)):
            return False
        self._make_directory(str(PurePosixPath(target).parent))
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        self._files.rename(self._path(source), self._path(target), self._array(rename, rename.NONE))
        return True

    def remove(self, path: str) -> None:
        """See ``Store``."""
        if self._files.util().exists(self._path(path)):
            self._files.delete(self._path(path), True)  # noqa: FBT003 - Java knows no names

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.url(path))

    def _make_directory(self, path: str) -> None:
        permission = self._jvm.org.apache.hadoop.fs.permission.FsPermission.getDirDefault()
        self._files.mkdir(self._path(path), permission, True)  # noqa: FBT003 - the same

    def _array(self, kind: Any, *items: Any) -> Any:
        """What Java's variable arguments are."""
        array = self._gateway.new_array(kind, len(items))
        for place, item in enumerate(items):
            array[place] = item
        return array
