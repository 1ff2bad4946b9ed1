"""A coordinator's load: the time between leading a partition of its log and answering for it.

Reading a log in memory takes no time, so what makes a load last is declared: the setting
``coordinator_load_min_ms`` and the fault point ``coordinator.load``. Meanwhile clients hear
COORDINATOR_LOAD_IN_PROGRESS. Kafka's counterpart: the scheduled task of
TransactionStateManager.loadTransactionsForTxnTopicPartition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from sim.faults.points import FaultPoint
from sim.runtime.env import Environment, TimerHandle
from sim.types import Crossing, Subject, SubmitOutcome, TopicPartition, Verdict

NO_API = -1
"""A load is no request: rules that name an API don't concern it."""


class Load(Protocol):
    """What is done at the end of a load."""

    def __call__(self, *, is_readable: bool) -> object:
        """Read the log and own its entries; without reading it where it is not readable."""


class CoordinatorLoading:
    """The loads of one broker's coordinators."""

    __slots__ = ("_environment", "_is_stopped", "_min_ms", "_node", "_number", "_timers")

    def __init__(self, *, node: str, environment: Environment, min_ms: int) -> None:
        self._node = node
        self._environment = environment
        self._min_ms = min_ms
        self._number = 0
        self._timers: dict[int, TimerHandle] = {}
        self._is_stopped = False

    def load(self, topic_partition: TopicPartition, finish: Load) -> None:
        """Call ``finish`` when the load is over: at once, where nothing makes it last."""
        self._number += 1
        number = self._number
        if self._min_ms == 0:
            self._cross(number, topic_partition, finish)
            return

        def after_a_while() -> None:
            self._timers.pop(number, None)
            self._cross(number, topic_partition, finish)

        clock = self._environment.clock
        self._timers[number] = clock.call_later(self._min_ms, after_a_while)

    def stop(self) -> None:
        """The broker is gone: loads end without an effect."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _cross(self, number: int, topic_partition: TopicPartition, finish: Load) -> None:
        interceptor = self._environment.network.interceptor
        if not interceptor.armed:
            finish(is_readable=True)
            return
        verdict = interceptor.cross(
            Crossing(
                point=FaultPoint.COORDINATOR_LOAD,
                source=self._node,
                target=self._node,
                api_key=NO_API,
                api_version=NO_API,
                correlation_id=number,
                subject=Subject(partitions=(topic_partition,)),
            )
        )
        if verdict is None or isinstance(verdict, Verdict):
            self._obey(verdict, finish)
            return
        self._environment.tasks.drive(
            _waited(verdict),
            lambda late, error: self._released(late, error, finish),
            name=f"coordinator-load-{self._node}-{topic_partition}",
        )

    def _released(self, verdict: Verdict | None, error: BaseException | None, finish: Load) -> None:
        if error is None:
            self._obey(verdict, finish)
        elif not isinstance(error, asyncio.CancelledError):
            raise error

    def _obey(self, verdict: Verdict | None, finish: Load) -> None:
        if self._is_stopped:
            return
        if verdict is None or verdict.outcome is not SubmitOutcome.DROP:
            is_readable = verdict is None or verdict.outcome is SubmitOutcome.PASS
            finish(is_readable=is_readable)


async def _waited(verdict: Awaitable[Verdict | None]) -> Verdict | None:
    return await verdict
