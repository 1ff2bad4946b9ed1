"""A coordinator's load: from the moment when its broker leads a partition of the coordinator's log
until it can answer.

The setting ``coordinator_load_min_ms`` and the fault point ``coordinator.load`` make a load last.
Reading a log in memory takes no simulated time, but all brokers share one event loop: a long log is
read in slices, and a broker runs one load after the other. During a load clients get
COORDINATOR_LOAD_IN_PROGRESS. Kafka's counterpart: the scheduled task of
TransactionStateManager.loadTransactionsForTxnTopicPartition.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from txnsim.faults.interception import FaultEffect
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.node.broker_fault_points import BrokerFaultPoints, error_in, is_lost
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import SLICE_NS, TimeSlices
from txnsim.types import TopicPartition

RECORD_NS: Final = 15_000
"""Assumed time to read a record, in nanoseconds, so that slices end at the same record in every
run.
"""


class LoadFunction(Protocol):
    """The function that performs a load."""

    def __call__(self, *, is_readable: bool) -> Iterator[int]:
        """Read the log and take ownership of its entries; if the log is not readable, without
        reading it. Yield the number of records that were read.
        """


class CoordinatorLoading(msgspec.Struct, kw_only=True, eq=False):
    """The loads of one broker's coordinators."""

    fault_points: BrokerFaultPoints
    clock: Clock
    tasks: Tasks
    min_ms: int
    _waiting_loads: deque[Iterator[int]] = msgspec.field(default_factory=deque)
    """Loads that are waiting to run."""
    _is_reading: bool = False
    _last_number: int = 0
    _timers: dict[int, TimerHandle] = {}
    _is_stopped: bool = False

    def load(self, topic_partition: TopicPartition, make_load: LoadFunction) -> None:
        """Load the log, at once if nothing delays it: as much as one slice allows is read before
        this returns.
        """
        if self.min_ms == 0:
            self._cross(topic_partition, make_load)
            return
        self._last_number += 1
        load_number = self._last_number

        def after_a_while() -> None:
            self._timers.pop(load_number, None)
            self._cross(topic_partition, make_load)

        self._timers[load_number] = self.clock.call_later(self.min_ms, after_a_while)

    def stop(self) -> None:
        """End all loads without effect, because the broker is gone."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting_loads.clear()

    def _cross(self, topic_partition: TopicPartition, make_load: LoadFunction) -> None:
        self.fault_points.go_on(
            lambda verdict: self._on_fault_verdict(verdict, make_load),
            FaultPoint.COORDINATOR_LOAD,
            Subject(partitions=(topic_partition,)),
        )

    def _on_fault_verdict(self, fault_effect: FaultEffect | None, make_load: LoadFunction) -> None:
        if self._is_stopped or is_lost(fault_effect):
            return
        self._waiting_loads.append(make_load(is_readable=not error_in(fault_effect)))
        self._start_reading()

    def _start_reading(self) -> None:
        if self._waiting_loads and not self._is_reading:
            self._is_reading = True
            self.tasks.drive(self._read_waiting(), self._on_read_end, name="coordinator loading")

    async def _read_waiting(self) -> None:
        """Run the loads one after the other; pause when a slice of the turn is used up."""
        slices, spent_ns = TimeSlices(self.tasks.turns), 0
        while self._waiting_loads:
            for record_count in self._waiting_loads.popleft():
                spent_ns += record_count * RECORD_NS
                if spent_ns >= SLICE_NS:
                    spent_ns = 0
                    await slices.next()
                    if self._is_stopped:
                        return

    def _on_read_end(self, _: object, error: BaseException | None) -> None:
        self._is_reading = False
        if error is not None and not isinstance(error, asyncio.CancelledError):
            # One log that can't be read keeps no other one waiting.
            self.tasks.run_soon(self._start_reading)
            raise error
