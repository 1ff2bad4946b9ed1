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
from txnsim_spark.scan.segments import SegmentDamage

SMALL_BATCH_BYTES: Final = 1 << 10
"""For smaller batches the compiled loop is quicker than a call of the library for each."""

Truths = np.ndarray[Any, np.dtype[np.bool_]]


def wrong_crc_in(table: Ints, row: int, segment_end: int) -> SegmentDamage:
    """The damage by a batch with a wrong CRC (one row of a table), up to the segment's end."""
    position = int(table[kernel.POSITION, row])
    return SegmentDamage(
        position=position,
        size=segment_end - position,
        kind="crc",
        reason=f"the batch at offset {table[kernel.BASE_OFFSET, row]} has another CRC than it"
        " states",
    )


def crcs_are_right(path: Path, table: Ints) -> Truths:
    """For each row of a table of batches (``walk.batch_rows``), whether its CRC is right."""
    crc_is_right = np.empty(table.shape[1], dtype=np.bool_)
    with pieces_of(path) as piece_reader:
        for first_row, end_row in runs_of(table):
            if end_row - first_row == 1 and table[kernel.BATCH_SIZE, first_row] > PIECE_BYTES:
                crc_is_right[first_row] = (
                    large_crc_of(piece_reader, table[:, first_row]) == table[kernel.CRC, first_row]
                )
            else:
                crc_is_right[first_row:end_row] = _crcs_of_run_are_right(
                    piece_reader, table[:, first_row:end_row]
                )
    return crc_is_right


def runs_of(table: Ints, *, bytes_max: int = PIECE_BYTES) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of consecutive rows whose batches have at most ``bytes_max`` together; a
    larger batch stands alone.
    """
    positions, end_positions = (
        table[kernel.POSITION],
        table[kernel.POSITION] + table[kernel.BATCH_SIZE],
    )
    first_row = 0
    while first_row < table.shape[1]:
        end_row = int(
            np.searchsorted(end_positions, positions[first_row] + bytes_max, side="right")
        )
        end_row = max(end_row, first_row + 1)
        yield first_row, end_row
        first_row = end_row


def _crcs_of_run_are_right(piece_reader: PieceReader, batch_rows: Ints) -> Truths:
    start = int(batch_rows[kernel.POSITION, 0])
    return crcs_in(piece_reader.read(start), start, batch_rows)


def crcs_in(piece: Bytes, piece_start: int, batch_rows: Ints) -> Truths:
    """For each row of a table of batches whether its CRC is right; False for those that are not in
    a piece up to their end.

    Args:
        piece: Bytes of the segment.
        piece_start: Their position in the file.
        batch_rows: At least one row, none in front of the piece.
    """
    crc_positions = batch_rows[kernel.POSITION] - (piece_start - BatchHeader.CRC_START)
    checked_sizes = batch_rows[kernel.BATCH_SIZE] - BatchHeader.CRC_START
    stated_crcs = batch_rows[kernel.CRC]
    crc_is_right = np.zeros(batch_rows.shape[1], dtype=np.bool_)
    # The file may shrink meanwhile: only batches that the piece holds in full count.
    whole_count = int(np.searchsorted(crc_positions + checked_sizes, len(piece), side="right"))
    if int(checked_sizes.mean()) < SMALL_BATCH_BYTES:
        kernel_crc.check_crcs(
            piece,
            crc_positions[:whole_count],
            checked_sizes[:whole_count],
            stated_crcs[:whole_count],
            crc_is_right,
        )
        return crc_is_right
    piece_view = memoryview(piece.data)
    for row in range(whole_count):
        crc_position = int(crc_positions[row])
        crc_is_right[row] = (
            crc32c.crc32c(piece_view[crc_position : crc_position + int(checked_sizes[row])])
            == stated_crcs[row]
        )
    return crc_is_right


def large_crc_of(piece_reader: PieceReader, row: Ints) -> int:
    """The CRC of a batch that is larger than a piece. It reads the batch again, which invalidates
    the piece read before.
    """
    position = int(row[kernel.POSITION]) + BatchHeader.CRC_START
    end = int(row[kernel.POSITION] + row[kernel.BATCH_SIZE])
    crc = 0
    while position < end and len(piece := piece_reader.read(position)):
        crc = crc32c.crc32c(memoryview(piece.data)[: end - position], crc)
        position += len(piece)
    return crc
