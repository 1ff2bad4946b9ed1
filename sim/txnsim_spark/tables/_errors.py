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
from txnsim_spark.scan.segments import Damage, Replica, SegmentFile, broker_of
from txnsim_spark.scan.walk import batch_rows, old_run_damage
from txnsim_spark.schemas import ErrorRow
from txnsim_spark.tables._damage import checks_crcs, wrong_crc
from txnsim_spark.tables._decoded import decoded_batches
from txnsim_spark.tables._small_files import txn_indexes
from txnsim_spark.tables.rows import (
    ArrayMaker,
    Rows,
    TableJob,
    constant,
    nothing,
    of_file,
    of_segment,
    of_structs,
)

# Segments


def read(segment: SegmentFile, job: TableJob, cut: Damage | None) -> Iterator[Rows]:
    """Rows of a segment's damage: what a broker would cut off, and malformed places."""
    return of_structs(_of_segment(segment, job, cut), partial(of_segment, segment))


def _of_segment(segment: SegmentFile, job: TableJob, cut: Damage | None) -> Iterator[ErrorRow]:
    path = Path(segment.path)
    try:
        old: list[Damage] = []
        ends: list[Damage] = []
        for table in batch_rows(
            path,
            end_position=segment.size,
            on_damage=ends.append,
            on_old_run=lambda run: old.append(old_run_damage(run)),
        ):
            yield from (_row(segment.path, damage) for damage in _wrong_crcs(segment, table, job))
        yield from (_row(segment.path, damage) for damage in old)
        if job.options.check_records:
            yield from _undecodable(segment, job)
        if cut is not None:
            yield _row(segment.path, cut, is_cut=True)
        else:
            yield from (_row(segment.path, damage) for damage in ends)
    except OSError as error:
        yield _unreadable(path, error, segment.size)


def _wrong_crcs(segment: SegmentFile, table: Ints, job: TableJob) -> Iterator[Damage]:
    """Wrong CRCs of the batches whose CRC any other table would have computed."""
    is_checked = np.full(table.shape[1], checks_crcs(segment, job))
    if not (segment.is_recovered and job.options.check_crc is CrcCheck.AUTO):
        is_checked |= (table[kernel.ATTRIBUTES] & BatchHeader.COMPRESSION) != 0
    if is_checked.any():
        chosen = table[:, is_checked]
        for number in np.flatnonzero(~crcs_are_right(Path(segment.path), chosen)).tolist():
            yield wrong_crc(chosen, number)


def _undecodable(segment: SegmentFile, job: TableJob) -> Iterator[ErrorRow]:
    """Batches whose records can't be decoded, whatever their CRCs are."""
    damages: list[Damage] = []
    options = msgspec.structs.replace(job.options, check_crc=CrcCheck.NONE)
    for _, records in decoded_batches(
        segment, msgspec.structs.replace(job, options=options), damages.append
    ):
        for _ in records:
            pass
        yield from (_row(segment.path, damage) for damage in damages if damage.kind == "records")
        damages.clear()
    yield from (_row(segment.path, damage) for damage in damages if damage.kind == "records")


def _row(file: str, damage: Damage, *, is_cut: bool = False) -> ErrorRow:
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
    for base_offset, rows in _of_replica(Path(replica.path)):
        yield from of_structs(rows, partial(of_file, replica, base_offset))


def _of_replica(folder: Path) -> Iterator[tuple[int | None, Iterator[ErrorRow]]]:
    """(segment, problem) for the files of a replica."""
    try:
        aborted = txn_indexes(folder)
        snapshots = replica_files(folder).snapshots
    except OSError as error:
        yield None, iter([_unreadable(folder, error, 0)])
        return
    for base_offset, path in aborted:
        yield base_offset, _of_txn_index(path)
    for base_offset, path in snapshots:
        row_or_error = _of_file(path, "snapshot", lambda data, _: producer_snapshot.decode(data))
        yield base_offset, row_or_error
    epochs, metadata = (
        folder / names.FileName.LEADER_EPOCHS,
        folder / names.FileName.PARTITION_METADATA,
    )
    if epochs.exists():
        yield None, _of_file(epochs, "checkpoint", _text(checkpoints.decode_leader_epochs))
    if metadata.exists():
        yield None, _of_file(metadata, "metadata", _text(decode_partition_metadata))


