"""What one segment leaves to be put together with its neighbours, as values.

A segment is cut into *stretches* at the offsets of snapshots, so that the state at each snapshot is
known. For each producer a stretch keeps the things that depend on what came before (its first batch
of data, its first marker), and its state at the end. That is less than the batches. Stretches are
put together in order of offset.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from txnsim.log.producer_state import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.pipeline.soundness.violations import Broken
from txnsim.wire.batch import BatchHeader, ControlRecord


class FirstData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The first batch of data of a producer in a stretch."""

    header: BatchHeader
    position: int
    is_judged: bool
    """What is known within the stretch was enough to judge its sequence and epoch."""


class FirstMarker(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The first marker of a producer in a stretch."""

    header: BatchHeader
    control: ControlRecord
    position: int
    opened_at: int
    """First offset of the transaction that it ends, as far as the stretch knows; else -1."""


class ProducerStretch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a producer did in a stretch."""

    first_data: FirstData | None
    first_marker: FirstMarker | None
    left: SnapshotEntry
    """What a snapshot at its end would say, were there nothing before the stretch."""
    last_offset: int
    """Of its last batch, a marker included."""
    keeps_batches: bool
    """There was no batch of data and no new epoch: the newest batch is that of before, if its
    epoch is the same.
    """

    @property
    def producer_id(self) -> int:
        """Whose it is."""
        return self.left.producer_id


class AbortedStretch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A transaction that an ABORT marker ended in a stretch."""

    producer_id: int
    marker_offset: int
    opened_at: int
    """-1: before the stretch, if at all."""
    others_since: int
    """First offset of the oldest transaction of other producers that began in the stretch and was
    open then; -1 where there is none.
    """


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a segment, from one snapshot's offset to the next, or to the segment's end."""

    start: int
    end: int
    producers: tuple[ProducerStretch, ...]
    aborted: tuple[AbortedStretch, ...]
    """By marker."""


class Digest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All batches whose base offsets lie in one range, as a sum that knows no order."""

    bucket: int
    batches: int
    total: int


class SegmentPart(msgspec.Struct, frozen=True, kw_only=True):
    """One segment."""

    segment: SegmentFile
    """Or a section of it."""
    first_offset: int | None
    """None where it is empty."""
    end_offset: int
    first_epoch: int
    last_epoch: int
    """Of leaders; -1 where it is empty."""
    is_torn: bool
    shows_cleaning: bool
    """Batches have fewer records than offsets, or a delete horizon: the cleaner was here."""
    gaps: tuple[tuple[int, int], ...]
    """(end of a batch, base offset of the next) where offsets are left out."""
    broken: tuple[Broken, ...]
    stretches: tuple[Stretch, ...]
    aborted_index: tuple[AbortedTxn, ...] | None
    """None where the file can't be read."""
    digests: tuple[Digest, ...]
    stands_alone: bool = True
    """Of a section: that it was read apart changes nothing."""
    doubtful_from: int | None = None
    """First byte of a batch with a wrong CRC or offset: what else shows behind it in this segment
    may follow from that.
    """

    @property
    def base_offset(self) -> int:
        """The segment's own number."""
        return self.segment.base_offset

    @property
    def file(self) -> str:
        """The segment's name."""
        return Path(self.segment.path).name

    @property
    def is_followed(self) -> bool:
        """Whether its end is what was written, so that the next segment can be held against it."""
        return not self.is_torn and self.doubtful_from is None
