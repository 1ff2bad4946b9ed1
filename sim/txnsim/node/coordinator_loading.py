"""A coordinator's load: the time between leading a partition of its log and answering for it.

Reading a log in memory takes no time, so what makes a load last is declared: the setting
``coordinator_load_min_ms`` and the fault point ``coordinator.load``. Meanwhile clients hear
COORDINATOR_LOAD_IN_PROGRESS. Kafka's counterpart: the scheduled task of
TransactionStateManager.loadTransactionsForTxnTopicPartition.
"""

from __future__ import annotations

from typing import Protocol

from txnsim.faults.points import FaultPoint
from txnsim.node.crossings import Crossings, error_in, is_lost
from txnsim.runtime.env import Clock, TimerHandle
from txnsim.types import Subject, TopicPartition, Verdict


class Load(Protocol):
    """What is done at the end of a load."""

    def __call__(self, *, is_readable: bool) -> object:
        """Read the log and own its entries; without reading it where it is not readable."""


class CoordinatorLoading:
    """The loads of one broker's coordinators."""

    __slots__ = ("_clock", "_crossings", "_is_stopped", "_min_ms", "_number", "_timers")

    def __init__(self, *, crossings: Crossings, clock: Clock, min_ms: int) -> None:
        self._crossings = crossings
        self._clock = clock
        self._min_ms = min_ms
        self._number = 0
        self._timers: dict[int, TimerHandle] = {}
        self._is_stopped = False

    def load(self, topic_partition: TopicPartition, finish: Load) -> None:
        """Call ``finish`` when the load is over: at once, where nothing makes it last."""
        if self._min_ms == 0:
            self._cross(topic_partition, finish)
            return
        self._number += 1
        number = self._number

        def after_a_while() -> None:
            self._timers.pop(number, None)
            self._cross(topic_partition, finish)

        self._timers[number] = self._clock.call_later(self._min_ms, after_a_while)

    def stop(self) -> None:
        """The broker is gone: loads end without an effect."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _cross(self, topic_partition: TopicPartition, finish: Load) -> None:
        self._crossings.go_on(
            lambda verdict: self._obey(verdict, finish),
            FaultPoint.COORDINATOR_LOAD,
            Subject(partitions=(topic_partition,)),
        )

    def _obey(self, verdict: Verdict | None, finish: Load) -> None:
        if not self._is_stopped and not is_lost(verdict):
            finish(is_readable=not error_in(verdict))
