"""Periodic work on the logs that a broker hosts: expiry of producers, checkpoints.

Counterparts in Kafka: the timers of LogManager and ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.node.broker_fault_points import TimerGate
from txnsim.node.log_events import LogEvents
from txnsim.node.log_gate import LogGate
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import ignore_end
from txnsim.settings import Settings
from txnsim.types import TopicPartition


class Housekeeping(msgspec.Struct, kw_only=True, eq=False):
    """Timers of one broker over the logs that it hosts."""

    clock: Clock
    """Tells when a timer is due."""
    tasks: Tasks
    settings: Callable[[], Settings]
    """Returns the broker's current settings."""
    hosted: Mapping[TopicPartition, PartitionLog]
    """The logs that the broker currently hosts."""
    logs: BrokerLogs
    """The broker's disk."""
    gate: LogGate
    """Refuses batches that do not fit on the disk."""
    timers: TimerGate
    """The ``timer`` fault point of this broker."""
    log_events: LogEvents
    """Traces each producer that expires."""
    _expiry_timer: TimerHandle | None = None
    _checkpoint_timer: TimerHandle | None = None
    _is_stopped: bool = False

    def start(self) -> None:
        self._arm_expiry()
        self._arm_checkpoint()

    def stop(self) -> None:
        self._is_stopped = True
        for timer in (self._expiry_timer, self._checkpoint_timer):
            if timer is not None:
                timer.cancel()

    def note_log_starts(self) -> None:
        """Write the checkpoint of log start offsets."""
        if self._can_write_checkpoints():
            self.logs.checkpoint_log_starts()

    def _arm_expiry(self) -> None:
        interval_ms = self.settings().producer_id_expiration_check_interval_ms
        self._expiry_timer = self.clock.call_at(
            self.clock.now_ms() + interval_ms,
            lambda: self.timers("producer-id-expiration", self._expire, self._arm_expiry),
        )

    def _expire(self) -> None:
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        self.tasks.drive(pace.run(self._expire_in_steps()), ignore_end, name="producers.expiry")
        self._arm_expiry()

    def _expire_in_steps(self) -> Generator[int, None, None]:
        now_ms = self.clock.now_ms()
        for log in list(self.hosted.values()):
            if self._is_stopped:
                return
            expired_producers = log.expire_producers(now_ms)
            if expired_producers and self.log_events.tracer.on:
                self.log_events.trace_timer(
                    "producer.id.expiration",
                    self.settings().producer_id_expiration_check_interval_ms,
                )
                self.log_events.trace_expiry(log, expired_producers)
            yield 1 + len(log.producers.state.by_id) // 4

    def _arm_checkpoint(self) -> None:
        self._checkpoint_timer = self.clock.call_later(
            self.settings().replica_high_watermark_checkpoint_interval_ms, self._checkpoint
        )

    def _checkpoint(self) -> None:
        if self._can_write_checkpoints():
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
            checkpoint_steps = self.logs.checkpoint_high_watermarks(lambda: self._is_stopped)
            self.tasks.drive(pace.run(checkpoint_steps), ignore_end, name="logs.checkpoint")
        self._arm_checkpoint()

    def _can_write_checkpoints(self) -> bool:
        """Whether checkpoints can be written. They are in the log directory, so a full disk is
        noticed here at the latest (CheckpointFileWithFailureHandler).
        """
        return self.gate.refuse_full() is None and not self.logs.has_failed
