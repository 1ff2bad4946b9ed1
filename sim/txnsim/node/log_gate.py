"""The gate in front of a broker's logs: an append asks here first whether it may proceed.

Two things can object: a full disk, which takes the log directory offline with the first write that
fails, and fault rules at the points ``log.append``, ``log.flush`` and ``log.index``. A request that
waits here is like a stopped request thread: other requests overtake it, and the log has their
changes when it goes on. So the caller checks leader, epochs and guards afterwards.

The log itself is pure: it flushes, rolls and indexes in one step. If a rule forbids a part of that
step, the part is undone right after it, before any reader can see it. Kafka's counterparts:
UnifiedLog.append's maybeHandleIOException, LogDirFailureChannel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from txnsim.errors import ErrorCode
from txnsim.faults.interception import FaultEffect
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.log.partition_log import PartitionLog
from txnsim.node.broker_fault_points import BrokerFaultPoints, error_in, is_lost
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.types import INTERNAL_TOPICS, TopicPartition

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
DATA: Final = "data"
MARKER: Final = "marker"
COORDINATOR: Final = "coordinator"
ABORTED_RANGE: Final = "aborted-range"
PRODUCER_SNAPSHOT: Final = "producer-snapshot"


class DurablePart(msgspec.Struct, frozen=True, gc=False):
    """The flushed part of a log before an append."""

    recovery_point: int
    snapshot_offset: int | None


class LogGate(msgspec.Struct, kw_only=True, eq=False):
    """The gate in front of one broker's logs."""

    fault_points: BrokerFaultPoints
    disk: BrokerLogs
    """The broker's logs."""
    directory_failed: Callable[[], object]
    """Called to take the log directory offline."""

    @property
    def is_open(self) -> bool:
        """Whether nothing can delay or refuse an append: no rule is armed, and the disk is not
        full.
        """
        return not (self.fault_points.network.interceptor.is_armed or self.disk.is_full)

    def refuse_full(self) -> ErrorCode | None:
        """The error of a write if the disk is full, which also takes the directory offline; else
        None.
        """
        if not self.disk.is_full:
            return None
        self.directory_failed()
        return ErrorCode.kafka_storage_error

    async def admit(self, subject: Subject, *, kind: str, role: str = LEADER) -> ErrorCode | None:
        """Wait until a batch may be appended; returns None, or the error that it gets instead."""
        fault_points = self.fault_points
        if fault_points.is_armed:
            error = error_in(
                await fault_points.verdict(
                    FaultPoint.LOG_APPEND, subject, kind=kind, role_name=role
                )
            )
            if error:
                return ErrorCode(error)
        if fault_points.is_stopped:
            return ErrorCode.not_leader_or_follower  # the answer goes to no client
        return self.refuse_full()

    async def admit_replicated(
        self, topic_partition: TopicPartition, batch: ReplicatedBatch
    ) -> ErrorCode | None:
        """Do the same as ``admit``, for a follower that appends its leader's batch."""
        is_internal = topic_partition.topic in INTERNAL_TOPICS
        subject = Subject(
            producer_id=batch.producer_id if batch.producer_id >= 0 else None,
            partitions=(topic_partition,),
            committed=batch.committed if batch.is_marker else None,
        )
        kind = MARKER if batch.is_marker else COORDINATOR if is_internal else DATA
        return await self.admit(subject, kind=kind, role=FOLLOWER)

    # Behind an append

    def durable_part(self, log: PartitionLog) -> DurablePart:
        """The flushed part of the log before an append, to be passed to ``after_append``."""
        return DurablePart(log.local.recovery_point, log.producers.newest_snapshot_offset)

    def after_append(
        self,
        log: PartitionLog,
        durable_before: DurablePart,
        *,
        role: str = LEADER,
        abort_marker_offset: int | None = None,
        producer_id: int | None = None,
    ) -> None:
        """Ask the fault rules about the index entries and the flush that came with an append, and
        undo what they forbid. ``abort_marker_offset`` is the offset of the batch, if it is an ABORT
        marker.
        """
        if not self.fault_points.is_armed:
            return
        topic_partition = log.topic_partition
        if abort_marker_offset is not None and abort_marker_offset in log.local.index:
            self.fault_points.go_on(
                lambda verdict: (
                    log.local.index.remove(abort_marker_offset) if is_lost(verdict) else None
                ),
                FaultPoint.LOG_INDEX,
                Subject(partitions=(topic_partition,), producer_id=producer_id, committed=False),
                kind=ABORTED_RANGE,
                role_name=role,
            )
        snapshot_offset = log.producers.newest_snapshot_offset
        if snapshot_offset is not None and snapshot_offset != durable_before.snapshot_offset:
            self.fault_points.go_on(
                lambda verdict: (
                    log.producers.snapshots.remove(snapshot_offset) if is_lost(verdict) else None
                ),
                FaultPoint.LOG_INDEX,
                Subject(partitions=(topic_partition,)),
                kind=PRODUCER_SNAPSHOT,
                role_name=role,
            )
        if log.local.recovery_point > durable_before.recovery_point:
            self._flush(log, topic_partition, durable_before.recovery_point, role)

    def after_replication(
        self, log: PartitionLog, durable_before: DurablePart, batch: ReplicatedBatch
    ) -> None:
        """Do the same as ``after_append``, for a follower."""
        is_abort = batch.is_marker and not batch.committed
        self.after_append(
            log,
            durable_before,
            role=FOLLOWER,
            abort_marker_offset=batch.base_offset if is_abort else None,
            producer_id=batch.producer_id,
        )

    def _flush(
        self, log: PartitionLog, topic_partition: TopicPartition, recovery_before: int, role: str
    ) -> None:
        flushed_end = log.local.recovery_point
        log.local.lose_flush(recovery_before)

        def flush(fault_effect: FaultEffect | None) -> None:
            if error_in(fault_effect):
                self.directory_failed()
            elif not is_lost(fault_effect):
                log.local.flush_up_to(flushed_end)

        self.fault_points.go_on(
            flush, FaultPoint.LOG_FLUSH, Subject(partitions=(topic_partition,)), role_name=role
        )
