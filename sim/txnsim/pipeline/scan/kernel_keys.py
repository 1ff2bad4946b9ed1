"""The keys of a segment's records, compiled: which key each record has, and how much of the file it
takes. Values are skipped.

It is for questions about keys alone, such as how much a compacted log still holds of each key.
Kafka's counterparts: DefaultRecord, DefaultRecordBatch.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from txnsim.pipeline.scan.kernel import compiled
from txnsim.wire.batch_header import HEADER_SIZE

# Columns of a table of records.
KEY_HASH: Final = 0
"""FNV-1a of 64 bits."""
KEY_AT: Final = 1
"""Position in the file of the key's first byte."""
KEY_SIZE: Final = 2
"""-1 for none."""
VALUE_SIZE: Final = 3
"""-1 for none: a tombstone."""
OFFSET: Final = 4
BYTES: Final = 5
"""That the record takes; of the first one in a batch with the batch's header."""
RECORD_COLUMNS: Final = 6

_FNV_START: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


@compiled
def varint(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """(value, where it ends) of the zigzag varint at ``at``; it ends behind ``end`` where it is not
    whole.
    """
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        byte = np.uint64(buffer[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            half = np.int64(value >> np.uint64(1))
            return int(-half - 1 if value & np.uint64(1) else half), at
        shift += np.uint64(7)
        if shift > np.uint64(63):
            break
    return 0, end + 1


@compiled
def key_rows(
    buffer: Any, base: int, starts: Any, sizes: Any, offsets: Any, rows: Any
) -> tuple[int, int]:
    """Fill ``rows`` with the records of uncompressed batches.

    Args:
        buffer: Bytes of a segment, as an array of uint8.
        base: Position in the file of ``buffer[0]``.
        starts: Where each batch begins, in the file.
        sizes: Of each batch.
        offsets: The first offset of each batch.
        rows: int64, ``RECORD_COLUMNS`` by as many records as there may be.

    Returns:
        How many rows are filled, and how many batches make no sense.
    """
    count = 0
    broken = 0
    for number in range(len(starts)):
        at = starts[number] - base + HEADER_SIZE
        end = starts[number] - base + sizes[number]
        head = HEADER_SIZE
        while at < end:
            begin = at
            length, at = varint(buffer, at, end)
            stop = at + length
            if length < 0 or at > end or stop > end or count == rows.shape[1]:
                broken += 1
                break
            _, at = varint(buffer, at + 1, stop)
            delta, at = varint(buffer, at, stop)
            size, at = varint(buffer, at, stop)
            if at > stop or size > stop - at:
                broken += 1
                break
            # Spelled out in uint64: numba makes a float of mixed signs.
            state = np.uint64(_FNV_START)
            for index in range(at, at + max(size, 0)):
                state = (state ^ np.uint64(buffer[index])) * np.uint64(_FNV_PRIME)
            value, _ = varint(buffer, at + max(size, 0), stop)
            rows[KEY_HASH, count] = np.int64(state)
            rows[KEY_AT, count] = base + at
            rows[KEY_SIZE, count] = size
            rows[VALUE_SIZE, count] = value
            rows[OFFSET, count] = offsets[number] + delta
            rows[BYTES, count] = stop - begin + head
            head = 0
            count += 1
            at = stop
    return count, broken
