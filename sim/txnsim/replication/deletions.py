"""DeleteRecords: the leader deletes records, then waits until every live replica has deleted them.

The answer is the low watermark, the lowest log start of all live replicas. Kafka's counterparts:
Partition.deleteRecordsOnLeader, DelayedDeleteRecords, Partition.lowWatermarkIfLeader.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.log.partition_log import PartitionLog
from txnsim.node.purgatory import Purgatory
from txnsim.replica.replicas import Replicas
from txnsim.replication.leader_appends import Watermarks
from txnsim.types import TopicPartition


class LateDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """Not every live replica has deleted the records in time."""

    low_watermark: int
    """Low watermark right after the leader's deletion."""


Outcome = int | ErrorCode | LateDeletion
"""A low watermark, an error, or a timeout."""


class Deletions(msgspec.Struct, kw_only=True, eq=False):
    """The deletions of one broker, and the requests that wait for followers to delete the same
    records.
    """

    replicas: Replicas
    purgatory: Purgatory[TopicPartition]
    watermarks: Watermarks

    def delete(self, log: PartitionLog, offset: int) -> int | Rejection:
        """Delete the records below an offset from a log that this broker leads; returns the new log
        start.
        """
        start_before = log.log_start_offset
        log_start = log.delete_records_before(offset)
        if isinstance(log_start, Rejection):
            return log_start
        self.watermarks.note_raised_log_start(log)
        events = self.watermarks.log_events
        if events.tracer.on and log_start != start_before:
            events.trace_start(log, "DeleteRecords")
        return log_start

    async def wait(
        self, offset_by_partition: Mapping[TopicPartition, int], *, timeout_ms: int
    ) -> dict[TopicPartition, Outcome]:
        """Wait until no live broker has records below these offsets. Return the low watermark of
        each partition, or why it was not reached.
        """
        outcome_by_partition: dict[TopicPartition, Outcome] = {}
        pending_offsets = dict(offset_by_partition)
        low_watermark_by_partition: dict[TopicPartition, int] = {}

        def is_over(topic_partition: TopicPartition) -> bool:
            offset = pending_offsets.get(topic_partition)
            if offset is not None:
                low_watermark = self._low_watermark(topic_partition)
                if isinstance(low_watermark, ErrorCode) or low_watermark >= offset:
                    outcome_by_partition[topic_partition] = low_watermark
                    del pending_offsets[topic_partition]
                else:
                    low_watermark_by_partition.setdefault(topic_partition, low_watermark)
            return not pending_offsets

        for topic_partition in offset_by_partition:
            is_over(topic_partition)
        if pending_offsets:
            await self.purgatory.wait(list(pending_offsets), timeout_ms=timeout_ms, check=is_over)
            for topic_partition in list(pending_offsets):
                is_over(topic_partition)
            outcome_by_partition.update(
                {
                    late_partition: LateDeletion(
                        low_watermark=low_watermark_by_partition[late_partition]
                    )
                    for late_partition in pending_offsets
                }
            )
        return outcome_by_partition

    def _low_watermark(self, topic_partition: TopicPartition) -> int | ErrorCode:
        log = self.replicas.led.get(topic_partition)
        if log is None:
            return ErrorCode.not_leader_or_follower
        leader_partition = self.replicas.replicated.get(topic_partition)
        if leader_partition is None:
            return log.log_start_offset
        return leader_partition.low_watermark(self.replicas.image.is_alive)
