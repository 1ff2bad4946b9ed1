"""Asks the controller for larger and smaller ISRs of the partitions that this broker leads.

One AlterPartition is in flight at a time; changes that come up meanwhile go with the next. A
request that gets no answer is sent again, with growing pauses. Until it is answered the larger ISR
counts, so no committed record is lost by waiting. Kafka's counterpart: AlterPartitionManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, PeerError
from txnsim.interbroker.replication import AlterPartitionCommand, AlterPartitionReply, IsrChange
from txnsim.loggers import FailureLog, Logger
from txnsim.metadata.image import ClusterImage
from txnsim.node.peers import Peers
from txnsim.replica.partition import LeaderPartition
from txnsim.replica.replicas import Replicas
from txnsim.replication.leader_appends import Watermarks
from txnsim.runtime.clock import stood_still
from txnsim.runtime.environment import Clock, TimerHandle
from txnsim.runtime.tasks import Pending
from txnsim.settings import Settings
from txnsim.types import BrokerId, TopicPartition

RETRY_PAUSE_MS: Final = 50
RETRY_PAUSE_MAX_MS: Final = 1_000
FAILURES_BEFORE_WARNING: Final = 10
"""Failures in a row before a warning is logged: the last pauses are 1 s each."""

_logger: Final = Logger("txnsim.replication")


class IsrChanges(msgspec.Struct, kw_only=True, eq=False):
    """Requests for changes of the ISRs of the partitions that one broker leads."""

    broker_id: BrokerId
    clock: Clock
    settings: Callable[[], Settings]
    image: Callable[[], ClusterImage]
    peers: Peers
    replicas: Replicas
    watermarks: Watermarks
    _queued_changes: dict[TopicPartition, tuple[LeaderPartition, IsrChange]] = {}
    _is_request_pending: bool = False
    _is_up: bool = False
    _retry_pause_ms: int = RETRY_PAUSE_MS
    _check_timer: TimerHandle | None = None
    _failures: FailureLog = msgspec.field(
        default_factory=lambda: FailureLog(
            _logger, "isr.change.failing", "broker", patience=FAILURES_BEFORE_WARNING
        )
    )

    # Life

    def start(self) -> None:
        """Start the periodic check for followers that fall behind (ReplicaManager's
        isr-expiration).
        """
        self._is_up = True
        self._arm_check()

    def stop(self) -> None:
        self._is_up = False
        self._queued_changes.clear()
        if self._check_timer is not None:
            self._check_timer.cancel()

    # Changes

    def submit(self, leader_partition: LeaderPartition, change: IsrChange) -> None:
        """Send a change with the next AlterPartition request."""
        self._queued_changes[leader_partition.topic_partition] = (leader_partition, change)
        self._send_queued()

    def check(self) -> None:
        """Ask for a smaller ISR of each partition with followers that have fallen behind."""
        lag_max_ms = self.settings().replica_lag_time_max_ms
        now_ms = self.clock.monotonic_ms()
        for leader_partition in self.replicas.replicated.values():
            isr_change = leader_partition.shrink_isr(lag_max_ms=lag_max_ms, now_ms=now_ms)
            if isr_change is not None:
                self.submit(leader_partition, isr_change)

    # Parts

    def _arm_check(self) -> None:
        interval_ms = self.settings().replica_lag_time_max_ms / 2
        due_ms = self.clock.monotonic_ms() + interval_ms

        def check() -> None:
            # Followers that could not fetch while the whole process stood still do so first.
            if not stood_still(due_ms, self.clock.monotonic_ms()):
                self.check()
            self._arm_check()

        self._check_timer = self.clock.call_later(interval_ms, check)

    def _send_queued(self) -> None:
        if self._is_request_pending or not self._queued_changes or not self._is_up:
            return
        self._is_request_pending = True
        queued_changes, self._queued_changes = self._queued_changes, {}
        command = AlterPartitionCommand(
            broker_id=self.broker_id,
            broker_epoch=self.image().brokers[self.broker_id].epoch,
            partitions=tuple(change for _, change in queued_changes.values()),
        )
        self.peers.alter_partition(command).on_done(
            lambda answer: self._on_answer(queued_changes, answer)
        )

    def _on_answer(
        self,
        sent_changes: dict[TopicPartition, tuple[LeaderPartition, IsrChange]],
        pending_answer: Pending[AlterPartitionReply],
    ) -> None:
        if not self._is_up:
            return
        error = pending_answer.exception()
        if error is not None and not isinstance(error, PeerError):
            raise error
        if error is not None or pending_answer.result().error:
            changes_to_repeat = sent_changes
            error_code = None if error is not None else ErrorCode(pending_answer.result().error)
            self._failures.note_failure(
                self.broker_id,
                type(error).__name__ if error_code is None else error_code.name.upper(),
                "the controller does not change the ISR of"
                f" {', '.join(map(str, sent_changes))[:200]}",
            )
        else:
            changes_to_repeat = self._take_answers(sent_changes, pending_answer.result())
            if not changes_to_repeat:
                self._failures.forget_failures(self.broker_id)
                self._retry_pause_ms = RETRY_PAUSE_MS
                self._is_request_pending = False
                self._send_queued()
                return
        # A change that was requested meanwhile is newer than the one to send again.
        self._queued_changes = {**changes_to_repeat, **self._queued_changes}
        pause_ms, self._retry_pause_ms = (
            self._retry_pause_ms,
            min(2 * self._retry_pause_ms, RETRY_PAUSE_MAX_MS),
        )
        self.clock.call_later(pause_ms, self._send_again)

    def _send_again(self) -> None:
        self._is_request_pending = False
        self._send_queued()

    def _take_answers(
        self,
        sent_changes: dict[TopicPartition, tuple[LeaderPartition, IsrChange]],
        reply: AlterPartitionReply,
    ) -> dict[TopicPartition, tuple[LeaderPartition, IsrChange]]:
        """Hand the answers to their partitions; returns the changes to request again."""
        changes_to_repeat: dict[TopicPartition, tuple[LeaderPartition, IsrChange]] = {}
        answer_by_partition = {
            (answer.topic_id, answer.topic_partition.partition): answer
            for answer in reply.partitions
        }
        for topic_partition, (leader_partition, change) in sent_changes.items():
            answer = answer_by_partition.get((leader_partition.topic_id, topic_partition.partition))
            if (
                answer is None
                or self.replicas.replicated.get(topic_partition) is not leader_partition
            ):
                continue
            change_to_repeat = leader_partition.take_answer(answer, change)
            if change_to_repeat is not None:
                changes_to_repeat[topic_partition] = (leader_partition, change_to_repeat)
            self.watermarks.advance(leader_partition)
        return changes_to_repeat
