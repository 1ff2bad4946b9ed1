"""The newest time that the disks of a cluster know: about when it was stopped.

Coordinators stamp their records by their brokers' clocks, so their logs come first; producers
stamp theirs by any clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from txnsim.storage.disks import Disks, StoredFolder
from txnsim.storage.log_file import read_log_file
from txnsim.storage.replica_files import replica_files
from txnsim.types import INTERNAL_TOPICS


def newest_time(disks: Disks) -> int | None:
    """Milliseconds since the epoch; None where there is no record.

    Raises:
        OSError: A file can't be read.
    """
    folders = [folder for _, folder in disks.all_folders()]
    own = [one for one in folders if one.replica.topic_partition.topic in INTERNAL_TOPICS]
    return _newest(own) or _newest(folders)


def _newest(folders: Iterable[StoredFolder]) -> int | None:
    """The newest time in the segments that were written last."""
    newest = 0
    for folder in folders:
        for segment in replica_files(folder.replica.path).segments[-1:]:
            for batch in read_log_file(segment.log, on_torn=lambda _: None, check_crc=False):
                newest = max(newest, batch.header.max_timestamp_ms)
    return newest or None