def read_log_dir(path: Path, job: TableJob) -> Iterator[Rows]:
    """The rows of the files at the top of a log directory."""
    del job

    def place_columns(count: int) -> dict[str, ArrayMaker]:
        return {
            "log_dir": constant(str(path), count),
            "broker": constant(broker_of(path), count),
            "topic": nothing(count),
            "partition": nothing(count),
            "segment_base_offset": nothing(count),
        }

    return of_structs(_of_log_dir(path), place_columns)


def read_problem(problem: str) -> Iterator[Rows]:
    """The row for a replica's folder that can't be listed, from a sentence that begins with its
    path.
    """
    name, _, reason = problem.partition(": ")
    path = Path(name)
    named = names.PartitionDirectory.parse(path)

    def place_columns(count: int) -> dict[str, ArrayMaker]:
        whose = None if named is None else named.topic_partition
        return {
            "log_dir": constant(str(path.parent), count),
            "broker": constant(broker_of(path.parent), count),
            "topic": constant(None if whose is None else whose.topic, count),
            "partition": constant(None if whose is None else whose.partition, count),
            "segment_base_offset": nothing(count),
        }

    row = ErrorRow(file=name, kind="unreadable", size_bytes=0, reason=reason)
    return of_structs(iter([row]), place_columns)


def _of_log_dir(path: Path) -> Iterator[ErrorRow]:
    for name in names.FileName.checkpoints():
        if (path / name).exists():
            yield from _of_file(path / name, "checkpoint", _text(checkpoints.decode_offsets))
    meta = path / names.FileName.META_PROPERTIES
    if meta.exists():
        yield from _of_file(meta, "metadata", _text(MetaProperties.decode))
    yield from _missing_replicas(path)


def _missing_replicas(path: Path) -> Iterator[ErrorRow]:
    """Replicas in the broker's checkpoints whose folders are missing."""
    checkpoint = path / names.FileName.HIGH_WATERMARKS
    noted = read_small(checkpoint, checkpoints.decode_offsets, ignore_problem) or {}
    for whose in sorted(noted):
        folder = path / names.directory_name(whose)
        if not folder.is_dir():
            yield ErrorRow(
                file=str(folder),
                kind="missing",
                size_bytes=0,
                reason=f"{names.FileName.HIGH_WATERMARKS} names it, and there is no such folder",
            )


Decode = Callable[[bytes, str], object]


def _text(decode: Callable[..., object]) -> Decode:
    return lambda data, path: decode(data.decode(), place=path)


def _of_file(path: Path, kind: str, decode: Decode) -> Iterator[ErrorRow]:
    """The error row of a file that can't be decoded as a whole; none if it can."""
    size = 0
    try:
        data = RegularFile(path).read()
        size = len(data)
        decode(data, str(path))
    except OSError as error:
        yield _unreadable(path, error, size)
    except (UnicodeDecodeError, CorruptLogRecordError) as error:
        yield ErrorRow(file=str(path), kind=kind, size_bytes=size, reason=str(error))


def _of_txn_index(path: Path) -> Iterator[ErrorRow]:
    entries = size = 0
    try:
        data = RegularFile(path).read()
        size = len(data)
        for _ in txn_index.decode(data, place=str(path)):
            entries += 1
    except OSError as error:
        yield _unreadable(path, error, size)
    except CorruptLogRecordError as error:
        position = entries * txn_index.ENTRY_BYTES
        yield ErrorRow(
            file=str(path),
            kind="txn_index",
            position=position,
            size_bytes=size - position,
            reason=str(error),
        )


def _unreadable(path: Path, error: OSError, size: int) -> ErrorRow:
    kind = "unreadable"
    if isinstance(error, FileNotFoundError):
        kind = "missing"
    elif isinstance(error, ShorterFileError):
        kind = "short"
    reason = error.strerror or str(error)
    return ErrorRow(file=str(path), kind=kind, size_bytes=size, reason=reason)
