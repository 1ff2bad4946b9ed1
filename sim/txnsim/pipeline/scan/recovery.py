"""What a broker that starts here would cut off: the part of a log that has to be gone through, byte
by byte, after a stop out of order.

It is gone through from the recovery point on, in order. The first batch that is torn or whose CRC
is wrong ends the log: the rest of its segment and all later segments go. Nothing is cut here, but
readers do not see what lies behind. Kafka's counterparts: LogLoader.recoverLog, LogSegment.recover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import crc32c
import msgspec
import numpy as np

from txnsim.pipeline.scan import kernel, kernel_crc
from txnsim.pipeline.scan.pieces import PIECE_BYTES, Ints, PieceReader, pieces_of
from txnsim.pipeline.scan.segments import Replica, SegmentFile
from txnsim.pipeline.scan.walk import Damage, OldRun, batch_rows
from txnsim.wire.batch_header import CRC_START
from txnsim.wire.control import COMMIT

SMALL_BATCH_BYTES: Final = 1 << 10
"""Below, the compiled loop is quicker than a call of the library for each batch."""

GAPS_MAX: Final = 20
"""That are listed for one segment: those of the highest offsets."""
ODD_CONTROLS_MAX: Final = 20
"""The same of control records: the first ones."""

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
        if segment.replica == ended:
            damage: Damage | None = Damage(
                position=0, size=segment.size, kind="behind", reason="an earlier segment is cut"
            )
        else:
            damage = _damage_or_none(segment)
        if damage is not None:
            ended = segment.replica
            segment = msgspec.structs.replace(segment, size=damage.position)
        yield segment, damage


def _damage_or_none(segment: SegmentFile) -> Damage | None:
    """Where a broker cuts a segment; also None where that can't be read, as others will notice."""
    try:
        return damage_behind(Path(segment.path), until=segment.size)
    except OSError:
        return None


def damage_behind(path: Path, *, until: int) -> Damage | None:
    """The first place in a segment where recovery would cut; None where everything is sound.

    Args:
        path: The ``.log`` file.
        until: How much of it there is.

    Raises:
        OSError: The file can't be read.
    """
    torn: list[Damage] = []
    for table in batch_rows(path, on_damage=torn.append, until=until):
        wrong = np.flatnonzero(~crcs_are_right(path, table))
        if len(wrong):
            return _wrong_crc(table, int(wrong[0]), until)
    return torn[0] if torn else None


def _wrong_crc(table: Ints, number: int, until: int) -> Damage:
    position = int(table[kernel.POSITION, number])
    return Damage(
        position=position,
        size=until - position,
        kind="crc",
        reason=f"the batch at offset {table[kernel.BASE_OFFSET, number]} has another CRC than it"
        " states",
    )


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """A segment with every CRC computed and every offset followed."""

    damage: Damage | None
    """The first place that makes no sense, or has a wrong CRC."""
    damaged_offset: int
    """The offset that was awaited there; behind the last batch where there is none."""
    gaps: tuple[tuple[int, int], ...]
    """(first offset that is missing, the next one that is there)."""
    odd_controls: tuple[tuple[int, int], ...] = ()
    """(position, type) of control records of a producer that are no markers."""
    is_torn: bool = False
    """The damage is where the batches end: nothing behind it can be read."""
    lowest_offset: int | None = None
    highest_offset: int | None = None
    """Of sound batches; None where there are none."""


def examined(path: Path, *, until: int, base_offset: int, start: int = 0) -> Examined:
    """Go through a segment up to the first damage.

    Args:
        path: The ``.log`` file.
        until: Where it ends.
        base_offset: Where its offsets begin: its own number.
        start: Position of the first batch that is looked at.

    Raises:
        OSError: The file can't be read.
    """
    torn: list[Damage] = []
    old: list[OldRun] = []
    gaps: list[tuple[int, int]] = []
    bounds = _Bounds()
    odd: list[tuple[int, int]] = []
    offset, position = base_offset, start
    for table in batch_rows(
        path, on_damage=torn.append, until=until, on_old=old.append, start=start
    ):
        wrong = np.flatnonzero(~crcs_are_right(path, table))
        sound = table[:, : wrong[0]] if len(wrong) else table
        gaps += _gaps(sound, offset, position, {one.end: one.next_offset for one in old})
        gaps = sorted(gaps)[-GAPS_MAX:]
        odd += _odd_controls(sound)[: ODD_CONTROLS_MAX - len(odd)]
        if sound.shape[1]:
            bounds.take(sound)
            offset = int(sound[kernel.LAST_OFFSET, -1]) + 1
            position = int(sound[kernel.POSITION, -1] + sound[kernel.SIZE, -1])
        if len(wrong):
            damage = _wrong_crc(table, int(wrong[0]), until)
            return Examined(
                damage=damage,
                damaged_offset=_behind(old, offset, position, damage.position),
                gaps=tuple(gaps),
                odd_controls=tuple(odd),
                lowest_offset=bounds.lowest,
                highest_offset=bounds.highest,
            )
        old = [one for one in old if one.end > position]
    return Examined(
        damage=torn[0] if torn else None,
        damaged_offset=_behind(old, offset, position, until),
        gaps=tuple(gaps),
        odd_controls=tuple(odd),
        is_torn=bool(torn),
        lowest_offset=bounds.lowest,
        highest_offset=bounds.highest,
    )


