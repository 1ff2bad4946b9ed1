"""Replicas' folders of tests, unpacked from the archive that users are sent."""

from __future__ import annotations

import io
import tarfile
import uuid
from pathlib import Path

from sim.log.partition_log import PartitionLog
from sim.storage.log_file import TornTail, read_log_file
from sim.storage.partition_dir import partition_files
from sim.storage.stored_file import tar_of


def write_partition(directory: Path, log: PartitionLog, *, topic_id: uuid.UUID) -> None:
    """A replica's folder, with the log as it is now."""
    archive = b"".join(tar_of(partition_files(log, topic_id=topic_id), modified_ms=0))
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")


def sound_batches(path: Path) -> tuple[list[bytes], TornTail | None]:
    """All sound batches of a segment, and what a broker would cut off behind them."""
    torn: list[TornTail] = []
    batches = [batch.data for batch in read_log_file(path, on_torn=torn.append)]
    return batches, torn[0] if torn else None
