"""Reads the checkpoint of a streaming query: the query that it belongs to, and the offsets that a
batch reaches. Spark records a batch's offsets before it runs, and never changes them: a repeated
batch has the same offsets. This module only reads batches; it may remove files that are no batch.
Spark's counterparts are ``StreamMetadata`` (the file ``metadata``), ``OffsetSeqLog``
(``offsets/N``: a version, a line about the batch, a line per source) and ``CommitLog``
(``commits/N``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from txnsim.errors import BadInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OFFSETS_VERSION: Final = "v1"
_LINES_AFTER_VERSION: Final = 2

Offsets = Mapping[str, Mapping[str, int]]
"""Topic → partition → next offset to read, as the connector writes it."""


class Checkpoint:
    """The checkpoint of one query with one source."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def query_id(self) -> str | None:
        """Id that a query keeps over its restarts; None before its first start."""
        metadata_json = self._folder.read("metadata")
        return None if metadata_json is None else str(json.loads(metadata_json)["id"])

    def has_committed(self) -> bool:
        return any(file_name.isdigit() for file_name in self._folder.names("commits"))

    def sweep(self) -> None:
        """Remove what a killed stream left of its first batch before it was recorded. Spark would
        refuse the checkpoint because of these files (SPARK-53103).
        """
        for folder_name in ("offsets", "commits"):
            file_names = self._folder.names(folder_name)
            if file_names and not any(file_name.isdigit() for file_name in file_names):
                self._folder.remove(folder_name)

    def newest_offsets(self) -> Offsets | None:
        """End offsets of the newest batch that was started; None if there is none."""
        batch_ids = [
            int(file_name) for file_name in self._folder.names("offsets") if file_name.isdigit()
        ]
        return self.offsets(max(batch_ids)) if batch_ids else None

    def offsets(self, batch_id: int) -> Offsets:
        """End offsets of a batch that was started.

        Raises:
            BadInputError: There is no such batch, or its file has an unknown format.
        """
        file_name = f"offsets/{batch_id}"
        file_bytes = self._folder.read(file_name)
        if file_bytes is None:
            raise BadInputError(f"checkpoint: {file_name} is missing")
        return read_offsets(file_bytes, file_name=file_name)


def read_offsets(file_bytes: bytes, *, file_name: str) -> Offsets:
    """The offsets of the only source of a batch.

    Raises:
        BadInputError: The file has another version, or the batch has other sources.
    """
    version, *later_lines = file_bytes.decode().splitlines()
    if version != _OFFSETS_VERSION or len(later_lines) != _LINES_AFTER_VERSION:
        raise BadInputError(
            f"checkpoint: {file_name} is of version {version} with {len(later_lines)} lines,"
            f" expected {_OFFSETS_VERSION} with {_LINES_AFTER_VERSION}"
        )
    offsets: Offsets = json.loads(later_lines[-1])
    return offsets


class Folder:
    """A folder in any of Hadoop's file systems, through the driver's JVM. Files are addressed by
    paths below it, with slashes. Only Spark writes there.
    """

    def __init__(self, url: str, spark: SparkSession) -> None:
        session: Any = spark  # whose way into the JVM has no public name
        self._jvm: Any = session._jvm
        self._url = url
        conf = session._jsparkSession.sessionState().newHadoopConf()
        self._file_system: Any = self._path("").getFileSystem(conf)

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty for a missing folder."""
        if not self._file_system.exists(self._path(path)):
            return []
        return sorted(
            str(file_status.getPath().getName())
            for file_status in self._file_system.listStatus(self._path(path))
        )

    def read(self, path: str) -> bytes | None:
        """Bytes of a file; None for a missing file."""
        if not self._file_system.exists(self._path(path)):
            return None
        stream = self._file_system.open(self._path(path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def remove(self, path: str) -> None:
        """Remove a folder and its contents; a missing folder is no error."""
        self._file_system.delete(self._path(path), True)  # noqa: FBT003 - Java knows no names

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._url}/{path}" if path else self._url)
