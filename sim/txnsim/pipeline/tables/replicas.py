"""The table ``replicas``: what the small files say of each replica."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from txnsim.pipeline.scan.log_dirs import LogDirectory, topic_id_of
from txnsim.pipeline.scan.segments import Replica, size_of
from txnsim.pipeline.schemas import ReplicaRow
from txnsim.pipeline.tables.rows import Job, Rows, of_replica, of_structs
from txnsim.storage.replica_files import replica_files


def read(replica: Replica, job: Job, directory: LogDirectory) -> Iterator[Rows]:
    """The row of a replica.

    Raises:
        OSError: The folder can't be read.
    """
    del job
    return of_structs(iter([_row(replica, directory)]), partial(of_replica, replica))


def _row(replica: Replica, directory: LogDirectory) -> ReplicaRow:
    folder, whose = Path(replica.path), replica.topic_partition
    files = replica_files(folder)
    segments, snapshots = files.segments, files.snapshots
    first = segments[0].base_offset if segments else None
    return ReplicaRow(
        directory=replica.path,
        cluster_id=directory.meta.cluster_id if directory.meta is not None else None,
        topic_id=topic_id_of(folder),
        segments=len(segments),
        size_bytes=sum(size_of(one.log) for one in segments),
        first_segment_offset=first,
        last_segment_offset=segments[-1].base_offset if segments else None,
        log_start_offset=max(
            (one for one in (directory.log_starts.get(whose), first) if one is not None),
            default=None,
        ),
        high_watermark=directory.high_watermarks.get(whose),
        recovery_point=(directory.recovery_points or {}).get(whose),
        last_snapshot_offset=snapshots[-1][0] if snapshots else None,
        is_clean=directory.is_clean,
    )
