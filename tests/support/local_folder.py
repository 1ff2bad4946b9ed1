"""A local folder with the interface that a stream's checkpoint and sink use. A test compares it
with Hadoop's (tests/spark/pipeline/test_stream.py).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from txnsim_spark.streaming._checkpoint import Folder


class LocalFolder(Folder):
    """A ``Folder`` on the local disk, without Hadoop."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / path))
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None for a missing file."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, path: str) -> None:
        shutil.rmtree(self.root / path, ignore_errors=True)

    def write(self, path: str, data: bytes) -> None:
        target_path = self.root / path
        target_path.parent.mkdir(parents=True, exist_ok=True)
        target_path.write_bytes(data)
