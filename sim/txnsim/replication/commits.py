"""Waiting for acks=-1: until the appended records lie below the high watermark.

Produce, markers and the records of a coordinator all wait here. Kafka's counterparts:
DelayedProduce, Partition.checkEnoughReplicasReachOffset.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from txnsim.errors import ErrorCode
from txnsim.log.partition_log import PartitionLog
from txnsim.node.purgatory import Parked, Purgatory
from txnsim.replica.replicas import Replicas
from txnsim.replication.leader_appends import Appends
from txnsim.runtime.pending import Pending
from txnsim.types import TopicPartition

_NONE: Final = ErrorCode.none


class Commits(msgspec.Struct, kw_only=True, eq=False):
    """The appends of one broker that wait to be replicated."""

    replicas: Replicas
    purgatory: Purgatory[TopicPartition]

    def committed(self, log: PartitionLog, offset: int, *, timeout_ms: int) -> Pending[ErrorCode]:
        """An answer once everything up to ``offset`` is committed or can't be any more."""
        keys = (log.topic_partition,)
        waiting = _Commit(
            self.purgatory.tasks,
            keys=keys,
            timeout_ms=timeout_ms,
            check=partial(self.outcome, log, offset),
            commits=self,
            log=log,
            offset=offset,
        )
        if log.high_watermark > offset:
            waiting.resolve(_NONE)
        else:
            self.purgatory.park(waiting)
        return waiting

    def are_late(self, appends: Appends) -> bool:
        """Whether any of them is not committed yet."""
        for log, last in appends:  # noqa: SIM110 - a generator takes a frame more
            if log.high_watermark <= last:
                return True
        return False

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
                entries[:] = [one for one in entries if not self._found(*one, failed)]
                if not entries:
                    del late[key]
            return not late

        await self.purgatory.wait(tuple(late), timeout_ms=timeout_ms, check=is_over)
        for key in tuple(late):
            is_over(key)
        for key in late:
            failed[key] = ErrorCode.request_timed_out
        return failed

    def _found(
        self, log: PartitionLog, last_offset: int, failed: dict[TopicPartition, ErrorCode]
    ) -> bool:
        error = self.outcome(log, last_offset)
        if error:
            failed[log.topic_partition] = error
        return error is not None

    def outcome(
        self, log: PartitionLog, last_offset: int, _key: TopicPartition | None = None
    ) -> ErrorCode | None:
        """What has become of an append; None where that is not known yet."""
        topic_partition = log.topic_partition
        if self.replicas.led.get(topic_partition) is not log:
            is_offline = topic_partition in self.replicas.offline
            return ErrorCode.kafka_storage_error if is_offline else ErrorCode.not_leader_or_follower
        if log.high_watermark <= last_offset:
            return None
        partition = self.replicas.replicated.get(topic_partition)
        if partition is not None and len(partition.maximal_isr) < partition.min_isr:
            # Even the largest ISR that may be true is too small
            # (Partition.checkEnoughReplicasReachOffset).
            return ErrorCode.not_enough_replicas_after_append
        return _NONE


class _Commit(Parked, kw_only=True, eq=False):
    """One append that is waited for."""

    commits: Commits
    log: PartitionLog
    offset: int

    def answer(self, *, done: bool) -> None:  # noqa: ARG002 - the log says what became of it
        outcome = self.commits.outcome(self.log, self.offset)
        self.resolve(ErrorCode.request_timed_out if outcome is None else outcome)
