"""The records of a segment, decompressed and decoded batch by batch, for the tables that look
inside of batches.

Memory is bounded by one batch: its decompressed size is bounded (``compression``), and its records
come one by one. A batch that differs from its header is reported, and the next one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.wire.batch import BatchHeader, Record
from txnsim.wire.compression import DECOMPRESSED_MAX
from txnsim.wire.records import iter_records
from txnsim_spark.scan import kernel
from txnsim_spark.scan.crcs import crcs_are_right, runs_of
from txnsim_spark.scan.pieces import Bytes, Ints, pieces_of
from txnsim_spark.scan.segments import SegmentDamage, SegmentFile
from txnsim_spark.tables._damage import checks_crcs, refuser_of, sound_rows, wrong_crc
from txnsim_spark.tables.rows import TableJob, rows_in_span

T = TypeVar("T")
OnDamage = Callable[[SegmentDamage], object]

STORED_BYTES_MAX: Final = DECOMPRESSED_MAX
"""Limit of the stored size of a batch; larger ones are not decoded."""


def decoded_batches(
    segment: SegmentFile, job: TableJob, on_damage: OnDamage
) -> Iterator[tuple[Ints, Iterator[Record]]]:
    """The batches of wanted producers in a segment: ``kernel.BATCH_COLUMNS`` of each, and its
    records in order, up to damage, which is reported. Records are valid until the next batch is
    taken.
    """
    for run_bytes, run_position, batch_run in chosen_runs(segment, job, on_damage):
        view = memoryview(run_bytes.data)
        for batch_columns in batch_run.T:
            batch_begin = int(batch_columns[kernel.POSITION]) - run_position
            stored_bytes = view[batch_begin : batch_begin + int(batch_columns[kernel.BATCH_SIZE])]
            yield batch_columns, _records_until_damage(stored_bytes, batch_columns, on_damage)


def _records_until_damage(
    stored_bytes: memoryview, batch_columns: Ints, on_damage: OnDamage
) -> Iterator[Record]:
    try:
        yield from iter_records(stored_bytes)
    except CorruptBatchError as error:
        on_damage(undecoded_batch_damage(batch_columns, str(error)))


def chosen_runs(
    segment: SegmentFile, job: TableJob, on_damage: OnDamage
) -> Iterator[tuple[Bytes, int, Ints]]:
    """(bytes, their position in the file, chosen batches in them): batches that fit into a piece
    together, or one larger batch. The bytes are valid until the next ones are taken.

    Args:
        segment: The segment.
        job: The job of the task.
        on_damage: Called with what is left out: a batch that is too large or whose CRC is wrong,
            messages of an old format, and the place where the segment becomes malformed.

    Raises:
        OSError: The file can't be read.
    """
    path = Path(segment.path)
    with pieces_of(path, end_position=segment.size) as piece_reader:
        for table in sound_rows(segment, on_damage):
            is_chosen = _choose_batches(segment, table, job)
            is_chosen &= _right_crcs(path, table, is_chosen, job, segment, on_damage)
            for run_begin, run_end in runs_of(table):
                batch_run, chosen_in_run = table[:, run_begin:run_end], is_chosen[run_begin:run_end]
                run_position = int(batch_run[kernel.POSITION, 0])
                run_size = (
                    int(batch_run[kernel.POSITION, -1] + batch_run[kernel.BATCH_SIZE, -1])
                    - run_position
                )
                if not chosen_in_run.any():
                    continue
                if run_size > STORED_BYTES_MAX:
                    reason = (
                        f"a batch of {run_size} bytes; at most {STORED_BYTES_MAX} are looked into"
                    )
                    on_damage(undecoded_batch_damage(batch_run[:, 0], reason))
                    continue
                run_bytes = np.frombuffer(
                    piece_reader.read_whole(run_position, run_size), dtype=np.uint8
                )
                yield (
                    run_bytes,
                    run_position,
                    batch_run if chosen_in_run.all() else batch_run[:, chosen_in_run],
                )


def decoded_records(segment: SegmentFile, job: TableJob) -> Iterator[tuple[Record, Ints]]:
    """Each data record with the columns of its batch (``decoded_batches``).

    Raises:
        CorruptLogFileError: Some records can't be decoded, and the options don't ignore that.
    """
    on_damage = refuser_of(segment, job)
    for batch_columns, records in decoded_batches(segment, job, on_damage):
        if not batch_columns[kernel.ATTRIBUTES] & BatchHeader.CONTROL:
            for record in records:
                yield record, batch_columns


def decode_or_problem(
    record: Record, decode: Callable[[bytes, bytes | None], T], unknown_reason: Callable[[], str]
) -> tuple[T | None, str | None]:
    """The decoded record of a coordinator's log, or the reason why it can't be decoded.

    Args:
        record: The record.
        decode: Decodes key and value; returns None if Kafka skips the record.
        unknown_reason: Returns the reason for that.
    """
    try:
        row = decode(record.key or b"", record.value)
    except CorruptLogRecordError as error:
        return None, str(error)
    return row, unknown_reason() if row is None else None


def _choose_batches(segment: SegmentFile, table: Ints, job: TableJob) -> Any:
    is_chosen = rows_in_span(table[kernel.BASE_OFFSET], segment)
    if job.producer_ids is not None:
        is_chosen &= np.isin(table[kernel.PRODUCER_ID], list(job.producer_ids))
    return is_chosen


def _right_crcs(
    path: Path,
    table: Ints,
    is_chosen: Any,
    job: TableJob,
    segment: SegmentFile,
    on_damage: OnDamage,
) -> Any:
    """Rows whose CRC is right, or not computed, as the options say. The CRCs of compressed batches
    are always computed, since a changed byte may give other records.
    """
    is_checked = is_chosen.copy()
    if not checks_crcs(segment, job):
        is_checked &= (table[kernel.ATTRIBUTES] & BatchHeader.COMPRESSION) != 0
    crc_is_right = np.ones(table.shape[1], dtype=np.bool_)
    if is_checked.any():
        crc_is_right[is_checked] = crcs_are_right(path, table[:, is_checked])
        for row in np.flatnonzero(~crc_is_right).tolist():
            on_damage(wrong_crc(table, row))
    return crc_is_right


def undecoded_batch_damage(batch_columns: Ints, reason: str) -> SegmentDamage:
    """The ``SegmentDamage`` of a batch whose records can't be decoded."""
    return SegmentDamage(
        position=int(batch_columns[kernel.POSITION]),
        size=int(batch_columns[kernel.BATCH_SIZE]),
        kind="records",
        reason=reason,
    )
