"""Periodic work of a broker on its logs: expire idle producers, checkpoint high watermarks.

Kafka's counterparts: the producer expiration task of LogManager, the high watermark checkpoint of
ReplicaManager, CheckpointFileWithFailureHandler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.node.crossings import TimerGate
from txnsim.node.log_events import LogEvents
from txnsim.node.log_gate import LogGate
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.runtime.env import Clock, TimerHandle
from txnsim.settings import Settings
from txnsim.types import TopicPartition


class Housekeeping(msgspec.Struct, kw_only=True, eq=False):
    """The timers of one broker over the logs that it hosts."""

    clock: Clock
    """Says when a timer is due."""
    settings: Callable[[], Settings]
    """The broker's settings as they are now."""
    hosted: Mapping[TopicPartition, PartitionLog]
    """The logs that the broker hosts, as they are now."""
    logs: BrokerLogs
    """The broker's disk."""
    gate: LogGate
    """Refuses batches that do not fit on the disk."""
    timers: TimerGate
    """The fault point ``timer`` of this broker."""
    log_events: LogEvents
    """Gets an event for each producer that expires."""
    _expiry_timer: TimerHandle | None = None
    _checkpoint_timer: TimerHandle | None = None

    def start(self) -> None:
        """Start the timers."""
        self._arm_expiry()
        self._arm_checkpoint()

    def stop(self) -> None:
        for timer in (self._expiry_timer, self._checkpoint_timer):
            if timer is not None:
                timer.cancel()

    def note_log_starts(self) -> None:
        """Write the checkpoint of log start offsets."""
        if self._can_note():
            self.logs.note_log_starts()

    def _arm_expiry(self) -> None:
        interval_ms = self.settings().producer_id_expiration_check_interval_ms
        self._expiry_timer = self.clock.call_at(
            self.clock.now_ms() + interval_ms,
            lambda: self.timers("producer-id-expiration", self._expire, self._arm_expiry),
        )

    def _expire(self) -> None:
        now_ms = self.clock.now_ms()
        for log in self.hosted.values():
            expired = log.expire_producers(now_ms)
            if expired and self.log_events.tracer.on:
                self.log_events.timer(
                    "producer.id.expiration",
                    self.settings().producer_id_expiration_check_interval_ms,
                )
                self.log_events.expired(log, expired)
        self._arm_expiry()

    def _arm_checkpoint(self) -> None:
        self._checkpoint_timer = self.clock.call_later(
            self.settings().replica_high_watermark_checkpoint_interval_ms, self._checkpoint
        )

    def _checkpoint(self) -> None:
        if self._can_note():
            self.logs.checkpoint()
        self._arm_checkpoint()

    def _can_note(self) -> bool:
        """Checkpoints are written to the log directory, so a full disk is noticed now at the latest
        (CheckpointFileWithFailureHandler).
        """
        return self.gate.refuse_full() is None and not self.logs.has_failed
