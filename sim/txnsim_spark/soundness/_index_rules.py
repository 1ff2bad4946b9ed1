"""The sparse indexes of a segment against its batches, in one go along the log.

The rules are those of ``kafka-dump-log``. An entry of ``.index`` has the last offset of the batch
at its position. An entry of ``.timeindex`` has the largest timestamp of the batch that ends with
its offset. Releases before 4.0 wrote one entry for several batches that a follower appended at
once, and the offset of a record within its batch. A look-up still finds the record, so this is only
a notice. Kafka's counterparts: DumpLogSegments.dumpIndex and dumpTimeIndex, OffsetIndex, TimeIndex.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from txnsim_spark.scan import kernel
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import Section
from txnsim_spark.soundness.violations import Broken, Invariant

Entries = Sequence[tuple[int, int]]


class IndexCheck:
    """Both indexes of a segment; takes its batches in order.

    Args:
        offsets: (offset, position) entries of ``.index``.
        times: (timestamp, offset) entries of ``.timeindex``.
        offsets_file: Name of the one.
        times_file: Name of the other.
    """

    def __init__(
        self, offsets: Entries, times: Entries, *, offsets_file: str, times_file: str
    ) -> None:
        self._files = {Invariant.OFFSET_INDEX: offsets_file, Invariant.TIME_INDEX: times_file}
        self.broken = [
            *self._disorder(offsets, Invariant.OFFSET_INDEX),
            *self._disorder(times, Invariant.TIME_INDEX),
        ]
        # Whatever order they are in, each is looked for once.
        self._offsets = sorted(offsets, key=lambda entry: -entry[1])
        self._times = sorted(times, key=lambda entry: -entry[1])

    def narrow(self, section: Section, end: int) -> None:
        """Look only for the entries of a section, which ends at this position."""
        last = section.next_offset
        self._offsets = [one for one in self._offsets if section.start <= one[1] < end]
        self._times = [
            one
            for one in self._times
            if section.first_offset <= one[1] and (last is None or one[1] < last)
        ]

    def take(self, table: Ints) -> None:
        """The next batches."""
        positions, lasts = table[kernel.POSITION], table[kernel.LAST_OFFSET]
        while self._offsets and self._offsets[-1][1] <= positions[-1]:
            offset, at = self._offsets.pop()
            number = int(np.searchsorted(positions, at))
            last = int(lasts[number])
            if positions[number] != at:
                self.broken.append(self._no_batch(offset, at))
            elif offset != last:
                told = (f"offset {offset}", f"offset {last}")
                broken = self._broken(
                    Invariant.OFFSET_INDEX, offset, *told, at, is_notice=offset > last
                )
                self.broken.append(broken)
        reach = np.maximum.accumulate(lasts)
        while self._times and self._times[-1][1] <= reach[-1]:
            timestamp, offset = self._times.pop()
            number = int(np.searchsorted(reach, offset))
            greatest = int(table[kernel.MAX_TIMESTAMP, number])
            if offset != lasts[number]:
                is_within = table[kernel.BASE_OFFSET, number] <= offset and timestamp == greatest
                self.broken.append(self._no_end(offset, is_notice=bool(is_within)))
            elif timestamp != greatest:
                told = (f"timestamp {timestamp}", f"timestamp {greatest}")
                self.broken.append(self._broken(Invariant.TIME_INDEX, offset, *told))

    def finish(self) -> list[Broken]:
        """All violations; the entries left over point behind the end of the log."""
        behind = [self._no_batch(offset, at) for offset, at in reversed(self._offsets)]
        late = [self._no_end(offset) for _, offset in reversed(self._times)]
        return [*self.broken, *behind, *late]

    # Steps

    def _disorder(self, entries: Entries, rule: Invariant) -> Iterator[Broken]:
        for before, entry in pairwise(entries):
            if entry[0] <= before[0] or entry[1] <= before[1]:
                offset = entry[0] if rule is Invariant.OFFSET_INDEX else entry[1]
                found = f"the entry {entry} behind {before}"
                yield self._broken(rule, offset, found, "entries that ascend")

    def _no_batch(self, offset: int, at: int) -> Broken:
        found = f"an entry of position {at}"
        return self._broken(Invariant.OFFSET_INDEX, offset, found, "a batch that begins there", at)

    def _no_end(self, offset: int, *, is_notice: bool = False) -> Broken:
        found, expected = f"an entry of offset {offset}", "a batch that ends there"
        return self._broken(Invariant.TIME_INDEX, offset, found, expected, is_notice=is_notice)

    def _broken(
        self,
        rule: Invariant,
        offset: int,
        found: str,
        expected: str,
        position: int | None = None,
        *,
        is_notice: bool = False,
    ) -> Broken:
        return Broken(
            rule=rule,
            file=self._files[rule],
            position=position,
            offset=offset,
            found=found,
            expected=expected,
            is_notice=is_notice,
        )
