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
from txnsim.loggers import Logger, Retries
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

RETRY_MS: Final = 50
RETRY_MAX_MS: Final = 1_000
PATIENCE: Final = 10
"""Failures in a row before a warning is logged: the last pauses are 1 s each."""

_log: Final = Logger("txnsim.replication")


class IsrChanges(msgspec.Struct, kw_only=True, eq=False):
    """Requests for changes of the ISRs of the partitions that one broker leads."""

    broker_id: BrokerId
    clock: Clock
    settings: Callable[[], Settings]
    image: Callable[[], ClusterImage]
    peers: Peers
    replicas: Replicas
    watermarks: Watermarks
    _queue: dict[TopicPartition, tuple[LeaderPartition, IsrChange]] = {}
    _is_under_way: bool = False
    _is_up: bool = False
    _pause_ms: int = RETRY_MS
    _timer: TimerHandle | None = None
    _unanswered: Retries = msgspec.field(
        default_factory=lambda: Retries(_log, "isr.change.failing", "broker", patience=PATIENCE)
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
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()

    # Changes

    def submit(self, partition: LeaderPartition, change: IsrChange) -> None:
        """Send a change with the next AlterPartition request."""
        self._queue[partition.topic_partition] = (partition, change)
        self._send()

    def check(self) -> None:
        """Ask for a smaller ISR of each partition with followers that have fallen behind."""
        lag_max_ms = self.settings().replica_lag_time_max_ms
        now_ms = self.clock.monotonic_ms()
        for partition in self.replicas.replicated.values():
            change = partition.shrunk(lag_max_ms=lag_max_ms, now_ms=now_ms)
            if change is not None:
                self.submit(partition, change)

    # Parts

    def _arm_check(self) -> None:
        interval_ms = self.settings().replica_lag_time_max_ms / 2
        due_ms = self.clock.monotonic_ms() + interval_ms

        def check() -> None:
            # Followers that could not fetch while the whole process stood still do so first.
            if not stood_still(due_ms, self.clock.monotonic_ms()):
                self.check()
            self._arm_check()

        self._timer = self.clock.call_later(interval_ms, check)

    def _send(self) -> None:
        if self._is_under_way or not self._queue or not self._is_up:
            return
        self._is_under_way = True
        changes, self._queue = self._queue, {}
        command = AlterPartitionCommand(
            broker_id=self.broker_id,
            broker_epoch=self.image().brokers[self.broker_id].epoch,
            partitions=tuple(change for _, change in changes.values()),
        )
        self.peers.alter_partition(command).on_done(lambda answer: self._on_answer(changes, answer))

    def _on_answer(
        self,
        changes: dict[TopicPartition, tuple[LeaderPartition, IsrChange]],
        answer: Pending[AlterPartitionReply],
    ) -> None:
        if not self._is_up:
            return
        error = answer.exception()
        if error is not None and not isinstance(error, PeerError):
            raise error
        if error is not None or answer.result().error:
            repeats = changes
            code = None if error is not None else ErrorCode(answer.result().error)
            self._unanswered.note_failure(
                self.broker_id,
                type(error).__name__ if code is None else code.name.upper(),
                f"the controller does not change the ISR of {', '.join(map(str, changes))[:200]}",
            )
        else:
            repeats = self._take(changes, answer.result())
            if not repeats:
                self._unanswered.forget_failures(self.broker_id)
                self._pause_ms = RETRY_MS
                self._is_under_way = False
                self._send()
                return
        # A change that was requested meanwhile is newer than the one to send again.
        self._queue = {**repeats, **self._queue}
        pause_ms, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, RETRY_MAX_MS)
        self.clock.call_later(pause_ms, self._send_again)

    def _send_again(self) -> None:
        self._is_under_way = False
        self._send()

    def _take(
        self,
        changes: dict[TopicPartition, tuple[LeaderPartition, IsrChange]],
        reply: AlterPartitionReply,
    ) -> dict[TopicPartition, tuple[LeaderPartition, IsrChange]]:
        """Hand the answers to their partitions; returns the changes to request again."""
        repeats: dict[TopicPartition, tuple[LeaderPartition, IsrChange]] = {}
        answers = {
            (answer.topic_id, answer.topic_partition.partition): answer
            for answer in reply.partitions
        }
        for topic_partition, (partition, change) in changes.items():
            answer = answers.get((partition.topic_id, topic_partition.partition))
            if answer is None or self.replicas.replicated.get(topic_partition) is not partition:
                continue
            repeated = partition.take_answer(answer, change)
            if repeated is not None:
                repeats[topic_partition] = (partition, repeated)
            self.watermarks.advance(partition)
        return repeats
