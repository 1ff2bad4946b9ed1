"""CRC-32C of batches: which of them are right. The compiled loop (``kernel_crc``) computes those of
small batches, a library those of large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import crc32c
import numpy as np

from txnsim.wire.batch import BatchHeader
from txnsim_spark.scan import kernel, kernel_crc
from txnsim_spark.scan.pieces import PIECE_BYTES, Bytes, Ints, PieceReader, pieces_of
from txnsim_spark.scan.segments import Damage

SMALL_BATCH_BYTES: Final = 1 << 10
"""Below, the compiled loop is quicker than a call of the library for each batch."""

Truths = np.ndarray[Any, np.dtype[np.bool_]]


def wrong_crc_in(table: Ints, number: int, until: int) -> Damage:
    """The damage that a batch of a wrong CRC is, one row of a table, up to the segment's end."""
    position = int(table[kernel.POSITION, number])
    return Damage(
        position=position,
        size=until - position,
        kind="crc",
        reason=f"the batch at offset {table[kernel.BASE_OFFSET, number]} has another CRC than it"
        " states",
    )


def crcs_are_right(path: Path, table: Ints) -> Truths:
    """For each row of a table of batches (``walk.batch_rows``), whether its CRC is right."""
    valid = np.empty(table.shape[1], dtype=np.bool_)
    with pieces_of(path) as file:
        for first, last in runs_of(table):
            if last - first == 1 and table[kernel.SIZE, first] > PIECE_BYTES:
                valid[first] = large_crc_of(file, table[:, first]) == table[kernel.CRC, first]
            else:
                valid[first:last] = _run_is_valid(file, table[:, first:last])
    return valid


def runs_of(table: Ints, *, bytes_max: int = PIECE_BYTES) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of rows within ``bytes_max``; a larger row stands alone."""
    positions, ends = table[kernel.POSITION], table[kernel.POSITION] + table[kernel.SIZE]
    first = 0
    while first < table.shape[1]:
        last = int(np.searchsorted(ends, positions[first] + bytes_max, side="right"))
        last = max(last, first + 1)
        yield first, last
        first = last


def _run_is_valid(file: PieceReader, run: Ints) -> Truths:
    start = int(run[kernel.POSITION, 0])
    return crcs_in(file.read(start), start, run)


def crcs_in(piece: Bytes, start: int, run: Ints) -> Truths:
    """For each row of a table of batches whether its CRC is right; False for those that are not in
    a piece up to their end.

    Args:
        piece: Bytes of the segment.
        start: Their position in the file.
        run: At least one row, none in front of the piece.
    """
    starts = run[kernel.POSITION] - (start - BatchHeader.CRC_START)
    sizes = run[kernel.SIZE] - BatchHeader.CRC_START
    stated = run[kernel.CRC]
    valid = np.zeros(run.shape[1], dtype=np.bool_)
    there = int(np.searchsorted(starts + sizes, len(piece), side="right"))  # the file may shrink
    if int(sizes.mean()) < SMALL_BATCH_BYTES:
        kernel_crc.check_crcs(piece, starts[:there], sizes[:there], stated[:there], valid)
        return valid
    view = memoryview(piece.data)
    for number in range(there):
        at = int(starts[number])
        valid[number] = crc32c.crc32c(view[at : at + int(sizes[number])]) == stated[number]
    return valid


def large_crc_of(file: PieceReader, row: Ints) -> int:
    """The CRC of a batch that is larger than a piece; a piece that was read before is gone."""
    at = int(row[kernel.POSITION]) + BatchHeader.CRC_START
    end = int(row[kernel.POSITION] + row[kernel.SIZE])
    crc = 0
    while at < end and len(piece := file.read(at)):
        crc = crc32c.crc32c(memoryview(piece.data)[: end - at], crc)
        at += len(piece)
    return crc
