"""Moves high watermarks, and sees to it that whoever waits for them looks again.

Kafka's counterparts: what Partition.appendRecordsToLeader and updateFollowerFetchState do besides
deciding, and ActionQueue.
"""

from __future__ import annotations

from collections.abc import Callable

from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_trace import LogTrace, bounds
from txnsim.node.purgatory import Purgatory
from txnsim.replica.partition import Partition
from txnsim.replica.replicas import Replicas
from txnsim.runtime.env import Clock
from txnsim.settings import Settings
from txnsim.types import TopicPartition

NOBODY = -1


class Watermarks:
    """The high watermarks of the partitions that one broker leads."""

    __slots__ = ("_clock", "_log_trace", "_purgatory", "_replicas", "_settings")

    def __init__(
        self,
        *,
        clock: Clock,
        settings: Callable[[], Settings],
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
        log_trace: LogTrace,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._replicas = replicas
        self._purgatory = purgatory
        self._log_trace = log_trace

    def appended(self, log: PartitionLog) -> None:
        """A led log has new records: without followers they are replicated already."""
        partition = self._replicas.replicated.get(log.topic_partition)
        if partition is None:
            log.replicate_all()
        elif not partition.appended(
            lag_max_ms=self._settings().replica_lag_time_max_ms, now_ms=self._clock.monotonic_ms()
        ):
            return
        self._purgatory.touch(log.topic_partition)

    def coordinator_appended(self, log: PartitionLog) -> None:
        """The same of a batch that no client has sent: what led to it is the current cause."""
        if self._log_trace.on:
            self._log_trace.covers(log)
        self.appended(log)

    def advance(self, partition: Partition) -> bool:
        """A follower or the ISR has changed: move the high watermark as far as it may go."""
        log = partition.log
        before = bounds(log, NOBODY) if self._log_trace.on else None
        moved = partition.advance(
            lag_max_ms=self._settings().replica_lag_time_max_ms, now_ms=self._clock.monotonic_ms()
        )
        if moved:
            if before is None:
                self._purgatory.touch(log.topic_partition)
            else:
                self._log_trace.due_to(
                    self._log_trace.moved(log, before),
                    lambda: self._purgatory.touch(log.topic_partition),
                )
        return moved

    def log_start_raised(self, log: PartitionLog) -> None:
        """Records of a led log were deleted: its followers are told, whoever waits looks again."""
        partition = self._replicas.replicated.get(log.topic_partition)
        if partition is not None:
            partition.log_start_raised()
        self._purgatory.touch(log.topic_partition)

    def deleted(self, partition: Partition) -> None:
        """A follower has deleted what its leader has."""
        self._purgatory.touch(partition.topic_partition)
