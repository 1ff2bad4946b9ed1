"""The parts of log directories that a query wants: places, producers, offsets, times. Planning
knows nothing else of a query, with Spark and without.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from txnsim.pipeline.scan.segments import Replica, SegmentFile


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    log_dirs: frozenset[str] | None = None
    brokers: frozenset[int] | None = None
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    producer_ids: frozenset[int] | None = None
    offset_min: int | None = None
    offset_max: int | None = None
    topic_patterns: frozenset[str] = frozenset()
    """As fnmatch has them: the topic's name fits all of them."""
    time_min_ms: int | None = None
    """No earlier timestamps are asked for."""
    time_max_ms: int | None = None
    """No later ones."""

    def has_replica(self, replica: Replica) -> bool:
        """Whether rows of it are asked for."""
        return (
            (self.log_dirs is None or replica.log_dir in self.log_dirs)
            and (self.brokers is None or replica.broker in self.brokers)
            and (self.topics is None or replica.topic in self.topics)
            and (self.partitions is None or replica.partition in self.partitions)
            and all(fnmatchcase(replica.topic, pattern) for pattern in self.topic_patterns)
        )

    def has_segment(self, segment: SegmentFile) -> bool:
        """Whether rows of it may be asked for."""
        if self.offset_max is not None and segment.base_offset > self.offset_max:
            return False
        return (
            self.offset_min is None
            or segment.may_be_cut  # what is cut in it ends those behind
            or segment.next_base_offset is None
            or segment.next_base_offset > self.offset_min
        )
