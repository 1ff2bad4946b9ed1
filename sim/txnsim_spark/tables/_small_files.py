"""Tables from the small files of each replica: ``aborted`` (the index of each segment),
``leader_epochs`` (where each leader began to write), ``producer_state`` (the producers in each
snapshot) and ``replicas``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from txnsim.errors import CorruptLogRecordError
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.storage import checkpoints, names, producer_snapshot, txn_index
from txnsim.storage.metadata_files import MetaProperties
from txnsim.storage.regular_file import RegularFile
from txnsim.storage.replica_files import replica_files
from txnsim_spark.file_faults import refuse_file, refuse_problem, refuse_unreadable
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.scan.log_dirs import LogDirectory, read_small, topic_id_of
from txnsim_spark.scan.segments import Replica, size_of
from txnsim_spark.schemas import AbortedRow, LeaderEpochRow, ProducerRow, ReplicaRow
from txnsim_spark.tables.rows import (
    Rows,
    TableJob,
    file_columns,
    none_if_negative,
    replica_columns,
    rows_of_structs,
)


def aborted_transactions(replica: Replica, job: TableJob) -> Iterator[Rows]:
    """The rows of a replica: from all its ``.txnindex`` files, even if the segment is deleted."""
    for base_offset, path in txn_indexes(Path(replica.path)):
        yield from rows_of_structs(
            _rows_of_aborted(path, job), partial(file_columns, replica, base_offset)
        )


def txn_indexes(folder: Path) -> list[tuple[int, Path]]:
    """(base offset, path) of each index that counts, by offset."""
    path_by_offset = dict(names.Suffix.TXN_INDEX.files_in(folder))
    files = replica_files(folder).segments
    indexes_of_segments = {
        segment.base_offset: segment.txn_index for segment in files if segment.txn_index is not None
    }
    return sorted({**path_by_offset, **indexes_of_segments}.items())


def _rows_of_aborted(path: Path, job: TableJob) -> Iterator[AbortedRow]:
    try:
        for aborted_txn in txn_index.decode(RegularFile(path).read(), error_prefix=str(path)):
            if job.producer_ids is None or aborted_txn.producer_id in job.producer_ids:
                yield AbortedRow(
                    producer_id=aborted_txn.producer_id,
                    first_offset=aborted_txn.first_offset,
                    marker_offset=aborted_txn.last_offset,
                    last_stable_offset=aborted_txn.last_stable_offset,
                )
    except OSError as error:
        refuse_unreadable(error, str(path), job.options)
    except CorruptLogRecordError as error:
        refuse_file(path, str(error), job.options)


def leader_epochs(replica: Replica, job: TableJob) -> Iterator[Rows]:
    rows = _rows_of_leader_epochs(Path(replica.path), job)
    return rows_of_structs(rows, partial(replica_columns, replica))


def _rows_of_leader_epochs(folder: Path, job: TableJob) -> Iterator[LeaderEpochRow]:
    next(folder.iterdir(), None)  # a folder that is gone is not one without the file
    path = folder / names.FileName.LEADER_EPOCHS
    on_problem = partial(refuse_problem, options=job.options)
    for epoch, start_offset in read_small(path, checkpoints.decode_leader_epochs, on_problem) or ():
        yield LeaderEpochRow(leader_epoch=epoch, start_offset=start_offset)


def producer_state(replica: Replica, job: TableJob) -> Iterator[Rows]:
    rows = (
        row
        for row in _rows_of_producer_state(Path(replica.path), job)
        if job.producer_ids is None or row.producer_id in job.producer_ids
    )
    return rows_of_structs(rows, partial(replica_columns, replica))


def _rows_of_producer_state(folder: Path, job: TableJob) -> Iterator[ProducerRow]:
    snapshots = replica_files(folder).snapshots
    for offset, path in snapshots:
        try:
            entries = producer_snapshot.decode(RegularFile(path).read())
        except OSError as error:
            refuse_unreadable(error, str(path), job.options)
            continue
        except CorruptLogRecordError as error:
            refuse_file(path, str(error), job.options)
            continue  # a broker goes by an older one then
        for entry in entries:
            yield _producer_row(entry, offset, is_last=offset == snapshots[-1][0])


def _producer_row(entry: SnapshotEntry, offset: int, *, is_last: bool) -> ProducerRow:
    has_data = entry.last_offset >= 0
    return ProducerRow(
        snapshot_offset=offset,
        is_last=is_last,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence if has_data else None,
        last_offset=entry.last_offset if has_data else None,
        offset_delta=entry.offset_delta if has_data else None,
        last_timestamp_ms=none_if_negative(entry.timestamp),
        coordinator_epoch=none_if_negative(entry.coordinator_epoch),
        open_offset=none_if_negative(entry.txn_first_offset),
    )


def replica_rows(replica: Replica, job: TableJob, directory: LogDirectory) -> Iterator[Rows]:
    row = _replica_row(replica, directory, job)
    return rows_of_structs(iter([row]), partial(replica_columns, replica))


def log_directory_of(log_dir: Path, options: KafkaLogOptions) -> LogDirectory:
    """The small files of a log directory, decoded.

    Raises:
        CorruptLogFileError: A file is malformed, and the options don't ignore that.
    """
    on_problem = partial(refuse_problem, options=options)
    read_small(log_dir / names.FileName.META_PROPERTIES, MetaProperties.decode, on_problem)
    read_small(log_dir / names.FileName.RECOVERY_POINTS, checkpoints.decode_offsets, on_problem)
    return LogDirectory.read(log_dir, on_problem)


def _replica_row(replica: Replica, directory: LogDirectory, job: TableJob) -> ReplicaRow:
    folder, topic_partition = Path(replica.path), replica.topic_partition
    files = replica_files(folder)
    segments, snapshots = files.segments, files.snapshots
    first_offset = segments[0].base_offset if segments else None
    return ReplicaRow(
        directory=replica.path,
        cluster_id=directory.meta.cluster_id if directory.meta is not None else None,
        topic_id=topic_id_of(folder, partial(refuse_problem, options=job.options)),
        segments=len(segments),
        size_bytes=sum(size_of(segment.log) for segment in segments),
        first_segment_offset=first_offset,
        last_segment_offset=segments[-1].base_offset if segments else None,
        log_start_offset=max(
            (
                offset
                for offset in (directory.log_starts.get(topic_partition), first_offset)
                if offset is not None
            ),
            default=None,
        ),
        high_watermark=directory.high_watermarks.get(topic_partition),
        recovery_point=(directory.recovery_points or {}).get(topic_partition),
        last_snapshot_offset=snapshots[-1][0] if snapshots else None,
        is_clean=directory.is_clean,
    )
