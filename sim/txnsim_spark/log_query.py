"""The conditions of a query on log directories: places, producers, offsets, times. Planning knows
nothing else of a query, with Spark or without.
"""

from __future__ import annotations

import msgspec

from txnsim_spark.options import KafkaLogOptions, Offsets
from txnsim_spark.scan.segments import Replica, SegmentFile


class RowScope(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on the rows to read; None for no condition."""

    partitions: frozenset[int] | None = None
    producer_ids: frozenset[int] | None = None
    offset_min: int | None = None
    offset_max: int | None = None
    time_min_ms: int | None = None
    """Rows with earlier timestamps are left out."""
    time_max_ms: int | None = None
    """Rows with later timestamps are left out."""
    starting_offsets: Offsets = {}
    ending_offsets: Offsets = {}
    """Topic -> partition -> the first offset that is left out."""

    @classmethod
    def of(cls, options: KafkaLogOptions) -> RowScope:
        """The conditions in a read's options. (Topics are chosen where folders are listed.)"""
        return cls(
            partitions=options.partitions or None,
            producer_ids=options.producer_ids or None,
            time_min_ms=options.start_ms,
            time_max_ms=None if options.end_ms is None else options.end_ms - 1,
            starting_offsets=options.starting_offsets,
            ending_offsets=options.ending_offsets,
        )

    def has_replica(self, replica: Replica) -> bool:
        return self.partitions is None or replica.partition in self.partitions

    def has_segment(self, segment: SegmentFile) -> bool:
        lowest_offset, highest_offset = self.offsets_of(segment.replica)
        if highest_offset is not None and segment.base_offset > highest_offset:
            return False
        return (
            lowest_offset is None
            or segment.may_be_cut  # what is cut in it ends those behind
            or segment.next_base_offset is None
            or segment.next_base_offset > lowest_offset
        )

    def offsets_of(self, replica: Replica) -> tuple[int | None, int | None]:
        """The lowest and the highest wanted offset of a replica; None for no bound."""
        lowest_offset, highest_offset = self.offset_min, self.offset_max
        if not self.starting_offsets and not self.ending_offsets:
            return lowest_offset, highest_offset
        starting_offset = self.starting_offsets.get(replica.topic, {}).get(replica.partition)
        ending_offset = self.ending_offsets.get(replica.topic, {}).get(replica.partition)
        if starting_offset is not None:
            lowest_offset = (
                starting_offset if lowest_offset is None else max(lowest_offset, starting_offset)
            )
        if ending_offset is not None:
            highest_offset = (
                ending_offset - 1
                if highest_offset is None
                else min(highest_offset, ending_offset - 1)
            )
        return lowest_offset, highest_offset
