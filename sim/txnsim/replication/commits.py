"""Waiting for acks=-1: until what was appended lies below the high watermark.

Produce, markers and the records of a coordinator all wait here. Kafka's counterparts:
DelayedProduce, Partition.checkEnoughReplicasReachOffset.
"""

from __future__ import annotations

from txnsim.errors import ErrorCode, Rejection
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_gate import LogGate
from txnsim.node.purgatory import Purgatory
from txnsim.replica.replicas import Replicas
from txnsim.replication.watermarks import Watermarks
from txnsim.runtime.env import Clock
from txnsim.types import TopicPartition

Appends = list[tuple[PartitionLog, int]]
"""(log, last offset) of each batch."""


class Commits:
    """The appends of one broker that wait to be replicated."""

    __slots__ = ("_clock", "_purgatory", "_replicas", "_watermarks")

    def __init__(
        self,
        *,
        clock: Clock,
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
        watermarks: Watermarks,
    ) -> None:
        self._clock = clock
        self._replicas = replicas
        self._purgatory = purgatory
        self._watermarks = watermarks

    async def append(
        self, log: PartitionLog, batch: bytes, *, timeout_ms: int, gate: LogGate | None = None
    ) -> ErrorCode:
        """Append a coordinator's batch to a led log and wait until it is committed.

        Args:
            log: The log.
            batch: The batch.
            timeout_ms: How long to wait.
            gate: If given, it has let the batch pass, and is told when that is in the log.
        """
        too_few = self._replicas.too_few_in_sync(log.topic_partition)
        if too_few is not None:
            return too_few.error
        before = None if gate is None else gate.durable(log)
        appended = log.append_coordinator(batch, now_ms=self._clock.now_ms())
        if isinstance(appended, Rejection):
            return appended.error
        if gate is not None and before is not None:
            gate.appended(log, before)
        self._watermarks.coordinator_appended(log)
        if log.high_watermark > appended.last_offset:
            return ErrorCode.none
        failed = await self.wait([(log, appended.last_offset)], timeout_ms=timeout_ms)
        return failed.get(log.topic_partition, ErrorCode.none)

    async def wait(self, appends: Appends, *, timeout_ms: int) -> dict[TopicPartition, ErrorCode]:
        """Wait until each append is committed or can't be any more; what failed, by partition."""
        late = [(log, last) for log, last in appends if log.high_watermark <= last]
        if not late:
            return {}
        failed: dict[TopicPartition, ErrorCode] = {}

        def is_over() -> bool:
            late[:] = [entry for entry in late if not self._is_settled(*entry, failed)]
            return not late

        await self._purgatory.wait(
            [log.topic_partition for log, _ in late], timeout_ms=timeout_ms, check=is_over
        )
        is_over()
        for log, _ in late:
            failed[log.topic_partition] = ErrorCode.request_timed_out
        return failed

    def _is_settled(
        self, log: PartitionLog, last_offset: int, failed: dict[TopicPartition, ErrorCode]
    ) -> bool:
        topic_partition = log.topic_partition
        if self._replicas.led.get(topic_partition) is not log:
            is_offline = topic_partition in self._replicas.offline
            failed[topic_partition] = (
                ErrorCode.kafka_storage_error if is_offline else ErrorCode.not_leader_or_follower
            )
            return True
        if log.high_watermark <= last_offset:
            return False
        partition = self._replicas.replicated.get(topic_partition)
        if partition is not None and partition.lost_min_isr:
            failed[topic_partition] = ErrorCode.not_enough_replicas_after_append
        return True
