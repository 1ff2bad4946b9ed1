"""What a starting broker would cut off: after a stop out of order, a part of the log has to be
checked byte by byte.

The check begins at the recovery point and goes on in order. The first batch that is torn, or whose
CRC is wrong, ends the log: the rest of its segment and all later segments are removed. Nothing is
removed here, but readers do not see what lies behind. Kafka's counterparts: LogLoader.recoverLog,
LogSegment.recover.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import crc32c
import msgspec
import numpy as np

from txnsim.pipeline.scan import kernel, kernel_crc
from txnsim.pipeline.scan.pieces import PIECE_BYTES, Bytes, Ints, PieceReader, pieces_of
from txnsim.pipeline.scan.segments import CutOff, Replica, SegmentFile
from txnsim.pipeline.scan.walk import Damage, batch_rows
from txnsim.wire.batch_header import CRC_START

SMALL_BATCH_BYTES: Final = 1 << 10
"""Below, the compiled loop is quicker than a call of the library for each batch."""

_BEHIND: Final = CutOff(position=0, kind="behind", reason="an earlier segment is cut")

Truths = np.ndarray[Any, np.dtype[np.bool_]]


def cut_short(
    segments: Iterable[SegmentFile], *, is_cut: bool = True
) -> Iterator[tuple[SegmentFile, Damage | None]]:
    """Segments as they are once a broker has started: (what is left, what goes and why).

    Args:
        segments: In order; those of a replica that are gone through are all there.
        is_cut: Without, they stay as they are.
    """
    ended: Replica | None = None
    for segment in segments:
        if not is_cut or not segment.is_recovered:
            yield segment, None
            continue
        if segment.is_looked_through:
            cut = segment.cut
        else:
            cut = _BEHIND if segment.replica == ended else _cut_of(segment)
        if cut is None:
            yield segment, None
            continue
        ended = segment.replica
        size = segment.size - cut.position
        damage = Damage(position=cut.position, size=size, kind=cut.kind, reason=cut.reason)
        yield msgspec.structs.replace(segment, size=cut.position), damage


def looked_through(segments: Sequence[SegmentFile]) -> list[SegmentFile]:
    """The segments of a replica; of those that a starting broker goes through it is known from now
    on what it cuts. All cores of this machine look for it, so that tasks need not wait for others.
    """
    sought = [one for one in segments if one.is_recovered]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # what is compiled lets other threads run
        cuts = dict(zip(sought, pool.map(_cut_of, sought), strict=True))
    ended = False
    found: list[SegmentFile] = []
    for segment in segments:
        if segment.is_recovered:
            cut = _BEHIND if ended else cuts[segment]
            ended = cut is not None
            segment = msgspec.structs.replace(segment, is_looked_through=True, cut=cut)
        found.append(segment)
    return found


def _cut_of(segment: SegmentFile) -> CutOff | None:
    """Where a broker cuts a segment; also None where that can't be read, as others will notice."""
    try:
        damage = damage_behind(Path(segment.path), until=segment.size)
    except OSError:
        return None
    if damage is None:
        return None
    return CutOff(position=damage.position, kind=damage.kind, reason=damage.reason)


def damage_behind(path: Path, *, until: int) -> Damage | None:
    """The first place in a segment, of which there is so much, where recovery would cut; None where
    everything is sound.
    """
    torn: list[Damage] = []
    for table in batch_rows(path, on_damage=torn.append, until=until):
        wrong = np.flatnonzero(~crcs_are_right(path, table))
        if len(wrong):
            return wrong_crc_in(table, int(wrong[0]), until)
    return torn[0] if torn else None


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
    """(first, last + 1) of rows that fit into so many bytes; of one row where it is larger."""
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
    starts = run[kernel.POSITION] - (start - CRC_START)
    sizes = run[kernel.SIZE] - CRC_START
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
    at = int(row[kernel.POSITION]) + CRC_START
    end = int(row[kernel.POSITION] + row[kernel.SIZE])
    crc = 0
    while at < end and len(piece := file.read(at)):
        crc = crc32c.crc32c(memoryview(piece.data)[: end - at], crc)
        at += len(piece)
    return crc
