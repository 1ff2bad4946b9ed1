"""The table ``errors``: the places where files become malformed, and why. It reads every kind of
file that other tables read. No error ends the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from txnsim.errors import CorruptLogRecordError
from txnsim.storage import checkpoints, names, producer_snapshot, txn_index
from txnsim.storage.metadata_files import MetaProperties, decode_partition_metadata
from txnsim.storage.regular_file import RegularFile
from txnsim.storage.replica_files import replica_files
from txnsim.wire.batch import BatchHeader
from txnsim_spark.options import CrcCheck
from txnsim_spark.scan import kernel
from txnsim_spark.scan.crcs import crcs_are_right
from txnsim_spark.scan.log_dirs import ignore_problem, read_small
from txnsim_spark.scan.pieces import Ints, ShorterFileError
from txnsim_spark.scan.segments import (
    Replica,
    SegmentDamage,
    SegmentFile,
    broker_of,
    path_and_reason,
)
from txnsim_spark.scan.walk import batch_rows, old_run_damage
from txnsim_spark.schemas import ErrorRow
from txnsim_spark.tables._damage import checks_crcs, wrong_crc
from txnsim_spark.tables._decoded import decoded_batches
from txnsim_spark.tables._small_files import txn_indexes
from txnsim_spark.tables.rows import (
    ArrayMaker,
    Rows,
    TableJob,
    constant_column,
    file_columns,
    null_column,
    rows_of_structs,
    segment_columns,
)

# Segments


def read(segment: SegmentFile, job: TableJob, cut_damage: SegmentDamage | None) -> Iterator[Rows]:
    """Rows of a segment's damage: what a broker would cut off, and malformed places."""
    return rows_of_structs(
        _segment_errors(segment, job, cut_damage), partial(segment_columns, segment)
    )


def _segment_errors(
    segment: SegmentFile, job: TableJob, cut_damage: SegmentDamage | None
) -> Iterator[ErrorRow]:
    path = Path(segment.path)
    try:
        old_damages: list[SegmentDamage] = []
        end_damages: list[SegmentDamage] = []
        for table in batch_rows(
            path,
            end_position=segment.size,
            on_damage=end_damages.append,
            on_old_run=lambda run: old_damages.append(old_run_damage(run)),
        ):
            yield from (
                _error_row(segment.path, damage) for damage in _wrong_crcs(segment, table, job)
            )
        yield from (_error_row(segment.path, damage) for damage in old_damages)
        if job.options.checks_records:
            yield from _undecodable_batches(segment, job)
        if cut_damage is not None:
            yield _error_row(segment.path, cut_damage, is_cut=True)
        else:
            yield from (_error_row(segment.path, damage) for damage in end_damages)
    except OSError as error:
        yield _unreadable_row(path, error, segment.size)


def _wrong_crcs(segment: SegmentFile, table: Ints, job: TableJob) -> Iterator[SegmentDamage]:
    """Wrong CRCs of the batches whose CRC any other table would have computed."""
    is_checked = np.full(table.shape[1], checks_crcs(segment, job))
    if not (segment.is_recovered and job.options.check_crc is CrcCheck.AUTO):
        is_checked |= (table[kernel.ATTRIBUTES] & BatchHeader.COMPRESSION) != 0
    if is_checked.any():
        checked_batches = table[:, is_checked]
        for row in np.flatnonzero(~crcs_are_right(Path(segment.path), checked_batches)).tolist():
            yield wrong_crc(checked_batches, row)


def _undecodable_batches(segment: SegmentFile, job: TableJob) -> Iterator[ErrorRow]:
    """Batches whose records can't be decoded, whatever their CRCs are."""
    damages: list[SegmentDamage] = []
    options = msgspec.structs.replace(job.options, check_crc=CrcCheck.NONE)
    for _, records in decoded_batches(
        segment, msgspec.structs.replace(job, options=options), damages.append
    ):
        for _ in records:
            pass
        yield from (
            _error_row(segment.path, damage) for damage in damages if damage.kind == "records"
        )
        damages.clear()
    yield from (_error_row(segment.path, damage) for damage in damages if damage.kind == "records")


def _error_row(file: str, damage: SegmentDamage, *, is_cut: bool = False) -> ErrorRow:
    return ErrorRow(
        file=file,
        kind=damage.kind,
        position=damage.position,
        size_bytes=damage.size,
        is_cut=is_cut,
        reason=damage.reason,
    )


# Small files


def read_replica(replica: Replica, job: TableJob) -> Iterator[Rows]:
    """The rows of a replica's files other than its segments."""
    del job
    for base_offset, rows in _replica_errors(Path(replica.path)):
        yield from rows_of_structs(rows, partial(file_columns, replica, base_offset))


