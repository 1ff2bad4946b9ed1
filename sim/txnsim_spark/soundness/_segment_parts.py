"""The result of the walk over a segment: its own violations, and the rows of batches that change
the state of producers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from txnsim.log.txn_index import AbortedTxn
from txnsim_spark.scan import kernel
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.soundness.violations import BrokenRule, Invariant

CONTINUES_PREVIOUS: Final = kernel.BATCH_COLUMNS
"""Column after those of the kernel: whether the batch continues the previous batch of its
producer.
"""


class SegmentPart(msgspec.Struct, frozen=True, kw_only=True):
    """The findings and facts of one segment."""

    segment: SegmentFile
    first_offset: int | None
    last_base: int
    """Highest base offset; -1 if the segment is empty."""
    end_offset: int
    first_epoch: int
    last_epoch: int
    """Epoch of the last leader; -1 if the segment is empty."""
    is_torn: bool
    shows_cleaning: bool
    """Whether the cleaner has changed it: a batch has fewer records than offsets, or a delete
    horizon.
    """
    gaps: tuple[tuple[int, int], ...]
    """(end of a batch, base offset of the next) if offsets between them are missing."""
    broken_rules: tuple[BrokenRule, ...]
    rows: tuple[Ints, ...]
    """Batches of producers, with the column ``CONTINUES_PREVIOUS``. Of a run of batches that
    continue each other only the first and the last are kept.
    """
    aborted_index: tuple[AbortedTxn, ...] | None
    """Entries of the ``.txnindex``; None where it can't be read."""
    digests: Mapping[int, tuple[int, int]]
    """Range of offsets -> (number of batches that begin there, sum of their digests
    in any order).
    """
    doubtful_from: int | None = None
    """Position of the first batch with a wrong CRC or offset; violations after it in this segment
    may follow from that.
    """

    @property
    def base_offset(self) -> int:
        """The offset in the segment's name."""
        return self.segment.base_offset

    @property
    def file(self) -> str:
        """The segment's name."""
        return Path(self.segment.path).name

    @property
    def has_no_batch(self) -> bool:
        """Whether no batch was read, of any format."""
        return self.first_offset is None and self.end_offset == self.base_offset

    @property
    def is_followed(self) -> bool:
        """Whether the next segment can be checked against the end of this one."""
        return not self.is_torn and self.doubtful_from is None


def unread_part(segment: SegmentFile, reason: str) -> SegmentPart:
    """The part of a segment that could be opened when the verification was planned, but can't be
    read any more.
    """
    broken_rule = BrokenRule(
        rule=Invariant.UNREADABLE_FILE,
        file=Path(segment.path).name,
        offset=segment.base_offset,
        found=reason,
        expected="a segment that can be read",
    )
    return SegmentPart(
        segment=segment,
        first_offset=None,
        last_base=-1,
        end_offset=segment.base_offset,
        first_epoch=-1,
        last_epoch=-1,
        is_torn=True,
        shows_cleaning=False,
        gaps=(),
        broken_rules=(broken_rule,),
        rows=(),
        aborted_index=None,
        digests={},
    )
