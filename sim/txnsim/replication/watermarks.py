"""Moves high watermarks, and wakes the requests that wait for them.

Kafka's counterparts: what Partition.appendRecordsToLeader and updateFollowerFetchState do besides
deciding, and ActionQueue.
"""

from __future__ import annotations

from functools import partial

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_trace import LogTrace
from txnsim.node.purgatory import Purgatory
from txnsim.replica.partition import Partition
from txnsim.replica.replicas import Replicas
from txnsim.runtime.env import Clock
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition


class Watermarks(msgspec.Struct, kw_only=True, eq=False):
    """The high watermarks of the partitions that one broker leads."""

    clock: Clock
    replicas: Replicas
    purgatory: Purgatory[TopicPartition]
    log_trace: LogTrace

    def advance(self, partition: Partition) -> bool:
        """A follower or the ISR has changed: move the high watermark as far as it may go."""
        log = partition.log
        is_traced = self.log_trace.tracer.on
        if is_traced:
            hw_before = lso_before = log.high_watermark
            # Of a coordinator's log, only a full trace gets the last stable offset.
            if log.topic_partition.topic != TRANSACTION_STATE_TOPIC or self.log_trace.full:
                lso_before = log.last_stable_offset
        moved = partition.advance(self.terms)
        if moved:
            touch = partial(self.purgatory.touch, log.topic_partition)
            if is_traced:
                self.log_trace.advanced(log, hw_before, lso_before, touch)
            else:
                touch()
        return moved

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