def _replica_errors(folder: Path) -> Iterator[tuple[int | None, Iterator[ErrorRow]]]:
    """(segment, problem) for the files of a replica."""
    try:
        aborted_indexes = txn_indexes(folder)
        snapshots = replica_files(folder).snapshots
    except OSError as error:
        yield None, iter([_unreadable_row(folder, error, 0)])
        return
    for base_offset, path in aborted_indexes:
        yield base_offset, _txn_index_errors(path)
    for base_offset, path in snapshots:
        row_or_error = _file_errors(
            path, "snapshot", lambda data, _: producer_snapshot.decode(data)
        )
        yield base_offset, row_or_error
    epochs_file, metadata_file = (
        folder / names.FileName.LEADER_EPOCHS,
        folder / names.FileName.PARTITION_METADATA,
    )
    if epochs_file.exists():
        yield (
            None,
            _file_errors(epochs_file, "checkpoint", _decode_text(checkpoints.decode_leader_epochs)),
        )
    if metadata_file.exists():
        yield None, _file_errors(metadata_file, "metadata", _decode_text(decode_partition_metadata))


def read_log_dir(path: Path, job: TableJob) -> Iterator[Rows]:
    """The rows of the files at the top of a log directory."""
    del job

    def place_columns(count: int) -> dict[str, ArrayMaker]:
        return {
            "log_dir": constant_column(str(path), count),
            "broker": constant_column(broker_of(path), count),
            "topic": null_column(count),
            "partition": null_column(count),
            "segment_base_offset": null_column(count),
        }

    return rows_of_structs(_log_dir_errors(path), place_columns)


def read_problem(problem: str) -> Iterator[Rows]:
    """The row for a replica's folder that can't be listed, from a sentence that begins with its
    path.
    """
    path_text, reason = path_and_reason(problem)
    path = Path(path_text)
    directory = names.PartitionDirectory.parse(path)

    def place_columns(count: int) -> dict[str, ArrayMaker]:
        topic_partition = None if directory is None else directory.topic_partition
        return {
            "log_dir": constant_column(str(path.parent), count),
            "broker": constant_column(broker_of(path.parent), count),
            "topic": constant_column(
                None if topic_partition is None else topic_partition.topic, count
            ),
            "partition": constant_column(
                None if topic_partition is None else topic_partition.partition, count
            ),
            "segment_base_offset": null_column(count),
        }

    row = ErrorRow(file=path_text, kind="unreadable", size_bytes=0, reason=reason)
    return rows_of_structs(iter([row]), place_columns)


def _log_dir_errors(path: Path) -> Iterator[ErrorRow]:
    for file_name in names.FileName.checkpoints():
        if (path / file_name).exists():
            yield from _file_errors(
                path / file_name, "checkpoint", _decode_text(checkpoints.decode_offsets)
            )
    meta_file = path / names.FileName.META_PROPERTIES
    if meta_file.exists():
        yield from _file_errors(meta_file, "metadata", _decode_text(MetaProperties.decode))
    yield from _missing_replicas(path)


def _missing_replicas(path: Path) -> Iterator[ErrorRow]:
    """Replicas in the broker's checkpoints whose folders are missing."""
    checkpoint = path / names.FileName.HIGH_WATERMARKS
    recorded_offsets = read_small(checkpoint, checkpoints.decode_offsets, ignore_problem) or {}
    for topic_partition in sorted(recorded_offsets):
        folder = path / names.directory_name(topic_partition)
        if not folder.is_dir():
            yield ErrorRow(
                file=str(folder),
                kind="missing",
                size_bytes=0,
                reason=f"{names.FileName.HIGH_WATERMARKS} names it, and there is no such folder",
            )


Decode = Callable[[bytes, str], object]


def _decode_text(decode: Callable[..., object]) -> Decode:
    return lambda data, path: decode(data.decode(), error_prefix=path)


def _file_errors(path: Path, kind: str, decode: Decode) -> Iterator[ErrorRow]:
    """The error row of a file that can't be decoded as a whole; none if it can."""
    size_bytes = 0
    try:
        file_bytes = RegularFile(path).read()
        size_bytes = len(file_bytes)
        decode(file_bytes, str(path))
    except OSError as error:
        yield _unreadable_row(path, error, size_bytes)
    except (UnicodeDecodeError, CorruptLogRecordError) as error:
        yield ErrorRow(file=str(path), kind=kind, size_bytes=size_bytes, reason=str(error))


def _txn_index_errors(path: Path) -> Iterator[ErrorRow]:
    entry_count = size_bytes = 0
    try:
        file_bytes = RegularFile(path).read()
        size_bytes = len(file_bytes)
        for _ in txn_index.decode(file_bytes, error_prefix=str(path)):
            entry_count += 1
    except OSError as error:
        yield _unreadable_row(path, error, size_bytes)
    except CorruptLogRecordError as error:
        position = entry_count * txn_index.ENTRY_BYTES
        yield ErrorRow(
            file=str(path),
            kind="txn_index",
            position=position,
            size_bytes=size_bytes - position,
            reason=str(error),
        )


def _unreadable_row(path: Path, error: OSError, size_bytes: int) -> ErrorRow:
    kind = "unreadable"
    if isinstance(error, FileNotFoundError):
        kind = "missing"
    elif isinstance(error, ShorterFileError):
        kind = "short"
    reason = error.strerror or str(error)
    return ErrorRow(file=str(path), kind=kind, size_bytes=size_bytes, reason=reason)
