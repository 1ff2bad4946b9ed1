"""Moves high watermarks, and wakes the requests that wait for them.

Kafka's counterparts: what Partition.appendRecordsToLeader and updateFollowerFetchState do besides
deciding, and ActionQueue.
"""

from __future__ import annotations

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.node.purgatory import Purgatory
from txnsim.replica.partition import Partition
from txnsim.replica.replicas import Replicas
from txnsim.replication.append_events import AppendEvents
from txnsim.runtime.env import Clock
from txnsim.types import TopicPartition


class Watermarks(msgspec.Struct, kw_only=True, eq=False):
    """The high watermarks of the partitions that one broker leads."""

    clock: Clock
    replicas: Replicas
    purgatory: Purgatory[TopicPartition]
    log_events: AppendEvents

    def advance(self, partition: Partition) -> bool:
        """A follower or the ISR has changed: move the high watermark as far as it may go."""
        if not partition.advance(self.terms):
            return False
        tracer, where = self.log_events.tracer, partition.topic_partition
        if not tracer.on:
            self.purgatory.touch(where)
            return True
        before = tracer.caused_by(self.log_events.moved(partition.log))
        try:
            self.purgatory.touch(where)
        finally:
            tracer.caused_by(before)
        return True

    def terms(self) -> tuple[int, int]:
        """What a partition asks for where a replica is about to join (``replica.partition``)."""
        return self.replicas.dynamic.replica_lag_time_max_ms, self.clock.monotonic_ms()

    def log_start_raised(self, log: PartitionLog) -> None:
        """Records of a led log were deleted: inform followers, and wake waiting requests."""
        partition = self.replicas.replicated.get(log.topic_partition)
        if partition is not None:
            partition.log_start_raised()
        self.purgatory.touch(log.topic_partition)

    def deleted(self, partition: Partition) -> None:
        """A follower has deleted the same records as its leader."""
        self.purgatory.touch(partition.topic_partition)
