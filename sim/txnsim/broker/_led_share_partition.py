"""A share partition on its leader, with the state that the broker keeps beside the core."""

from __future__ import annotations

import msgspec

from txnsim.broker._share_meters import GroupMeter
from txnsim.share.partition import SharePartition
from txnsim.types import TopicPartition


class LedShare(msgspec.Struct, eq=False):
    """A share partition, and the log partition that has its records."""

    share_partition: SharePartition
    topic_partition: TopicPartition
    meter: GroupMeter
    made_ms: int
    """When it was created; like all times below in ``Clock.elapsed_ms``."""
    due_ms: int | None = None
    """Deadline of its earliest acquisition lock."""
    lock_timeout_count: int = 0
    """Number of records whose acquisition lock has timed out."""
    fetch_locked_ms: int = 0
    fetch_idle_ms: int = 0
    """How long the fetch lock was free before it was last taken."""
    fetch_released_ms: int | None = None

    def take_fetch_lock(self, fetch: object, now_ms: int) -> bool:
        """Take the fetch lock, so that one fetch at a time reads for a share partition; False if it
        is taken.
        """
        if not self.share_partition.take_fetch_lock(fetch):
            return False
        released_ms = self.fetch_released_ms
        self.fetch_locked_ms = now_ms
        self.fetch_idle_ms = 0 if released_ms is None else now_ms - released_ms
        return True

    def release_fetch_lock(self, fetch: object, now_ms: int) -> None:
        self.share_partition.release_fetch_lock(fetch)
        self.fetch_released_ms = now_ms
        self.meter.record_fetch_lock(now_ms - self.fetch_locked_ms, self.fetch_idle_ms)
