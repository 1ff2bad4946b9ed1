"""Counters of one broker's share partitions, for metrics.

Kafka's counterparts: ShareGroupMetrics, SharePartitionMetrics. Kafka keeps the distributions of the
latter for each share partition; here they are kept per group, because a group may have thousands of
partitions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from txnsim.metrics.table import MS_BOUNDS, PERCENT_BOUNDS, RECORD_BOUNDS, Reading
from txnsim.share.commands import AcknowledgementBatch


class Distribution:
    """Counts how many values fall below each bound."""

    __slots__ = ("_bounds", "_bucket_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._bucket_counts = [0] * (len(bounds) + 1)
        self.total = 0

    def observe(self, value: int) -> None:
        self._bucket_counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def reading(self, metric: str, labels: tuple[str, ...]) -> Reading:
        return Reading(
            metric=metric,
            labels=labels,
            value=self.total,
            counts=tuple(accumulate(self._bucket_counts)),
        )


class GroupMeter:
    """Counters of one share group at this broker."""

    __slots__ = ("acquire_ms", "batch_records", "fetch_lock_ms", "fetch_lock_ratio", "fetch_ratio")

    def __init__(self) -> None:
        self.fetch_ratio = Distribution(PERCENT_BOUNDS)
        self.acquire_ms = Distribution(MS_BOUNDS)
        self.batch_records = Distribution(RECORD_BOUNDS)
        self.fetch_lock_ms = Distribution(MS_BOUNDS)
        self.fetch_lock_ratio = Distribution(PERCENT_BOUNDS)

    def record_fetch_lock(self, held_ms: int, idle_ms: int) -> None:
        """Record how long a fetch lock was held, and how long it was idle before.

        Counterpart: SharePartition.recordFetchLockRatioMetric.
        """
        self.fetch_lock_ms.observe(held_ms)
        total_ms = held_ms + idle_ms
        ratio = 1.0 if not total_ms else max(held_ms, 1) / max(total_ms, 1)
        self.fetch_lock_ratio.observe(int(ratio * 100))


class ShareMeter:
    """Counters of all share groups at this broker."""

    __slots__ = (
        *("acknowledged", "groups", "letters_failed", "letters_sent", "letters_written"),
        "load_ms",
    )

    def __init__(self) -> None:
        self.acknowledged: Counter[int] = Counter()
        """Number of records by acknowledge type, counted once they are persisted."""
        self.load_ms = Distribution(MS_BOUNDS)
        self.letters_failed = self.letters_sent = self.letters_written = 0
        """Dead letter requests that failed, dead letter requests sent, and records that they wrote.
        """
        self.groups: dict[str, GroupMeter] = {}
        """Share groups that have share partitions here."""

    def meter_of(self, group_id: str) -> GroupMeter:
        meter = self.groups.get(group_id)
        if meter is None:
            meter = self.groups[group_id] = GroupMeter()
        return meter

    def count_acknowledged(self, batches: Iterable[AcknowledgementBatch]) -> None:
        for batch in batches:
            types = batch.types
            if len(types) == 1:
                self.acknowledged[types[0]] += batch.last_offset - batch.first_offset + 1
            else:
                self.acknowledged.update(types)
