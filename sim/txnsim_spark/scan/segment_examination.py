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
from txnsim_spark.scan.segments import Damage, Replica, SegmentFile
from txnsim_spark.scan.walk import (
    BOUNDS,
    MAY_BE_OLD,
    Folding,
    OldRun,
    ScanLimits,
    fragment_rows,
    old_at,
    tell_damage,
)

GAPS_MAX: Final = 20
"""Limit of the gaps that are listed for a segment; those of the highest offsets are listed."""
ODD_CONTROLS_MAX: Final = 20
"""Limit of the control records that are listed; the first ones are listed."""


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """The result of examining a segment."""

    damage: Damage | None
    """The first malformed batch or wrong CRC."""
    damaged_offset: int
    """Expected offset at the damage; without damage, the offset after the last batch."""
    gaps: tuple[tuple[int, int], ...]
    """(first missing offset, next offset that exists)."""
    odd_controls: tuple[tuple[int, int], ...] = ()
    """(position, type) of control records of a producer that are no markers."""
    is_torn: bool = False
    """Whether no batch can be read after the damage."""
    lowest_offset: int | None = None
    highest_offset: int | None = None
    """Highest offset in sound batches; None without batches."""


class Examiner:
    """Examines segments, one after the other.

    Args:
        bounds: Limits of memory.
    """

    def __init__(self, bounds: ScanLimits = BOUNDS) -> None:
        self._bounds = bounds
        self._buffer = np.empty(bounds.piece_bytes, dtype=np.uint8)
        self._rows = np.empty((kernel.BATCH_COLUMNS, bounds.rows), dtype=np.int64)
        self._folding = Folding(bounds)
        self._path = Path()
        self._start = self._until = 0
        self._wrong: Damage | None = None
        """Damage of the first wrong CRC."""
        self._is_folded = False
        """Whether the fragments of all sound batches are in ``_folding``."""

    def examine(self, path: Path, *, until: int, base_offset: int, start: int = 0) -> Examined:
        """Examine a segment up to the first damage.

        Args:
            path: The ``.log`` file.
            until: Position where it ends.
            base_offset: Its base offset.
            start: Position of the first batch to examine.
        """
        self._path, self._start, self._until = path, start, until
        self._folding.restart()
        self._is_folded, self._wrong = True, None
        findings = _Found(base_offset, start)
        with pieces_of(path, len(self._buffer), until=until, buffer=self._buffer) as file:
            torn = self._go_through(file, findings)
        ends = until if self._wrong is None else self._wrong.position
        return Examined(
            damage=self._wrong or torn,
            damaged_offset=findings.next_offset_at(ends),
            gaps=tuple(findings.gaps),
            odd_controls=tuple(findings.odd_controls),
            is_torn=torn is not None,
            lowest_offset=findings.lowest,
            highest_offset=findings.highest,
        )

    def fragments(self, *, is_cut: bool) -> Iterator[Ints]:
        """What each producer did in the segment that was examined last (``walk.fragment_rows``).

        Args:
            is_cut: Whether only batches before the damage count; otherwise batches with a wrong
                CRC, and later ones, count, too.
        """
        until = self._until
        if self._wrong is not None and is_cut:
            until = self._wrong.position
        elif self._wrong is not None:
            self._is_folded = False
        if not self._is_folded:
            yield from fragment_rows(
                self._path,
                until=until,
                bounds=self._bounds,
                start=self._start,
            )
        elif self._folding.count:
            yield self._folding.take()

    def _go_through(self, file: PieceReader, findings: _Found) -> Damage | None:
        """Scan up to a wrong CRC or to a place without a whole batch; return the damage there, if
        any.
        """
        position, why = self._start, kernel.AT_END
        while position < file.size:
            size_seen, why = self._look_at(file, position, findings)
            if self._wrong is not None:
                return None
            position += size_seen
            # A short message is less than a header of format 2.
            is_odd = why in MAY_BE_OLD or not size_seen
            if is_odd and (old := old_at(file, position)) is not None:
                findings.old.append(old)
                position = old.end
            elif why != kernel.AT_END or not size_seen:
                break
        torn: list[Damage] = []
        tell_damage(file, position, why, torn.append)
        return torn[0] if torn else None

    def _look_at(self, file: PieceReader, position: int, findings: _Found) -> tuple[int, int]:
        """Scan a piece up to a wrong CRC; return the next position in it, and why it ended."""
        piece = file.read(position)
        piece_offset, why = 0, kernel.FULL
        while why == kernel.FULL and self._wrong is None:
            begin, file_end = piece_offset, file.size - position
            count, piece_offset, why = kernel.scan_batches(
                piece, begin, len(piece), file_end, position, self._rows, 0
            )
            table = self._rows[:, :count]
            if piece_offset > len(piece) and table[kernel.POSITION, -1] > position:
                # The next piece begins with the batch that this one cuts.
                piece_offset = int(table[kernel.POSITION, -1]) - position
                table = table[:, :-1]
            if not table.shape[1]:
                continue
            if piece_offset > len(piece):  # larger than a piece
                valid = np.array([large_crc_of(file, table[:, 0]) == table[kernel.CRC, 0]])
                piece = file.read(position)
            else:
                valid = crcs_in(piece, position, table)
            if not valid.all():
                number = int(np.argmin(valid))
                self._wrong = wrong_crc_in(table, number, self._until)
                table = table[:, :number]
            if table.shape[1]:
                findings.take(table)
                self._fold(piece[: findings.position - position], begin, file_end, position)
        return piece_offset, why

    def _fold(self, sound: Bytes, piece_offset: int, file_end: int, position: int) -> None:
        why = kernel.FULL
        while self._is_folded and why == kernel.FULL and piece_offset < len(sound):
            _, piece_offset, why = self._folding.fold(sound, piece_offset, file_end, position)
            if why == kernel.FULL and self._folding.is_full:
                # So many producers are not kept: they are walked over once more, table by table.
                self._folding.restart()
                self._is_folded = False


