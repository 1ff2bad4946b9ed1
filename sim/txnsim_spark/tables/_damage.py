"""How the tables of segments treat damage: which CRCs they compute, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from txnsim_spark.file_faults import refuse_damage
from txnsim_spark.options import CrcCheck
from txnsim_spark.scan import kernel
from txnsim_spark.scan.crcs import crcs_are_right
from txnsim_spark.scan.log_end import TORN
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import SegmentDamage, SegmentFile
from txnsim_spark.scan.walk import OnDamage, batch_rows, old_run_damage
from txnsim_spark.tables.rows import TableJob


def checks_crcs(segment: SegmentFile, job: TableJob) -> bool:
    """Whether each batch's CRC is computed as rows are made. Segments that a starting broker would
    check were checked before, and are cut where a CRC is wrong.
    """
    check = job.options.check_crc
    return check is CrcCheck.ALL or (
        check is CrcCheck.AUTO and not segment.is_clean and not segment.is_recovered
    )


def refuser_of(segment: SegmentFile, job: TableJob) -> Callable[[SegmentDamage], None]:
    """A function that refuses damage of a segment, unless the options ignore it. A stream waits
    until a batch is complete.
    """

    def refuse(damage: SegmentDamage) -> None:
        if job.options.follows and segment.is_last and damage.kind == TORN:
            return
        refuse_damage(segment, damage, job.options)

    return refuse


def sound_rows(segment: SegmentFile, on_damage: OnDamage) -> Iterator[Ints]:
    """Tables of a segment's batches (``walk.batch_rows``).

    Args:
        segment: The segment.
        on_damage: Called with messages of an old format, which give no rows, and with the place
            where the segment becomes malformed, if it is within the segment's span. Other damage
            belongs to another part of the segment.
    """
    reached_offset = segment.base_offset
    end_damages: list[SegmentDamage] = []
    for table in batch_rows(
        Path(segment.path),
        end_position=segment.size,
        start=segment.start,
        on_damage=end_damages.append,
        on_old_run=lambda run: on_damage(old_run_damage(run)),
    ):
        reached_offset = max(reached_offset, int(table[kernel.LAST_OFFSET].max()) + 1)
        yield table
    if segment.offset_span is None or reached_offset < segment.offset_span[1]:
        for damage in end_damages:
            on_damage(damage)


def check_headers(segment: SegmentFile, job: TableJob) -> None:
    """Check the CRCs of a segment of which only headers are read, if the options demand it.

    Raises:
        CorruptLogFileError: A CRC is wrong, and the options don't ignore that.
    """
    if job.options.passes_over_corrupt or not checks_crcs(segment, job):
        return
    on_damage = refuser_of(segment, job)
    for table in batch_rows(Path(segment.path), end_position=segment.size):
        refuse_wrong_crcs(segment, table, on_damage)


def refuse_wrong_crcs(segment: SegmentFile, table: Ints, on_damage: OnDamage) -> None:
    """Compute the CRC of each batch of a table; call ``on_damage`` with the wrong ones."""
    crc_is_right = crcs_are_right(Path(segment.path), table)
    for row in np.flatnonzero(~crc_is_right).tolist():
        on_damage(wrong_crc(table, row))


def wrong_crc(table: Ints, row: int) -> SegmentDamage:
    """The ``SegmentDamage`` of a batch with a wrong CRC, if the batches after it are read."""
    return SegmentDamage(
        position=int(table[kernel.POSITION, row]),
        size=int(table[kernel.BATCH_SIZE, row]),
        kind="crc",
        reason=f"the batch at offset {table[kernel.BASE_OFFSET, row]} has another CRC than it"
        " states",
    )