class _Bounds:
    """The offsets of batches, from the lowest to the highest one; whatever their order."""

    def __init__(self) -> None:
        self.lowest: int | None = None
        self.highest: int | None = None

    def take(self, table: Ints) -> None:
        """More of them, at least one."""
        low = int(table[kernel.BASE_OFFSET].min())
        high = int(table[kernel.LAST_OFFSET].max())
        self.lowest = low if self.lowest is None else min(low, self.lowest)
        self.highest = high if self.highest is None else max(high, self.highest)


def _behind(old: Sequence[OldRun], offset: int, position: int, until: int) -> int:
    """The offset that is awaited at the end of what is sound: behind the last batch, or behind the
    messages of old formats that follow it.
    """
    following = [one.next_offset for one in old if position <= one.position < until]
    return following[-1] if following else offset


def _odd_controls(table: Ints) -> list[tuple[int, int]]:
    """(position, type) of control records that a producer's markers can't be."""
    is_odd = (table[kernel.PRODUCER_ID] >= 0) & (table[kernel.CONTROL_TYPE] > COMMIT)
    return [
        (int(table[kernel.POSITION, at]), int(table[kernel.CONTROL_TYPE, at]))
        for at in np.flatnonzero(is_odd)
    ]


def _gaps(
    table: Ints, offset: int, position: int, behind_old: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Where offsets are left out between batches, or between messages of old formats and the batch
    behind them. What is left out in front of such messages is not known: a compressed one bears the
    offset of the last message in it.

    Args:
        table: Batches.
        offset: The one that is awaited at ``position``.
        position: Behind the batch in front of the table.
        behind_old: Position behind messages of old formats -> the offset that is awaited there.
    """
    if not table.shape[1]:
        return
    bases, positions = table[kernel.BASE_OFFSET], table[kernel.POSITION]
    awaited = np.concatenate(([offset], table[kernel.LAST_OFFSET, :-1] + 1))
    ends = np.concatenate(([position], (positions + table[kernel.SIZE])[:-1]))
    for number in np.flatnonzero(positions != ends):
        awaited[number] = behind_old[int(positions[number])]
    for number in np.flatnonzero(bases > awaited):
        yield int(awaited[number]), int(bases[number])


def crcs_are_right(path: Path, table: Ints) -> Truths:
    """For each row of a table of batches (``walk.batch_rows``), whether its CRC is right.

    Raises:
        OSError: The file can't be read.
    """
    valid = np.empty(table.shape[1], dtype=np.bool_)
    with pieces_of(path) as file:
        for first, last in runs_of(table):
            if last - first == 1 and table[kernel.SIZE, first] > PIECE_BYTES:
                valid[first] = _large_crc(file, table[:, first]) == table[kernel.CRC, first]
            else:
                valid[first:last] = _run_is_valid(file, table[:, first:last])
    return valid


def runs_of(table: Ints, *, bytes_max: int = PIECE_BYTES) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of rows that lie within so many bytes, or of one that is larger."""
    positions, ends = table[kernel.POSITION], table[kernel.POSITION] + table[kernel.SIZE]
    first = 0
    while first < table.shape[1]:
        last = int(np.searchsorted(ends, positions[first] + bytes_max, side="right"))
        last = max(last, first + 1)
        yield first, last
        first = last


def _run_is_valid(file: PieceReader, run: Ints) -> Truths:
    start = int(run[kernel.POSITION, 0])
    piece = file.read(start)
    starts = run[kernel.POSITION] - start + CRC_START
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


def _large_crc(file: PieceReader, row: Ints) -> int:
    """Of a batch that is larger than a piece."""
    at = int(row[kernel.POSITION]) + CRC_START
    end = int(row[kernel.POSITION] + row[kernel.SIZE])
    crc = 0
    while at < end and len(piece := file.read(at)):
        crc = crc32c.crc32c(memoryview(piece.data)[: end - at], crc)
        at += len(piece)
    return crc
