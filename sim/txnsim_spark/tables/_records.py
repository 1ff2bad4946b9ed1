"""The table ``records``: every record, decompressed and decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch import BatchHeader
from txnsim.wire.compression import decompress
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_records as kr
from txnsim_spark.scan.pieces import Bytes, Ints
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.tables._batches import header_columns
from txnsim_spark.tables._damage import refuser_of
from txnsim_spark.tables._decoded import OnDamage, chosen_runs, undecoded_batch_damage
from txnsim_spark.tables.arrays import list_array, piece_array, repeat_value, struct_array
from txnsim_spark.tables.rows import (
    ROWS_MAX,
    ArrayMaker,
    Rows,
    TableJob,
    integer_column,
    segment_columns,
)

BYTES_MAX: Final = 8 << 20
"""Approximate limit of the bytes of keys and values in a batch of rows."""


def read(segment: SegmentFile, job: TableJob) -> Iterator[Rows]:
    on_damage = refuser_of(segment, job)
    for run_bytes, run_position, batch_run in chosen_runs(segment, job, on_damage):
        for buffer, starts, ends, batches in _unpack_batches(
            run_bytes, run_position, batch_run, on_damage
        ):
            yield from _decode_records(segment, buffer, starts, ends, batches, on_damage)


def _unpack_batches(
    run_bytes: Bytes, run_position: int, batch_run: Ints, on_damage: OnDamage
) -> Iterator[tuple[Bytes, Ints, Ints, Ints]]:
    """(bytes, start and end of each batch's records in them, the batches): a whole run if nothing
    is compressed, else batches of some megabytes together.
    """
    starts = batch_run[kernel.POSITION] - run_position + BatchHeader.SIZE
    batch_ends = batch_run[kernel.POSITION] - run_position + batch_run[kernel.BATCH_SIZE]
    codecs = batch_run[kernel.ATTRIBUTES] & BatchHeader.COMPRESSION
    if not codecs.any():
        yield run_bytes, starts, batch_ends, batch_run
        return
    view = memoryview(run_bytes.data)
    first_batch_number, payload_bytes = 0, 0
    payloads: list[bytes] = []
    for batch_number in range(batch_run.shape[1]):
        packed_bytes = view[starts[batch_number] : batch_ends[batch_number]]
        payload = _payload(
            int(codecs[batch_number]), packed_bytes, batch_run[:, batch_number], on_damage
        )
        if payloads and payload_bytes + len(payload) > BYTES_MAX:
            yield (*_join_payloads(payloads), batch_run[:, first_batch_number:batch_number])
            first_batch_number, payload_bytes, payloads = batch_number, 0, []
        payloads.append(payload)
        payload_bytes += len(payload)
    yield (*_join_payloads(payloads), batch_run[:, first_batch_number:])


def _payload(codec: int, packed_bytes: memoryview, batch: Ints, on_damage: OnDamage) -> bytes:
    try:
        return decompress(codec, bytes(packed_bytes))
    except CorruptBatchError as error:
        on_damage(undecoded_batch_damage(batch, str(error)))
        return b""


def _join_payloads(payloads: Sequence[bytes]) -> tuple[Bytes, Ints, Ints]:
    payload_ends = np.cumsum([len(payload) for payload in payloads])
    return (
        np.frombuffer(b"".join(payloads), dtype=np.uint8),
        payload_ends - [len(payload) for payload in payloads],
        payload_ends,
    )


def _decode_records(
    segment: SegmentFile,
    buffer: Bytes,
    start_positions: Ints,
    end_positions: Ints,
    batches: Ints,
    on_damage: OnDamage,
) -> Iterator[Rows]:
    resume_point = np.zeros(3, dtype=np.int64)
    record_counts = batches[kernel.RECORD_COUNT]
    decoded_counts = np.zeros(len(start_positions), dtype=np.int64)
    while resume_point[0] < len(start_positions):
        rows = kr.empty_record_table(ROWS_MAX)
        row_count = kr.record_rows(
            buffer, start_positions, end_positions, record_counts, resume_point, rows, BYTES_MAX
        )
        if row_count:
            decoded_counts += np.bincount(
                rows[:row_count, kr.BATCH_NUMBER], minlength=len(start_positions)
            )
            yield _record_rows(segment, buffer, rows[:row_count], batches)
    for batch_number in np.flatnonzero(decoded_counts < record_counts):
        reason = (
            f"{decoded_counts[batch_number]} of the {record_counts[batch_number]} records"
            " that the batch claims"
        )
        on_damage(undecoded_batch_damage(batches[:, batch_number], reason))


def _record_rows(segment: SegmentFile, buffer: Bytes, records: Ints, batches: Ints) -> Rows:
    batch_numbers = records[:, kr.BATCH_NUMBER]
    first_batch, end_batch = int(batch_numbers[0]), int(batch_numbers[-1]) + 1
    # Nothing is copied where each batch has one record.
    batch_of_record = (
        batches[:, first_batch:end_batch]
        if end_batch - first_batch == len(records)
        else batches[:, batch_numbers]
    )
    offsets = batch_of_record[kernel.BASE_OFFSET] + records[:, kr.OFFSET_DELTA]
    return Rows(
        len(records),
        {
            **segment_columns(segment, len(records)),
            "offset": integer_column(offsets),
            "timestamp_ms": _timestamp_column(batch_of_record, records),
            "key": _bytes_column(buffer, records[:, kr.KEY_POSITION], records[:, kr.KEY_SIZE]),
            "value": _bytes_column(
                buffer, records[:, kr.VALUE_POSITION], records[:, kr.VALUE_SIZE]
            ),
            "headers": _headers_column(buffer, records),
            "sequence": _sequence_column(batch_of_record, offsets),
            "batch_base_offset": integer_column(batch_of_record[kernel.BASE_OFFSET]),
            "batch_position": integer_column(batch_of_record[kernel.POSITION]),
            **header_columns(batch_of_record),
        },
    )


def _bytes_column(buffer: Bytes, begins: Ints, sizes: Ints) -> ArrayMaker:
    return lambda arrow_type: piece_array(buffer, begins, sizes, arrow_type)


def _headers_column(buffer: Bytes, records: Ints) -> ArrayMaker:
    def make(arrow_type: pa.DataType) -> Any:
        header_count = int(records[:, kr.HEADER_COUNT].sum())
        if not header_count:
            return repeat_value((), len(records), arrow_type)
        header_bounds = np.empty((header_count, kr.HEADER_COLUMNS), dtype=np.int64)
        kr.header_rows(buffer, records, header_bounds)
        header_type = arrow_type.value_type
        header_keys = piece_array(
            buffer,
            header_bounds[:, kr.NAME_POSITION],
            header_bounds[:, kr.NAME_SIZE],
            header_type.field("key").type,
        )
        header_values = piece_array(
            buffer,
            header_bounds[:, kr.CONTENT_POSITION],
            header_bounds[:, kr.CONTENT_SIZE],
            header_type.field("value").type,
        )
        return list_array(
            struct_array([header_keys, header_values], header_type),
            records[:, kr.HEADER_COUNT],
            arrow_type,
        )

    return make


def _timestamp_column(batch_of_record: Ints, records: Ints) -> ArrayMaker:
    """The time of each record; that of its batch where the broker set it."""

    def make(arrow_type: pa.DataType) -> Any:
        is_appended = (batch_of_record[kernel.ATTRIBUTES] & BatchHeader.LOG_APPEND_TIME) != 0
        create_times = batch_of_record[kernel.BASE_TIMESTAMP] + records[:, kr.TIME_DELTA]
        timestamps = np.where(is_appended, batch_of_record[kernel.MAX_TIMESTAMP], create_times)
        return integer_column(timestamps)(arrow_type)

    return make


def _sequence_column(batch_of_record: Ints, offsets: Ints) -> ArrayMaker:
    """The sequence of each record; after the largest int32 they begin again at 0
    (incrementSequence).
    """

    def make(arrow_type: pa.DataType) -> Any:
        base_sequences = batch_of_record[kernel.BASE_SEQUENCE]
        sequences = (
            base_sequences + offsets - batch_of_record[kernel.BASE_OFFSET]
        ) & BatchHeader.SEQUENCE_MAX
        return integer_column(sequences, absent_value=base_sequences < 0)(arrow_type)

    return make
