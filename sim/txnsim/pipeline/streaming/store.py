"""A folder of any of Hadoop's file systems, through the driver's JVM: what lies in it is looked up
there. What is written there Spark writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder(Protocol):
    """Addressed by paths below it, with slashes."""

    def names(self, path: str) -> list[str]:
        """What lies in a folder, sorted; nothing where there is none."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None where there is none."""
        ...

    def remove(self, path: str) -> None:
        """Remove a folder with all that is in it; nothing where there is none."""
        ...


class HadoopFolder:
    """One, as its URL says."""

    def __init__(self, url: str, spark: SparkSession) -> None:
        session: Any = spark  # whose way into the JVM has no public name
        self._jvm: Any = session._jvm
        self._url = url
        conf = session._jsparkSession.sessionState().newHadoopConf()
        self._files: Any = self._path("").getFileSystem(conf)

    def names(self, path: str) -> list[str]:
        """See ``Folder``."""
        if not self._files.exists(self._path(path)):
            return []
        return sorted(str(one.getPath().getName()) for one in self._listed(path))

    def read(self, path: str) -> bytes | None:
        """See ``Folder``."""
        if not self._files.exists(self._path(path)):
            return None
        stream = self._files.open(self._path(path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def remove(self, path: str) -> None:
        """See ``Folder``."""
        self._files.delete(self._path(path), True)  # noqa: FBT003 - Java knows no names

    def _listed(self, path: str) -> Any:
        return self._files.listStatus(self._path(path))

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._url}/{path}" if path else self._url)
