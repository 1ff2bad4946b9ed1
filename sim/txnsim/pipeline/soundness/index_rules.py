"""The sparse indexes of a segment against its batches, in one go along the log.

The rules are those of ``kafka-dump-log``. An entry of ``.index`` has the last offset of the batch
at its position. An entry of ``.timeindex`` has the largest timestamp of the batch that ends with
its offset. Releases before 4.0 wrote one entry for several batches that a follower appended at
once, and the offset of a record within its batch. A look-up still finds the record, so this is only
a notice. Kafka's counterparts: DumpLogSegments.dumpIndex and dumpTimeIndex, OffsetIndex, TimeIndex.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from txnsim.pipeline.scan.segments import Section
from txnsim.pipeline.soundness.violations import Broken, Invariant
from txnsim.wire.batch import BatchHeader

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
        self.broken: list[Broken] = []
        self._judge_order(offsets, Invariant.OFFSET_INDEX)
        self._judge_order(times, Invariant.TIME_INDEX)
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

    def take(self, header: BatchHeader, position: int) -> None:
        """The next batch, and where it begins."""
        while self._offsets and self._offsets[-1][1] <= position:
            offset, at = self._offsets.pop()
            if at < position:
                self._no_batch(offset, at)
            elif offset != header.last_offset:
                self._tell(
                    Invariant.OFFSET_INDEX,
                    offset,
                    f"offset {offset}",
                    f"offset {header.last_offset}",
                    at,
                    is_notice=offset > header.last_offset,
                )
        while self._times and self._times[-1][1] <= header.last_offset:
            timestamp, offset = self._times.pop()
            if offset != header.last_offset:
                is_within = header.base_offset <= offset and timestamp == header.max_timestamp_ms
                self._no_end(offset, is_notice=is_within)
            elif timestamp != header.max_timestamp_ms:
                self._tell(
                    Invariant.TIME_INDEX,
                    offset,
                    f"timestamp {timestamp}",
                    f"timestamp {header.max_timestamp_ms}",
                )

    def finish(self) -> tuple[Broken, ...]:
        """All that was found; entries that are left point behind the log."""
        for offset, at in reversed(self._offsets):
            self._no_batch(offset, at)
        for _, offset in reversed(self._times):
            self._no_end(offset)
        return tuple(self.broken)

    # Steps

    def _judge_order(self, entries: Entries, rule: Invariant) -> None:
        for before, entry in pairwise(entries):
            if entry[0] <= before[0] or entry[1] <= before[1]:
                offset = entry[0] if rule is Invariant.OFFSET_INDEX else entry[1]
                self._tell(
                    rule, offset, f"the entry {entry} behind {before}", "entries that ascend"
                )

    def _no_batch(self, offset: int, at: int) -> None:
        found = f"an entry of position {at}"
        self._tell(Invariant.OFFSET_INDEX, offset, found, "a batch that begins there", at)

    def _no_end(self, offset: int, *, is_notice: bool = False) -> None:
        found = f"an entry of offset {offset}"
        expected = "a batch that ends there"
        self._tell(Invariant.TIME_INDEX, offset, found, expected, is_notice=is_notice)

    def _tell(
        self,
        rule: Invariant,
        offset: int,
        found: str,
        expected: str,
        position: int | None = None,
        *,
        is_notice: bool = False,
    ) -> None:
        self.broken.append(
            Broken(
                rule=rule,
                file=self._files[rule],
                position=position,
                offset=offset,
                found=found,
                expected=expected,
                is_notice=is_notice,
            )
        )
