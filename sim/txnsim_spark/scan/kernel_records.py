"""Compiled functions that find the records of batches, and the key, value and headers of each.
Nothing is copied. A batch gives its records up to the first malformed one, as in ``wire.records``.
Kafka's counterpart: DefaultRecord.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from txnsim.wire.batch import Record
from txnsim.wire.records import VARINT_BYTES_MAX, VARLONG_BYTES_MAX
from txnsim_spark.scan.kernel import compile_function, inline_function
from txnsim_spark.scan.pieces import Ints

RECORD_BYTES_MIN: Final = Record.BYTES_MIN

# Columns of a table of records. Places are those in the buffer; a size of -1 is that of none.
BATCH_NUMBER: Final = 0
"""Number of the batch that the record is in."""
OFFSET_DELTA: Final = 1
TIME_DELTA: Final = 2
KEY_POSITION: Final = 3
KEY_SIZE: Final = 4
VALUE_POSITION: Final = 5
VALUE_SIZE: Final = 6
HEADERS_POSITION: Final = 7
HEADER_COUNT: Final = 8
RECORD_POSITION: Final = 9
RECORD_SIZE: Final = 10
"""Size of the record, the length field included."""
RECORD_COLUMNS: Final = 11

# Columns of a table of headers.
NAME_POSITION: Final = 0
NAME_SIZE: Final = 1
CONTENT_POSITION: Final = 2
CONTENT_SIZE: Final = 3
HEADER_COLUMNS: Final = 4

_MALFORMED: Final = -1


def empty_record_table(record_count: int) -> Ints:
    """An empty table for that number of records; each of its columns is contiguous."""
    return np.empty((record_count, RECORD_COLUMNS), dtype=np.int64, order="F")


@inline_function
def _read_varint(buffer: Any, position: int, end: int) -> tuple[int, int]:
    """(value, end position) of the zigzag varint at ``position``; the end is after ``end`` if it is
    cut off. Places are unsigned, as numba asks of signed ones whether they count from the end.
    """
    zigzag = np.uint64(0)
    shift = np.uint64(0)
    is_cut_off = True
    if position < end and buffer[np.uint64(position)] < 0x80:  # most are short
        zigzag = np.uint64(buffer[np.uint64(position)])
        position += 1
        is_cut_off = False
    while is_cut_off and position < end and shift <= np.uint64(63):
        byte = np.uint64(buffer[np.uint64(position)])
        position += 1
        zigzag |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
        is_cut_off = bool(byte >= np.uint64(0x80))
    value = np.int64(zigzag >> np.uint64(1)) ^ -np.int64(zigzag & np.uint64(1))
    return int(value), end + 1 if is_cut_off else position


@inline_function
def _read_short_varint(buffer: Any, position: int, end: int) -> tuple[int, int]:
    """(value, end position) of a varint of at most five bytes; ``_MALFORMED`` if it is that."""
    value, end_position = _read_varint(buffer, position, end)
    if end_position > end or end_position - position > VARINT_BYTES_MAX:
        return 0, _MALFORMED
    return value, end_position


@inline_function
def _find_sized_bytes(buffer: Any, position: int, end: int) -> tuple[int, int, int]:
    """(start, size, end) of the bytes at a position, which are preceded by their length."""
    size, bytes_begin = _read_short_varint(buffer, position, end)
    if bytes_begin == _MALFORMED:
        return 0, 0, _MALFORMED
    if size < 0:
        return bytes_begin, -1, bytes_begin
    if size > end - bytes_begin:
        return 0, 0, _MALFORMED
    return bytes_begin, size, bytes_begin + size


@inline_function
def _fill_record(buffer: Any, position: int, end: int, rows: Any, row: int) -> int:
    """Fill a row of a table with the record at a position; returns its end, or ``_MALFORMED``."""
    size, position = _read_short_varint(buffer, position, end)
    if position == _MALFORMED or size < 0 or size > end - position:
        return _MALFORMED
    record_end = position + size
    time_delta, end_position = _read_varint(buffer, position + 1, end)
    if end_position > end or end_position - position - 1 > VARLONG_BYTES_MAX:
        return _MALFORMED
    rows[row, TIME_DELTA] = time_delta
    rows[row, OFFSET_DELTA], position = _read_short_varint(buffer, end_position, end)
    if position == _MALFORMED:
        return _MALFORMED
    rows[row, KEY_POSITION], rows[row, KEY_SIZE], position = _find_sized_bytes(
        buffer, position, end
    )
    if position == _MALFORMED:
        return _MALFORMED
    rows[row, VALUE_POSITION], rows[row, VALUE_SIZE], position = _find_sized_bytes(
        buffer, position, end
    )
    if position == _MALFORMED:
        return _MALFORMED
    header_count, position = _read_short_varint(buffer, position, end)
    if position == _MALFORMED or header_count < 0 or header_count > record_end - position:
        return _MALFORMED
    rows[row, HEADERS_POSITION], rows[row, HEADER_COUNT] = position, header_count
    for _ in range(header_count):
        _, size, position = _find_sized_bytes(buffer, position, end)
        if position == _MALFORMED or size < 0:
            return _MALFORMED
        _, _, position = _find_sized_bytes(buffer, position, end)
        if position == _MALFORMED:
            return _MALFORMED
    return record_end if position == record_end else _MALFORMED


@compile_function
def record_rows(
    buffer: Any,
    start_positions: Any,
    end_positions: Any,
    record_counts: Any,
    resume_point: Any,
    rows: Any,
    bytes_max: int,
) -> int:
    """Fill ``rows`` with records, from where the last call ended.

    Args:
        buffer: The batches' records, unpacked, as an array of uint8.
        start_positions: Start of each batch's records.
        end_positions: End of each batch's records.
        record_counts: Number of records of each batch.
        resume_point: Number of a batch, number of a record in it, and its position; updated to the
            next record.
        rows: A table from ``empty_record_table``.
        bytes_max: Limit of the bytes of keys and values after which no more rows are filled.

    Returns:
        Number of filled rows; 0 at the end.
    """
    filled_rows = 0
    key_value_bytes = 0
    batch_number, record_number, position = resume_point[0], resume_point[1], resume_point[2]
    while batch_number < len(start_positions):
        end_position = end_positions[batch_number]
        if record_number == 0:
            position = start_positions[batch_number]
        if (
            end_position > len(buffer)
            or record_counts[batch_number] * RECORD_BYTES_MIN
            > end_position - start_positions[batch_number]
        ):
            record_number = record_counts[batch_number]
        while record_number < record_counts[batch_number]:
            if filled_rows == rows.shape[0] or key_value_bytes >= bytes_max:
                resume_point[0], resume_point[1], resume_point[2] = (
                    batch_number,
                    record_number,
                    position,
                )
                return filled_rows
            record_start = position
            position = _fill_record(buffer, record_start, end_position, rows, filled_rows)
            if position == _MALFORMED:
                break
            rows[filled_rows, BATCH_NUMBER] = batch_number
            rows[filled_rows, RECORD_POSITION], rows[filled_rows, RECORD_SIZE] = (
                record_start,
                position - record_start,
            )
            key_value_bytes += max(rows[filled_rows, KEY_SIZE], 0) + max(
                rows[filled_rows, VALUE_SIZE], 0
            )
            filled_rows += 1
            record_number += 1
        batch_number += 1
        record_number = 0
    resume_point[0], resume_point[1], resume_point[2] = batch_number, 0, 0
    return filled_rows


@compile_function
def header_rows(buffer: Any, records: Any, rows: Any) -> None:
    """Fill ``rows`` with the headers of records.

    Args:
        buffer: The buffer of the records.
        records: Rows of ``record_rows``.
        rows: int64, the number of all their headers by ``HEADER_COLUMNS``.
    """
    filled_rows = 0
    for record_number in range(len(records)):
        position = records[record_number, HEADERS_POSITION]
        for _ in range(records[record_number, HEADER_COUNT]):
            rows[filled_rows, NAME_POSITION], rows[filled_rows, NAME_SIZE], position = (
                _find_sized_bytes(buffer, position, len(buffer))
            )
            rows[filled_rows, CONTENT_POSITION], rows[filled_rows, CONTENT_SIZE], position = (
                _find_sized_bytes(buffer, position, len(buffer))
            )
            filled_rows += 1
