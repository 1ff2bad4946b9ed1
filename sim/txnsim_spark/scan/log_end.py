"""Tells the end of a log apart from damage. A broker appends to its active segment, so this segment
may end within a batch, or in zeros that were allocated in advance (``log.preallocate``, and file
systems after a loss of power). Kafka treats an incomplete batch as the end of the log wherever it
reads (FileLogInputStream.nextBatch returns null), and cuts both off when it starts
(LogSegment.recover). Everything else that is malformed is damage: bytes of a batch that was once
complete are missing or changed.

- A closed segment was finished before the next one began: it ends with its last batch.
- A broker that stopped in order has flushed whole batches and given back what was allocated.
- A wrong CRC is no end: the batch is there in full length.
- An apparently incomplete batch is no end if the index has a later batch: then its length field was
  changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from txnsim.wire.batch import BatchHeader
from txnsim_spark.scan.pieces import PieceReader, pieces_of
from txnsim_spark.scan.sections import has_batch_past
from txnsim_spark.scan.segments import SegmentDamage, SegmentFile

TORN: Final = "torn"
IMPOSSIBLE_LENGTH: Final = "length"


def is_log_end(segment: SegmentFile, damage: SegmentDamage) -> bool:
    """Whether the bytes after the last batch are the end of the log, so that no record is lost.

    Args:
        segment: The segment, up to its planned size.
        damage: The place where its batches end.

    Raises:
        OSError: The segment can't be read.
    """
    if segment.next_base_offset is not None or segment.is_clean:
        return False
    if damage.kind == TORN:
        return not has_batch_past(segment, damage.position)
    return damage.kind == IMPOSSIBLE_LENGTH and _ends_in_zeros(segment, damage.position)


def _ends_in_zeros(segment: SegmentFile, position: int) -> bool:
    with pieces_of(Path(segment.path)) as piece_reader:
        piece_start = position
        while piece_start < piece_reader.size:
            piece = piece_reader.read(piece_start)
            if piece.any():
                # A running broker may have appended a batch there since the walk stopped.
                return _has_batch_at(piece_reader, position)
            piece_start += len(piece)
    return True


def _has_batch_at(piece_reader: PieceReader, position: int) -> bool:
    header_bytes = bytes(piece_reader.read_whole(position, BatchHeader.SIZE))
    if (
        len(header_bytes) < BatchHeader.SIZE
        or header_bytes[BatchHeader.MAGIC_POSITION] != BatchHeader.MAGIC
    ):
        return False
    size = int.from_bytes(header_bytes[8:12], "big", signed=True) + BatchHeader.OVERHEAD
    return BatchHeader.SIZE <= size <= BatchHeader.BYTES_MAX
