"""Waiting for acks=-1: until the appended records lie below the high watermark.

Produce, markers and the records of a coordinator all wait here. Kafka's counterparts:
DelayedProduce, Partition.checkEnoughReplicasReachOffset.
"""

from __future__ import annotations

import msgspec

from txnsim.errors import ErrorCode
from txnsim.log.partition_log import PartitionLog
from txnsim.node.purgatory import Purgatory
from txnsim.replica.replicas import Replicas
from txnsim.replication.leader_appends import Appends
from txnsim.types import TopicPartition


class Commits(msgspec.Struct, kw_only=True, eq=False):
    """The appends of one broker that wait to be replicated."""

    replicas: Replicas
    purgatory: Purgatory[TopicPartition]

    async def committed(self, log: PartitionLog, offset: int, *, timeout_ms: int) -> ErrorCode:
        """Wait until everything up to ``offset`` is committed or can't be any more."""
        failed = await self.wait([(log, offset)], timeout_ms=timeout_ms)
        return failed.get(log.topic_partition, ErrorCode.none)

    async def wait(self, appends: Appends, *, timeout_ms: int) -> dict[TopicPartition, ErrorCode]:
        """Wait until each append is committed or can't be any more; what failed, by partition."""
        late: dict[TopicPartition, Appends] = {}
        for log, last in appends:
            if log.high_watermark <= last:
                late.setdefault(log.topic_partition, []).append((log, last))
        if not late:
            return {}
        failed: dict[TopicPartition, ErrorCode] = {}

        def is_over(key: TopicPartition) -> bool:
            entries = late.get(key)
            if entries is not None:
                entries[:] = [one for one in entries if not self._is_settled(*one, failed)]
                if not entries:
                    del late[key]
            return not late

        await self.purgatory.wait(tuple(late), timeout_ms=timeout_ms, check=is_over)
        for key in tuple(late):
            is_over(key)
        for key in late:
            failed[key] = ErrorCode.request_timed_out
        return failed

    def _is_settled(
        self, log: PartitionLog, last_offset: int, failed: dict[TopicPartition, ErrorCode]
    ) -> bool:
        topic_partition = log.topic_partition
        if self.replicas.led.get(topic_partition) is not log:
            is_offline = topic_partition in self.replicas.offline
            failed[topic_partition] = (
                ErrorCode.kafka_storage_error if is_offline else ErrorCode.not_leader_or_follower
            )
            return True
        if log.high_watermark <= last_offset:
            return False
        partition = self.replicas.replicated.get(topic_partition)
        if partition is not None and partition.lost_min_isr:
            failed[topic_partition] = ErrorCode.not_enough_replicas_after_append
        return True