class _Found:
    """The state of a scan up to a position; it counts sound batches only."""

    def __init__(self, offset: int, position: int) -> None:
        self._offset = offset
        """The offset that is expected at ``position``."""
        self.position = position
        self.old: list[OldRun] = []
        """Messages of old formats at or after ``position``."""
        self.gaps: list[tuple[int, int]] = []
        self.odd_controls: list[tuple[int, int]] = []
        self.lowest: int | None = None
        self.highest: int | None = None

    def take(self, table: Ints) -> None:
        behind_old = {messages.end: messages.next_offset for messages in self.old}
        self.gaps += _gaps(table, self._offset, self.position, behind_old)
        self.gaps = sorted(self.gaps)[-GAPS_MAX:]
        self.odd_controls += _odd_controls(table)[: ODD_CONTROLS_MAX - len(self.odd_controls)]
        low = int(table[kernel.BASE_OFFSET].min())
        high = int(table[kernel.LAST_OFFSET].max())
        self.lowest = low if self.lowest is None else min(low, self.lowest)
        self.highest = high if self.highest is None else max(high, self.highest)
        self._offset = int(table[kernel.LAST_OFFSET, -1]) + 1
        self.position = int(table[kernel.POSITION, -1] + table[kernel.SIZE, -1])
        self.old = [messages for messages in self.old if messages.end > self.position]

    def next_offset_at(self, until: int) -> int:
        """The offset that is expected after the sound part: after the last batch, or after messages
        of old formats that follow it.
        """
        following = [
            messages for messages in self.old if self.position <= messages.position < until
        ]
        return following[-1].next_offset if following else self._offset


def _odd_controls(table: Ints) -> list[tuple[int, int]]:
    """(position, type) of control records of producers that are no markers."""
    is_odd = (table[kernel.PRODUCER_ID] >= 0) & (table[kernel.CONTROL_TYPE] > COMMIT)
    return [
        (int(table[kernel.POSITION, row]), int(table[kernel.CONTROL_TYPE, row]))
        for row in np.flatnonzero(is_odd)
    ]


def _gaps(
    table: Ints, offset: int, position: int, behind_old: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """(first missing offset, next offset) between batches, or between messages of old formats and
    the batch after them (``behind_old``: position there -> offset that should follow). ``offset``
    should follow at ``position``. Gaps in front of old messages are unknown: a compressed one has
    the offset of its last message.
    """
    bases, positions = table[kernel.BASE_OFFSET], table[kernel.POSITION]
    awaited = np.concatenate(([offset], table[kernel.LAST_OFFSET, :-1] + 1))
    ends = np.concatenate(([position], (positions + table[kernel.SIZE])[:-1]))
    for number in np.flatnonzero(positions != ends):
        awaited[number] = behind_old[int(positions[number])]
    for number in np.flatnonzero(bases > awaited):
        yield int(awaited[number]), int(bases[number])


def _cut_before(segment: SegmentFile) -> Damage:
    reason = "an earlier segment is cut"
    offset = segment.base_offset
    return Damage(position=0, size=segment.size, kind="behind", reason=reason, offset=offset)


def cut_short(
    segments: Iterable[SegmentFile], *, is_cut: bool = True
) -> Iterator[tuple[SegmentFile, Damage | None]]:
    """(part that a broker's start keeps, damage) of each segment; the whole segment unless
    ``is_cut``.
    """
    ended: Replica | None = None
    for segment in segments:
        cut: Damage | None = None
        if is_cut and segment.is_looked_through:
            cut = segment.cut
        elif is_cut and segment.is_recovered:
            cut = _cut_before(segment) if segment.replica == ended else _cut_of(segment)
        if cut is None:
            yield segment, None
            continue
        ended = segment.replica
        yield msgspec.structs.replace(segment, size=cut.position), cut


def examine_recovered(segments: Sequence[SegmentFile]) -> list[SegmentFile]:
    """Examine the segments that a starting broker would check, on all cores of this machine, and
    record in them what it would cut off, so that tasks need not wait for each other.
    """
    sought = [segment for segment in segments if segment.is_recovered]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # what is compiled lets other threads run
        cuts = dict(zip(sought, pool.map(_cut_of, sought), strict=True))
    ended = False
    examined_segments: list[SegmentFile] = []
    for segment in segments:
        if segment.is_recovered:
            cut = _cut_before(segment) if ended else cuts[segment]
            ended = cut is not None
            segment = msgspec.structs.replace(segment, is_looked_through=True, cut=cut)
        examined_segments.append(segment)
    return examined_segments


def _cut_of(segment: SegmentFile) -> Damage | None:
    """The place where a starting broker cuts a segment; None without a cut, and for a segment that
    can't be read, which its reader reports.
    """
    try:
        examination = Examiner().examine(
            Path(segment.path),
            until=segment.size,
            base_offset=segment.base_offset,
            start=segment.sound_to,
        )
    except OSError:
        return None
    if examination.damage is None:
        return None
    return msgspec.structs.replace(examination.damage, offset=examination.damaged_offset)
