"""Walks over one segment from its first batch to its last: rows of batches, of fragments, of ended
transactions.

Each walk yields tables of bounded size, so memory does not grow with the segment, with its batches
or with the number of its producers. When the table of fragments is full, its rows are yielded and a
new table begins. So a producer may have several fragments in one segment. They are merged like the
fragments of several segments, in order of ``FIRST_OFFSET``.

Where a segment stops making sense, the walk names the damage and ends: at that place a broker cuts
the log off when it recovers (LogSegment.recover). This walk does not compute CRCs, because that
means reading all bytes. A caller that has computed them (``crcs``) says ``until`` where the
file is to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from txnsim.wire.batch import BatchHeader
from txnsim.wire.old_messages import OldMessage
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.scan.log_dirs import ignore_problem
from txnsim_spark.scan.pieces import PIECE_BYTES, Bytes, Ints, PieceReader, pieces_of
from txnsim_spark.scan.segments import SegmentDamage

OnDamage = Callable[[SegmentDamage], object]


class OldRun(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of format 0 and 1 that follow each other."""

    position: int
    end_position: int
    """Position after the last message."""
    next_offset: int
    """Offset after the last message."""


OnOldRun = Callable[[OldRun], object]

_PRODUCERS_AT_FIRST: Final = 1 << 9


class ScanLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Memory limits of a scan."""

    piece_bytes: int = PIECE_BYTES
    rows_max: int = 1 << 14
    """Rows of a table of batches or endings; the default takes 2 MB."""
    fragments_max: int = 1 << 16
    """Number of fragments that are yielded at once; the default takes 13 MB."""


SCAN_LIMITS: Final = ScanLimits()


def batch_rows(
    path: Path,
    *,
    on_damage: OnDamage = ignore_problem,
    end_position: int | None = None,
    limits: ScanLimits = SCAN_LIMITS,
    on_old_run: OnOldRun | None = None,
    start: int = 0,
) -> Iterator[Ints]:
    """Tables of a segment's batches, ``kernel.BATCH_COLUMNS`` by rows. The caller may keep each.

    Args:
        path: The ``.log`` file.
        on_damage: Called with the place where the segment becomes malformed.
        end_position: Position where it ends.
        limits: Limits of memory.
        on_old_run: Called with messages of format 0 and 1, which are skipped, before the table of
            the batches after them.
        start: Position of the first batch.
    """
    with pieces_of(path, limits.piece_bytes, end_position=end_position) as piece_reader:
        position, row_count = start, 0
        stop_reason = kernel.AT_BUFFER_END
        rows = np.empty((kernel.BATCH_COLUMNS, limits.rows_max), dtype=np.int64)
        while position < piece_reader.size:
            piece = piece_reader.read(position)
            piece_offset = 0
            while True:
                row_count, piece_offset, stop_reason = kernel.scan_batches(
                    piece,
                    piece_offset,
                    len(piece),
                    piece_reader.size - position,
                    position,
                    rows,
                    row_count,
                )
                if stop_reason != kernel.TABLE_FULL:
                    break
                yield rows
                rows, row_count = np.empty_like(rows), 0
            position += piece_offset
            # A short message is less than a header of format 2.
            may_be_old = stop_reason in MAY_BE_OLD or not piece_offset
            if may_be_old and (old_run := old_run_at(piece_reader, position)) is not None:
                if on_old_run is not None:
                    on_old_run(old_run)
                position = old_run.end_position
            elif stop_reason != kernel.AT_BUFFER_END or not piece_offset:
                break
        if row_count:
            yield rows[:, :row_count]
        report_damage(piece_reader, position, stop_reason, on_damage)


def fragment_rows(
    path: Path,
    *,
    on_damage: OnDamage = ignore_problem,
    end_position: int | None = None,
    limits: ScanLimits = SCAN_LIMITS,
    start: int = 0,
) -> Iterator[Ints]:
    """Tables of what each producer did in a segment, rows by ``kernel_fragments.FRAGMENT_COLUMNS``.
    The caller may keep each. Arguments as of ``batch_rows``.
    """
    folding = FragmentFolding(limits)
    for _ in _fold_segment(path, folding, on_damage, end_position, limits, start=start):
        if folding.is_full:
            yield folding.take_fragments()
    if folding.fragment_count:
        yield folding.take_fragments()


def ending_rows(
    path: Path,
    *,
    on_damage: OnDamage = ignore_problem,
    end_position: int | None = None,
    limits: ScanLimits = SCAN_LIMITS,
) -> Iterator[Ints]:
    """Tables of transactions that ended in a segment, ``kernel_fragments.ENDING_COLUMNS`` by rows.
    The caller may keep each. A transaction that began before the last full table of fragments is
    known only by its end, as one that began in an earlier segment.
    """
    folding = FragmentFolding(limits)
    for ending_table in _fold_segment(path, folding, on_damage, end_position, limits):
        if ending_table.shape[1]:
            yield ending_table.copy()
        if folding.is_full:
            folding.take_fragments()


def damage_of(
    path: Path,
    *,
    end_position: int | None = None,
    limits: ScanLimits = SCAN_LIMITS,
    on_old_run: OnDamage | None = None,
) -> SegmentDamage | None:
    """The place where a segment becomes malformed; None if its last batch ends the file. Messages
    of format 0 and 1 are skipped and reported, too.
    """
    damages: list[SegmentDamage] = []
    report_old_run = None if on_old_run is None else lambda run: on_old_run(old_run_damage(run))
    for _ in batch_rows(
        path,
        on_damage=damages.append,
        end_position=end_position,
        limits=limits,
        on_old_run=report_old_run,
    ):
        pass
    return damages[0] if damages else None


def _fold_segment(
    path: Path,
    folding: FragmentFolding,
    on_damage: OnDamage,
    end_position: int | None,
    limits: ScanLimits,
    start: int = 0,
) -> Iterator[Ints]:
    """Fold a whole segment. Whenever a table may be full it yields the endings so far, which are
    valid for one step.
    """
    with pieces_of(path, limits.piece_bytes, end_position=end_position) as piece_reader:
        position = start
        stop_reason = kernel.AT_BUFFER_END
        while position < piece_reader.size:
            piece = piece_reader.read(position)
            piece_offset = 0
            while True:
                endings, piece_offset, stop_reason = folding.fold_piece(
                    piece, piece_offset, piece_reader.size - position, position
                )
                if endings.shape[1] or folding.is_full:
                    yield endings
                if stop_reason != kernel.TABLE_FULL:
                    break
            position += piece_offset
            # A short message is less than a header of format 2.
            may_be_old = stop_reason in MAY_BE_OLD or not piece_offset
            if may_be_old and (old_run := old_run_at(piece_reader, position)) is not None:
                position = old_run.end_position
            elif stop_reason != kernel.AT_BUFFER_END or not piece_offset:
                break
        report_damage(piece_reader, position, stop_reason, on_damage)


def old_run_damage(run: OldRun) -> SegmentDamage:
    """The damage that stands for messages of an old format, which no table can have as rows."""
    size = run.end_position - run.position
    reason = f"{size} bytes, messages of format 0 or 1, which are passed over"
    return SegmentDamage(position=run.position, size=size, kind="format", reason=reason)


def old_run_at(piece_reader: PieceReader, position: int) -> OldRun | None:
    """The complete and sound messages of format 0 and 1 from ``position`` on, which have no
    producer and are skipped; None if there are none.
    """
    end_position = position
    last_offset = -1
    while piece_reader.size - end_position > BatchHeader.MAGIC_POSITION:
        message_start = bytes(piece_reader.read_whole(end_position, BatchHeader.MAGIC_POSITION + 1))
        old_message = OldMessage.parse(message_start)
        if old_message is None or old_message.size > piece_reader.size - end_position:
            break
        if not old_message.is_sound(piece_reader.read_whole(end_position, old_message.size)):
            break
        last_offset = old_message.offset
        end_position += old_message.size
    if end_position == position:
        return None
    return OldRun(position=position, end_position=end_position, next_offset=last_offset + 1)


class FragmentFolding:
    """Fragments that grow with each piece, and a table of endings."""

    def __init__(self, limits: ScanLimits) -> None:
        self._producers_max = limits.fragments_max
        self._ending_table = np.empty((fk.ENDING_COLUMNS, limits.rows_max), dtype=np.int64)
        self._file_state = np.empty(2, dtype=np.int64)
        self.restart()

    def _begin_table(self, producer_room: int) -> None:
        slot_count = 1 << (2 * producer_room - 1).bit_length()
        self._hash_slots = np.full(slot_count, -1, dtype=np.int64)
        self._fragment_table = np.empty((producer_room, fk.FRAGMENT_COLUMNS), dtype=np.int64)
        self.fragment_count = 0

    @property
    def is_full(self) -> bool:
        """Whether the fragments must be taken before the walk continues."""
        return self.fragment_count == self._producers_max

    def restart(self) -> None:
        """Begin another segment, with a small empty table."""
        self._file_state[fk.HIGHEST_OFFSET] = -1
        self._begin_table(min(_PRODUCERS_AT_FIRST, self._producers_max))

    def take_fragments(self) -> Ints:
        """The fragments so far; the next ones go to a new table."""
        fragments = self._fragment_table[: self.fragment_count]
        self._begin_table(len(self._fragment_table))
        return fragments

    def fold_piece(
        self, piece: Bytes, start: int, file_end: int, position: int
    ) -> tuple[Ints, int, int]:
        """Fold a piece that begins at a position of the segment. Return the endings (valid until
        the next call), where it stopped and why.
        """
        if self.fragment_count == len(self._fragment_table):
            self._grow_table()
        self._file_state[fk.FILE_POSITION] = position
        self.fragment_count, ending_count, piece_offset, stop_reason = fk.scan_fragments(
            piece,
            start,
            len(piece),
            file_end,
            self._hash_slots,
            self._fragment_table,
            self.fragment_count,
            self._ending_table,
            self._file_state,
        )
        return self._ending_table[:, :ending_count], piece_offset, stop_reason

    def _grow_table(self) -> None:
        fragments, fragment_count = self._fragment_table, self.fragment_count
        self._begin_table(min(2 * len(fragments), self._producers_max))
        self._fragment_table[:fragment_count] = fragments
        self.fragment_count = fragment_count
        fk.enter_fragments(self._hash_slots, self._fragment_table, fragment_count)


MAY_BE_OLD: Final = frozenset({kernel.BAD_FORMAT, kernel.BAD_LENGTH})
"""What the walk reports at messages of format 0 and 1."""
_DAMAGE_REASONS: Final = {
    kernel.BAD_FORMAT: ("format", "a batch of another format than 2"),
    kernel.BAD_LENGTH: ("length", "a batch that claims an impossible length"),
    kernel.BATCH_CUT_OFF: ("torn", "less than the batch that begins there"),
    kernel.AT_BUFFER_END: ("torn", "less than a header"),
}


def report_damage(
    piece_reader: PieceReader, position: int, stop_code: int, on_damage: OnDamage
) -> None:
    """Report why a walk stopped at a position, unless the file ends there."""
    bytes_left = piece_reader.size - position
    if bytes_left > 0:
        damage_reason, reason = _DAMAGE_REASONS[stop_code]
        on_damage(
            SegmentDamage(
                position=position,
                size=bytes_left,
                kind=damage_reason,
                reason=f"{bytes_left} bytes, {reason}",
            )
        )
