"""Examines a segment in one pass: computes every CRC, checks every offset, and sums up what each
producer did. A starting broker does the same after an unclean stop, from the recovery point on. The
first batch that is torn, or whose CRC is wrong, ends the log: the broker removes the rest of its
segment and all later segments. Nothing is removed here, but readers do not see the rest
(``cut_short``).

The segment is read piece by piece. A piece is examined while it is in the processor's cache: its
headers, its CRCs, and the fragments of its sound part. The memory is used again for the next
segment, because there are many small ones. Kafka's counterparts: LogLoader.recoverLog,
LogSegment.recover, ProducerStateManager.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from txnsim.wire.batch import COMMIT
from txnsim_spark.scan import kernel
from txnsim_spark.scan.crcs import crcs_in, large_crc_of, wrong_crc_in
from txnsim_spark.scan.pieces import Bytes, Ints, PieceReader, pieces_of
from txnsim_spark.scan.segments import Replica, SegmentDamage, SegmentFile
from txnsim_spark.scan.walk import (
    MAY_BE_OLD,
    SCAN_LIMITS,
    FragmentFolding,
    OldRun,
    ScanLimits,
    fragment_rows,
    old_run_at,
    report_damage,
)

GAPS_MAX: Final = 20
"""Limit of the gaps that are listed for a segment; those of the highest offsets are listed."""
NON_MARKER_CONTROLS_MAX: Final = 20
"""Limit of the control records that are listed; the first ones are listed."""


class SegmentExamination(msgspec.Struct, frozen=True, kw_only=True):
    """The first damage in a segment, its gaps, and the bounds of its sound batches."""

    damage: SegmentDamage | None
    """The first malformed batch or wrong CRC."""
    damaged_offset: int
    """Expected offset at the damage; without damage, the offset after the last batch."""
    gaps: tuple[tuple[int, int], ...]
    """(first missing offset, next offset that exists)."""
    non_marker_controls: tuple[tuple[int, int], ...] = ()
    """(position, type) of control records of a producer that are no markers."""
    is_torn: bool = False
    """Whether no batch can be read after the damage."""
    lowest_offset: int | None = None
    highest_offset: int | None = None
    """Highest offset in sound batches; None without batches."""


class Examiner:
    """Examines segments, one after the other.

    Args:
        limits: Limits of memory.
    """

    def __init__(self, limits: ScanLimits = SCAN_LIMITS) -> None:
        self._scan_limits = limits
        self._buffer = np.empty(limits.piece_bytes, dtype=np.uint8)
        self._rows = np.empty((kernel.BATCH_COLUMNS, limits.rows_max), dtype=np.int64)
        self._folding = FragmentFolding(limits)
        self._path = Path()
        self._start_position = self._end_position = 0
        self._crc_damage: SegmentDamage | None = None
        """Damage of the first wrong CRC."""
        self._is_folded = False
        """Whether the fragments of all sound batches are in ``_folding``."""

    def examine(
        self, path: Path, *, end_position: int, base_offset: int, start: int = 0
    ) -> SegmentExamination:
        """Examine a segment up to the first damage.

        Args:
            path: The ``.log`` file.
            end_position: Position where it ends.
            base_offset: Its base offset.
            start: Position of the first batch to examine.
        """
        self._path, self._start_position, self._end_position = path, start, end_position
        self._folding.restart()
        self._is_folded, self._crc_damage = True, None
        scan_state = _ScanState(base_offset, start)
        with pieces_of(
            path, len(self._buffer), end_position=end_position, buffer=self._buffer
        ) as piece_reader:
            torn_damage = self._scan_file(piece_reader, scan_state)
        sound_end = end_position if self._crc_damage is None else self._crc_damage.position
        return SegmentExamination(
            damage=self._crc_damage or torn_damage,
            damaged_offset=scan_state.next_offset_at(sound_end),
            gaps=tuple(scan_state.offset_gaps),
            non_marker_controls=tuple(scan_state.non_marker_controls),
            is_torn=torn_damage is not None,
            lowest_offset=scan_state.lowest_offset,
            highest_offset=scan_state.highest_offset,
        )

    def fragments(self, *, stops_at_damage: bool) -> Iterator[Ints]:
        """What each producer did in the segment that was examined last (``walk.fragment_rows``).

        Args:
            stops_at_damage: Whether only batches before the damage count; otherwise batches with a
                wrong CRC, and later ones, count, too.
        """
        end_position = self._end_position
        if self._crc_damage is not None and stops_at_damage:
            end_position = self._crc_damage.position
        elif self._crc_damage is not None:
            self._is_folded = False
        if not self._is_folded:
            yield from fragment_rows(
                self._path,
                end_position=end_position,
                limits=self._scan_limits,
                start=self._start_position,
            )
        elif self._folding.fragment_count:
            yield self._folding.take_fragments()

    def _scan_file(self, piece_reader: PieceReader, scan_state: _ScanState) -> SegmentDamage | None:
        """Scan up to a wrong CRC or to a place without a whole batch; return the damage there, if
        any.
        """
        position, stop_reason = self._start_position, kernel.AT_BUFFER_END
        while position < piece_reader.size:
            size_seen, stop_reason = self._scan_piece(piece_reader, position, scan_state)
            if self._crc_damage is not None:
                return None
            position += size_seen
            # A short message is less than a header of format 2.
            may_be_old = stop_reason in MAY_BE_OLD or not size_seen
            if may_be_old and (old_run := old_run_at(piece_reader, position)) is not None:
                scan_state.old_runs.append(old_run)
                position = old_run.end_position
            elif stop_reason != kernel.AT_BUFFER_END or not size_seen:
                break
        torn_damages: list[SegmentDamage] = []
        report_damage(piece_reader, position, stop_reason, torn_damages.append)
        return torn_damages[0] if torn_damages else None

    def _scan_piece(
        self, piece_reader: PieceReader, position: int, scan_state: _ScanState
    ) -> tuple[int, int]:
        """Scan a piece up to a wrong CRC; return the next position in it, and why it ended."""
        piece = piece_reader.read(position)
        piece_offset, stop_reason = 0, kernel.TABLE_FULL
        while stop_reason == kernel.TABLE_FULL and self._crc_damage is None:
            walk_start, file_end = piece_offset, piece_reader.size - position
            batch_count, piece_offset, stop_reason = kernel.scan_batches(
                piece, walk_start, len(piece), file_end, position, self._rows, 0
            )
            table = self._rows[:, :batch_count]
            if piece_offset > len(piece) and table[kernel.POSITION, -1] > position:
                # The next piece begins with the batch that this one cuts.
                piece_offset = int(table[kernel.POSITION, -1]) - position
                table = table[:, :-1]
            if not table.shape[1]:
                continue
            if piece_offset > len(piece):  # larger than a piece
                crc_is_right = np.array(
                    [large_crc_of(piece_reader, table[:, 0]) == table[kernel.CRC, 0]]
                )
                piece = piece_reader.read(position)
            else:
                crc_is_right = crcs_in(piece, position, table)
            if not crc_is_right.all():
                wrong_row = int(np.argmin(crc_is_right))
                self._crc_damage = wrong_crc_in(table, wrong_row, self._end_position)
                table = table[:, :wrong_row]
            if table.shape[1]:
                scan_state.add_batches(table)
                self._fold_piece(
                    piece[: scan_state.position - position], walk_start, file_end, position
                )
        return piece_offset, stop_reason

    def _fold_piece(
        self, sound_bytes: Bytes, piece_offset: int, file_end: int, position: int
    ) -> None:
        stop_reason = kernel.TABLE_FULL
        while (
            self._is_folded and stop_reason == kernel.TABLE_FULL and piece_offset < len(sound_bytes)
        ):
            _, piece_offset, stop_reason = self._folding.fold_piece(
                sound_bytes, piece_offset, file_end, position
            )
            if stop_reason == kernel.TABLE_FULL and self._folding.is_full:
                # So many producers are not kept: they are walked over once more, table by table.
                self._folding.restart()
                self._is_folded = False


class _ScanState:
    """The state of a scan up to a position; it counts sound batches only."""

    def __init__(self, expected_offset: int, position: int) -> None:
        self._offset = expected_offset
        """The offset that is expected at ``position``."""
        self.position = position
        self.old_runs: list[OldRun] = []
        """Messages of old formats at or after ``position``."""
        self.offset_gaps: list[tuple[int, int]] = []
        self.non_marker_controls: list[tuple[int, int]] = []
        self.lowest_offset: int | None = None
        self.highest_offset: int | None = None

    def add_batches(self, table: Ints) -> None:
        offset_behind_old = {old_run.end_position: old_run.next_offset for old_run in self.old_runs}
        self.offset_gaps += _find_gaps(table, self._offset, self.position, offset_behind_old)
        self.offset_gaps = sorted(self.offset_gaps)[-GAPS_MAX:]
        self.non_marker_controls += _non_marker_controls(table)[
            : NON_MARKER_CONTROLS_MAX - len(self.non_marker_controls)
        ]
        lowest_here = int(table[kernel.BASE_OFFSET].min())
        highest_here = int(table[kernel.LAST_OFFSET].max())
        self.lowest_offset = (
            lowest_here if self.lowest_offset is None else min(lowest_here, self.lowest_offset)
        )
        self.highest_offset = (
            highest_here if self.highest_offset is None else max(highest_here, self.highest_offset)
        )
        self._offset = int(table[kernel.LAST_OFFSET, -1]) + 1
        self.position = int(table[kernel.POSITION, -1] + table[kernel.BATCH_SIZE, -1])
        self.old_runs = [
            old_run for old_run in self.old_runs if old_run.end_position > self.position
        ]

    def next_offset_at(self, end_position: int) -> int:
        """The offset that is expected after the sound part: after the last batch, or after messages
        of old formats that follow it.
        """
        following_runs = [
            old_run for old_run in self.old_runs if self.position <= old_run.position < end_position
        ]
        return following_runs[-1].next_offset if following_runs else self._offset


def _non_marker_controls(table: Ints) -> list[tuple[int, int]]:
    """(position, type) of control records of producers that are no markers."""
    is_non_marker = (table[kernel.PRODUCER_ID] >= 0) & (table[kernel.CONTROL_TYPE] > COMMIT)
    return [
        (int(table[kernel.POSITION, row]), int(table[kernel.CONTROL_TYPE, row]))
        for row in np.flatnonzero(is_non_marker)
    ]


def _find_gaps(
    table: Ints, first_expected: int, position: int, offset_behind_old: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """(first missing offset, next offset) between batches, or between messages of old formats and
    the batch after them (``offset_behind_old``: position there -> offset that should follow).
    ``first_expected`` should follow at ``position``. Gaps in front of old messages are unknown: a
    compressed one has the offset of its last message.
    """
    base_offsets, positions = table[kernel.BASE_OFFSET], table[kernel.POSITION]
    expected_offsets = np.concatenate(([first_expected], table[kernel.LAST_OFFSET, :-1] + 1))
    previous_ends = np.concatenate(([position], (positions + table[kernel.BATCH_SIZE])[:-1]))
    for row in np.flatnonzero(positions != previous_ends):
        expected_offsets[row] = offset_behind_old[int(positions[row])]
    for row in np.flatnonzero(base_offsets > expected_offsets):
        yield int(expected_offsets[row]), int(base_offsets[row])


def _cut_before(segment: SegmentFile) -> SegmentDamage:
    reason = "an earlier segment is cut"
    offset = segment.base_offset
    return SegmentDamage(position=0, size=segment.size, kind="behind", reason=reason, offset=offset)


def cut_short(
    segments: Iterable[SegmentFile], *, applies_cuts: bool = True
) -> Iterator[tuple[SegmentFile, SegmentDamage | None]]:
    """(part that a broker's start keeps, damage) of each segment; the whole segment unless
    ``applies_cuts``.
    """
    cut_replica: Replica | None = None
    for segment in segments:
        cut_damage: SegmentDamage | None = None
        if applies_cuts and segment.is_cut_searched:
            cut_damage = segment.cut_damage
        elif applies_cuts and segment.is_recovered:
            cut_damage = (
                _cut_before(segment) if segment.replica == cut_replica else _cut_of(segment)
            )
        if cut_damage is None:
            yield segment, None
            continue
        cut_replica = segment.replica
        yield msgspec.structs.replace(segment, size=cut_damage.position), cut_damage


def examine_recovered(segments: Sequence[SegmentFile]) -> list[SegmentFile]:
    """Examine the segments that a starting broker would check, on all cores of this machine, and
    record in them what it would cut off, so that tasks need not wait for each other.
    """
    recovered_segments = [segment for segment in segments if segment.is_recovered]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # what is compiled lets other threads run
        damage_by_segment = dict(
            zip(recovered_segments, pool.map(_cut_of, recovered_segments), strict=True)
        )
    is_log_cut = False
    examined_segments: list[SegmentFile] = []
    for segment in segments:
        if segment.is_recovered:
            cut_damage = _cut_before(segment) if is_log_cut else damage_by_segment[segment]
            is_log_cut = cut_damage is not None
            segment = msgspec.structs.replace(segment, is_cut_searched=True, cut_damage=cut_damage)
        examined_segments.append(segment)
    return examined_segments


def _cut_of(segment: SegmentFile) -> SegmentDamage | None:
    """The place where a starting broker cuts a segment; None without a cut, and for a segment that
    can't be read, which its reader reports.
    """
    try:
        examination = Examiner().examine(
            Path(segment.path),
            end_position=segment.size,
            base_offset=segment.base_offset,
            start=segment.sound_to,
        )
    except OSError:
        return None
    if examination.damage is None:
        return None
    return msgspec.structs.replace(examination.damage, offset=examination.damaged_offset)
