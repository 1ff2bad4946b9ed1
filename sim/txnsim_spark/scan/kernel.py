"""The walk over the headers of a segment's batches, compiled: bytes in, columns out.

A batch says how long it is, so its headers form a chain that has to be followed from its beginning.
This module follows it at the speed of memory. It does not look at the bytes behind a header, except
for the one record of a control batch. So these bytes need not be in the buffer. A walk says where
the next batch begins, and its caller reads on from there. So a file is read in pieces of any size,
with batches of any size.

Kafka's counterparts: FileLogInputStream, DefaultRecordBatch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit

from txnsim.wire.batch import BatchHeader

P = ParamSpec("P")
R = TypeVar("R")

# numba knows no attributes of classes.
_HEADER_SIZE: Final = BatchHeader.SIZE
_OVERHEAD: Final = BatchHeader.OVERHEAD
_BYTES_MAX: Final = BatchHeader.BYTES_MAX
_MAGIC: Final = BatchHeader.MAGIC
_CONTROL_BIT: Final = BatchHeader.CONTROL


def compile_function(function: Callable[P, R]) -> Callable[P, R]:
    """The function as machine code, with its signature: by numba, without the interpreter's lock.

    numba compiles a function at its first call in a process (some seconds) and keeps the machine
    code: in ``NUMBA_CACHE_DIR`` if that is set, else in ``__pycache__`` beside the source, else
    below the user's cache directory. A worker that can't write to any of them, or has no room
    there, compiles again. It does not report that, and its answers are the same. numba compares
    only the file of a function with the kept code, and not the files of the functions that it
    calls. After a change of this module alone, empty the cache (CONTRIBUTING.md).
    """
    try:
        machine_code: Any = njit(cache=True, nogil=True)(function)
        machine_code._cache = _TolerantCache(machine_code._cache)
    except RuntimeError:  # "no locator available": nowhere to keep it
        machine_code = njit(nogil=True)(function)
    return cast("Callable[P, R]", machine_code)


def inline_function(function: Callable[P, R]) -> Callable[P, R]:
    """The function for compiled functions of the same module, which get its code in place of each
    call. A call costs more than what a function of a few lines does: numba hands over each field of
    an array, and asks for an exception behind it.
    """
    return cast("Callable[P, R]", njit(inline="always")(function))


class _TolerantCache:
    """numba's cache of a function. On a full disk it keeps nothing, and raises nothing: the error
    would be taken for one of the segment that is read.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def save_overload(self, signature: Any, machine_code: Any) -> None:
        """Save compiled code in the cache; ignore a folder that can't be written."""
        with suppress(OSError):
            self._cache.save_overload(signature, machine_code)


CONTROL_BATCH_BYTES_MIN: Final = 128
"""Bytes of a control batch that must be in the buffer; the whole batch of a marker has 78."""

# Columns of a table of batches.
POSITION: Final = 0
BATCH_SIZE: Final = 1
BASE_OFFSET: Final = 2
LAST_OFFSET: Final = 3
LEADER_EPOCH: Final = 4
CRC: Final = 5
ATTRIBUTES: Final = 6
BASE_TIMESTAMP: Final = 7
"""First timestamp; or the delete horizon, if the attributes say so (compaction)."""
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9
PRODUCER_EPOCH: Final = 10
BASE_SEQUENCE: Final = 11
RECORD_COUNT: Final = 12
CONTROL_TYPE: Final = 13
"""Type of the control record; -1 if the batch is no control batch, or is empty."""
COORDINATOR_EPOCH: Final = 14
BATCH_COLUMNS: Final = 15

# Why a walk stopped.
AT_BUFFER_END: Final = 0
"""The buffer ends in or before the next header."""
TABLE_FULL: Final = 1
"""The table has no room for another row."""
BAD_FORMAT: Final = 2
BAD_LENGTH: Final = 3
BATCH_CUT_OFF: Final = 4
"""A batch that claims to go on after the end of the file."""

NO_CONTROL: Final = -1


@compile_function
def be16(buffer: Any, position: int) -> int:
    value = (np.int64(buffer[position]) << 8) | np.int64(buffer[position + 1])
    return int(value - 0x10000 if value >= 0x8000 else value)


@compile_function
def be32(buffer: Any, position: int) -> int:
    value = (
        (np.int64(buffer[position]) << 24)
        | (np.int64(buffer[position + 1]) << 16)
        | (np.int64(buffer[position + 2]) << 8)
        | np.int64(buffer[position + 3])
    )
    return int(value - 0x100000000 if value >= 0x80000000 else value)


@compile_function
def be64(buffer: Any, position: int) -> int:
    return (be32(buffer, position) << 32) | (be32(buffer, position + 4) & 0xFFFFFFFF)


