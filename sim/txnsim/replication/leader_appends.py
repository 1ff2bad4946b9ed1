"""Appends a batch to a log that this broker leads. Produce, markers and both coordinators use it.

The steps: ask the gate, append, trace, move the high watermark, ask about flush and index. While no
fault rule is armed the gate costs one check and nothing waits. An answer to acks=-1 waits in
``Commits`` until the records are below the high watermark. Kafka's counterparts:
ReplicaManager.appendRecords, Partition.appendRecordsToLeader, updateFollowerFetchState and
checkEnoughReplicasReachOffset, DelayedProduce, ActionQueue.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_gate import DATA, LogGate
from txnsim.node.purgatory import ParkedOperation, Purgatory
from txnsim.replica.partition import LeaderPartition
from txnsim.replica.replicas import Replicas
from txnsim.replication.append_events import AppendEvents
from txnsim.runtime.environment import Clock
from txnsim.runtime.tasks import Pending
from txnsim.types import TopicPartition

_NO_ERROR: Final = ErrorCode.none

Appends = list[tuple[PartitionLog, int]]
"""(log, last offset) of each appended batch."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """A batch to append, with what its sender knows of it."""

    append_to_log: Callable[..., Appended | Rejection]
    """Appends the batch to a log; its arguments are the log and ``now_ms``."""

    def trace_append(
        self, events: AppendEvents, log: PartitionLog, _appended: Appended
    ) -> int | None:
        """Trace the append; returns the previous cause, or None if nothing was traced."""
        events.note_end_cause(log)
        return None

    def trace_refusal(self, events: AppendEvents, refusal: Rejection) -> None:
        """Traces that the log has refused the batch."""

    @property
    def aborted_producer_id(self) -> int | None:
        """Producer id of the transaction that the batch aborts; None if it aborts none."""
        return None


class WaitingBatch(Batch, frozen=True, gc=False):
    """A batch that may have to wait before it is appended."""

    kind: ClassVar[str] = DATA
    """Name of this kind of batch in fault rules."""

    find_log: Callable[[], PartitionLog | Rejection]
    """The led log that takes the batch, or the error. Called again after a wait."""

    @abstractmethod
    def subject(self) -> Subject:
        """What the batch is about, for fault rules: its partition, transaction and so on."""


class LeaderAppends(msgspec.Struct, kw_only=True, eq=False):
    """The appends to the logs that one broker leads."""

    clock: Clock
    replicas: Replicas
    watermarks: Watermarks
    gate: LogGate
    log_events: AppendEvents

    @property
    def is_open(self) -> bool:
        """Whether neither a fault rule nor a full disk can object: then ``admit`` need not be
        called.
        """
        return self.gate.is_open

    def refuse_too_few_replicas(self, log: PartitionLog) -> AppendRejection | None:
        """The error for acks=-1 if too few replicas are in sync to begin with, else None."""
        refusal = self.replicas.too_few_in_sync(log.topic_partition)
        if refusal is None:
            return None
        # ReplicaManager.processFailedRecord answers with the log start: the log exists.
        return AppendRejection(
            error=refusal.error,
            reason=refusal.reason,
            rule=refusal.rule,
            log_start_offset=log.log_start_offset,
        )

    async def admit(self, subject: Subject, kind: str) -> Rejection | None:
        """Wait until a batch may be appended; returns None, or the error that it gets instead."""
        error = await self.gate.admit(subject, kind=kind)
        if error is None:
            return None
        return Rejection(error=error, reason="the log does not take the records")

    def append(
        self, batch: WaitingBatch, appends: Appends, *, now_ms: int | None = None
    ) -> Appended | Rejection | Coroutine[Any, Any, Appended | Rejection]:
        """Append a batch. Return the result, or a coroutine for it if a fault rule or a full disk
        may object. ``appends`` gets each successful append.
        """
        log, gate = batch.find_log(), self.gate
        if isinstance(log, Rejection):
            return log
        if gate.fault_points.network.interceptor.is_armed or gate.disk.is_full:
            return self._append_once_admitted(batch, appends)
        append_outcome = self.append_admitted(log, batch, now_ms=now_ms)
        if isinstance(append_outcome, Appended):
            appends.append((log, append_outcome.last_offset))
        return append_outcome

    async def _append_once_admitted(
        self, batch: WaitingBatch, appends: Appends
    ) -> Appended | Rejection:
        refusal = await self.admit(batch.subject(), batch.kind)
        if refusal is not None:
            return refusal
        log = batch.find_log()  # another broker may lead it by now
        if isinstance(log, Rejection):
            return log
        append_outcome = self.append_admitted(log, batch)
        if isinstance(append_outcome, Appended):
            appends.append((log, append_outcome.last_offset))
        return append_outcome

    def append_admitted(
        self,
        log: PartitionLog,
        batch: Batch,
        *,
        now_ms: int | None = None,
        needs_isr: bool = False,
    ) -> Appended | Rejection:
        """Append an admitted batch to its log and do what follows: tell followers, or without
        followers move the high watermark at once.

        Args:
            log: The log.
            batch: The batch.
            now_ms: The time; read from the clock unless given.
            needs_isr: Refuse the batch if too few replicas are in sync; for callers that have not
                checked it.
        """
        gate, events, topic_partition = self.gate, self.log_events, log.topic_partition
        leader_partition = self.replicas.replicated.get(topic_partition)
        if needs_isr and leader_partition is not None and leader_partition.is_under_min_isr:
            refusal = self.refuse_too_few_replicas(log)
            assert refusal is not None
            return refusal
        durable_before = None
        if gate.fault_points.network.interceptor.is_armed or gate.disk.is_full:
            disk_error = gate.refuse_full()
            if disk_error is not None:
                return Rejection(error=disk_error, reason="the disk is full")
            durable_before = gate.durable_part(log)
        is_traced = events.tracer.on
        append_outcome = batch.append_to_log(
            log, now_ms=self.clock.now_ms() if now_ms is None else now_ms
        )
        if isinstance(append_outcome, Rejection):
            if is_traced:
                batch.trace_refusal(events, append_outcome)
            return append_outcome
        previous_cause = batch.trace_append(events, log, append_outcome) if is_traced else None
        if leader_partition is None:
            is_committed = log.advance_high_watermark(log.local.end_offset)
        else:
            is_committed = leader_partition.note_append(self.watermarks.max_lag_and_now_ms)
        purgatory = self.watermarks.purgatory
        if is_committed and (topic_partition in purgatory.parked or purgatory.wide_operations):
            purgatory.touch(topic_partition)
        if previous_cause is not None:
            if is_committed:
                events.trace_watermarks(log)
            events.tracer.set_cause(previous_cause)
        if durable_before is not None:
            aborted_producer_id = batch.aborted_producer_id
            aborted_offset = None if aborted_producer_id is None else append_outcome.base_offset
            gate.after_append(
                log,
                durable_before,
                abort_marker_offset=aborted_offset,
                producer_id=aborted_producer_id,
            )
        return append_outcome


class Watermarks(msgspec.Struct, kw_only=True, eq=False):
    """Moves the high watermarks of the partitions that one broker leads, and wakes the requests
    that wait for them.
    """

    clock: Clock
    replicas: Replicas
    purgatory: Purgatory[TopicPartition]
    log_events: AppendEvents

    def advance(self, leader_partition: LeaderPartition) -> bool:
        """Move the high watermark as far as possible after a follower or the ISR has changed;
        returns whether it has moved.
        """
        if not leader_partition.advance_high_watermark(self.max_lag_and_now_ms):
            return False
        tracer, topic_partition = self.log_events.tracer, leader_partition.topic_partition
        if not tracer.on:
            self.purgatory.touch(topic_partition)
            return True
        previous_cause = tracer.set_cause(self.log_events.trace_watermarks(leader_partition.log))
        try:
            self.purgatory.touch(topic_partition)
        finally:
            tracer.set_cause(previous_cause)
        return True

    def max_lag_and_now_ms(self) -> tuple[int, int]:
        """(maximum lag in ms, monotonic time in ms), which a partition needs when a replica is
        about to join (``replica.partition``).
        """
        return self.replicas.dynamic_settings.replica_lag_time_max_ms, self.clock.monotonic_ms()

    def note_raised_log_start(self, log: PartitionLog) -> None:
        """Inform followers and wake waiting requests after records of a led log were deleted."""
        leader_partition = self.replicas.replicated.get(log.topic_partition)
        if leader_partition is not None:
            leader_partition.note_raised_log_start()
        self.purgatory.touch(log.topic_partition)

    def note_deletion(self, leader_partition: LeaderPartition) -> None:
        """Wake waiting requests after a follower has deleted the same records as its leader."""
        self.purgatory.touch(leader_partition.topic_partition)


class Commits(msgspec.Struct, kw_only=True, eq=False):
    """The appends of one broker that wait until they are replicated."""

    replicas: Replicas
    purgatory: Purgatory[TopicPartition]

    def wait_for_commit(
        self, log: PartitionLog, offset: int, *, timeout_ms: int
    ) -> Pending[ErrorCode]:
        """A future for the result of an append, done when all records up to ``offset`` are
        committed, or can't be any more.
        """
        keys = (log.topic_partition,)
        commit = _Commit(
            self.purgatory.tasks,
            keys=keys,
            timeout_ms=timeout_ms,
            check=partial(self.outcome, log, offset),
            commits=self,
            log=log,
            offset=offset,
        )
        if log.high_watermark > offset:
            commit.resolve(_NO_ERROR)
        else:
            self.purgatory.park(commit)
        return commit

    def are_late(self, appends: Appends) -> bool:
        """Whether any of the appends is not committed yet."""
        for log, last_offset in appends:  # noqa: SIM110 - a generator takes a frame more
            if log.high_watermark <= last_offset:
                return True
        return False

    async def wait(self, appends: Appends, *, timeout_ms: int) -> dict[TopicPartition, ErrorCode]:
        """Wait until each append is committed or can't be any more; returns the errors by
        partition.
        """
        late_appends_by_partition: dict[TopicPartition, Appends] = {}
        for log, last_offset in appends:
            if log.high_watermark <= last_offset:
                late_appends_by_partition.setdefault(log.topic_partition, []).append(
                    (log, last_offset)
                )
        if not late_appends_by_partition:
            return {}
        error_by_partition: dict[TopicPartition, ErrorCode] = {}

        def is_over(topic_partition: TopicPartition) -> bool:
            partition_appends = late_appends_by_partition.get(topic_partition)
            if partition_appends is not None:
                partition_appends[:] = [
                    append
                    for append in partition_appends
                    if not self._is_decided(*append, error_by_partition)
                ]
                if not partition_appends:
                    del late_appends_by_partition[topic_partition]
            return not late_appends_by_partition

        await self.purgatory.wait(
            tuple(late_appends_by_partition), timeout_ms=timeout_ms, check=is_over
        )
        for topic_partition in tuple(late_appends_by_partition):
            is_over(topic_partition)
        for topic_partition in late_appends_by_partition:
            error_by_partition[topic_partition] = ErrorCode.request_timed_out
        return error_by_partition

    def _is_decided(
        self,
        log: PartitionLog,
        last_offset: int,
        error_by_partition: dict[TopicPartition, ErrorCode],
    ) -> bool:
        error = self.outcome(log, last_offset)
        if error:
            error_by_partition[log.topic_partition] = error
        return error is not None

    def outcome(
        self, log: PartitionLog, last_offset: int, _key: TopicPartition | None = None
    ) -> ErrorCode | None:
        """The result of an append; None while it is pending."""
        topic_partition = log.topic_partition
        if self.replicas.led.get(topic_partition) is not log:
            is_offline = topic_partition in self.replicas.offline
            return ErrorCode.kafka_storage_error if is_offline else ErrorCode.not_leader_or_follower
        if log.high_watermark <= last_offset:
            return None
        leader_partition = self.replicas.replicated.get(topic_partition)
        if (
            leader_partition is not None
            and len(leader_partition.maximal_isr) < leader_partition.min_isr
        ):
            # Even the largest ISR that may be true is too small
            # (Partition.checkEnoughReplicasReachOffset).
            return ErrorCode.not_enough_replicas_after_append
        return _NO_ERROR


class _Commit(ParkedOperation, kw_only=True, eq=False):
    """One append whose commit is waited for."""

    commits: Commits
    log: PartitionLog
    offset: int

    def answer(self, *, is_done: bool) -> None:  # noqa: ARG002 - the log says what became of it
        outcome = self.commits.outcome(self.log, self.offset)
        self.resolve(ErrorCode.request_timed_out if outcome is None else outcome)