@compile_function
def skip_varint(buffer: Any, position: int, end: int) -> int:
    """The position after the varint at ``position``, at most ``end``."""
    while position < end and buffer[position] >= 0x80:
        position += 1
    return min(position + 1, end)


@compile_function
def control_record_at(buffer: Any, position: int, end: int) -> tuple[int, int]:
    """(type, coordinator epoch) of the control record of the batch at ``position``; (-1, -1) where
    it can't be read, (type, -1) of another kind than a marker.

    A record is length, attributes, timestamp delta, offset delta, key length, key (int16 version,
    int16 type), value length, value (int16 version, int32 coordinator epoch).
    """
    cursor = skip_varint(buffer, position + _HEADER_SIZE, end) + 1
    cursor = skip_varint(buffer, cursor, end)
    cursor = skip_varint(buffer, cursor, end)
    cursor = skip_varint(buffer, cursor, end)
    if cursor + 4 > end:
        return -1, -1
    control_type = be16(buffer, cursor + 2)
    cursor = skip_varint(buffer, cursor + 4, end)
    if control_type < 0 or control_type > 1 or cursor + 6 > end:
        return control_type, -1
    return control_type, be32(buffer, cursor + 2)


@compile_function
def batch_size_at(buffer: Any, position: int, end: int, file_end: int) -> tuple[int, int]:
    """(size, AT_BUFFER_END) of the batch at ``position``; (0, why) if it is not complete.

    Args:
        buffer: Bytes of a segment, as an array of uint8.
        position: Start of a batch.
        end: End of the bytes.
        file_end: End of the file, counted from the beginning of the buffer.
    """
    if position + _HEADER_SIZE > end:
        return 0, AT_BUFFER_END
    size = be32(buffer, position + 8) + _OVERHEAD
    if size < _HEADER_SIZE or size > _BYTES_MAX:
        return 0, BAD_LENGTH
    if buffer[position + 16] != _MAGIC:
        return 0, BAD_FORMAT
    if position + size > file_end:
        return 0, BATCH_CUT_OFF
    if buffer[position + 22] & _CONTROL_BIT and position + min(size, CONTROL_BATCH_BYTES_MIN) > end:
        return 0, AT_BUFFER_END
    return size, AT_BUFFER_END


@compile_function
def scan_batches(
    buffer: Any, start: int, end: int, file_end: int, file_position: int, rows: Any, count: int
) -> tuple[int, int, int]:
    """Fill ``rows`` with the batches that begin in ``buffer[start:end]``.

    Args:
        buffer: Bytes of a segment, as an array of uint8.
        start: Start of a batch.
        end: End of the bytes.
        file_end: End of the file, counted from the beginning of the buffer.
        file_position: Position in the file of ``buffer[0]``.
        rows: int64, ``BATCH_COLUMNS`` by the maximum number of batches.
        count: Number of rows that are filled already.

    Returns:
        The number of filled rows, the start of the next batch (after ``end`` if the last one is not
        complete), and why the walk stopped.
    """
    position = start
    row_limit = rows.shape[1]
    while True:
        size, stop_reason = batch_size_at(buffer, position, end, file_end)
        if size == 0:
            return count, position, stop_reason
        if count == row_limit:
            return count, position, TABLE_FULL
        base_offset = be64(buffer, position)
        attributes = be16(buffer, position + 21)
        record_count = be32(buffer, position + 57)
        rows[POSITION, count] = file_position + position
        rows[BATCH_SIZE, count] = size
        rows[BASE_OFFSET, count] = base_offset
        rows[LAST_OFFSET, count] = base_offset + be32(buffer, position + 23)
        rows[LEADER_EPOCH, count] = be32(buffer, position + 12)
        rows[CRC, count] = be32(buffer, position + 17) & 0xFFFFFFFF
        rows[ATTRIBUTES, count] = attributes
        rows[BASE_TIMESTAMP, count] = be64(buffer, position + 27)
        rows[MAX_TIMESTAMP, count] = be64(buffer, position + 35)
        rows[PRODUCER_ID, count] = be64(buffer, position + 43)
        rows[PRODUCER_EPOCH, count] = be16(buffer, position + 51)
        rows[BASE_SEQUENCE, count] = be32(buffer, position + 53)
        rows[RECORD_COUNT, count] = record_count
        rows[CONTROL_TYPE, count] = NO_CONTROL
        rows[COORDINATOR_EPOCH, count] = -1
        if attributes & _CONTROL_BIT and record_count > 0:
            control_type, coordinator_epoch = control_record_at(
                buffer, position, min(position + size, end)
            )
            rows[CONTROL_TYPE, count] = control_type
            rows[COORDINATOR_EPOCH, count] = coordinator_epoch
        count += 1
        position += size
