"""Checks the size of all brokers' logs whenever enough has been written, and keeps them within
their budget (``txnsim.replica.log_budget`` decides).

When the logs have reached half of the budget, each check also makes the cleaners clean compacted
logs that are dirty enough, without waiting for ``log.cleaner.backoff.ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from txnsim.log.local_log import WriteAllowance
from txnsim.loggers import Logger
from txnsim.node.log_events import LogEvents
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.log_budget import (
    BUDGET_PARTS,
    BudgetCheck,
    enforce_budget,
    held_bytes,
    replicas_by_partition,
)
from txnsim.replication.log_maintenance import LogMaintenance
from txnsim.runtime.environment import Environment
from txnsim.text import spoken_size
from txnsim.types import BrokerId

_logger: Final = Logger("txnsim.logs")


class BudgetKeeper:
    """The memory budget of one cluster's logs.

    ``allowance`` is handed to the logs. Call ``begin`` when they exist.
    """

    def __init__(
        self,
        budget_bytes: int,
        environment: Environment,
        broker_maintenances: Callable[[], Iterable[LogMaintenance]],
    ) -> None:
        self.budget = budget_bytes
        self.allowance = WriteAllowance(budget_bytes // 2, self._enforce_soon)
        self._environment = environment
        self._maintenance = broker_maintenances
        self._logs_by_broker: Mapping[BrokerId, BrokerLogs] = {}
        self._is_looking = False
        self._has_told = False

    def begin(self, logs_by_broker: Mapping[BrokerId, BrokerLogs]) -> None:
        """Starts with these logs. The size that they have already, as those of a real cluster, is
        added to the budget.
        """
        self._logs_by_broker = logs_by_broker
        self.budget += sum(map(held_bytes, replicas_by_partition(list(logs_by_broker.values()))))

    def _enforce_soon(self) -> None:
        allowance_bytes = self.budget // BUDGET_PARTS
        self.allowance.bytes_left = allowance_bytes
        if not self._is_looking:
            self._is_looking = True
            self._environment.tasks.spawn(self._enforce(), name="log budget")

    async def _enforce(self) -> None:
        budget_check, broker_ids = BudgetCheck(), list(self._logs_by_broker)
        now_ms = self._environment.clock.now_ms()
        for raised_log in enforce_budget(
            list(self._logs_by_broker.values()), self.budget, now_ms, budget_check
        ):
            if raised_log is None:
                await asyncio.sleep(0)
                continue
            broker_index, log = raised_log
            tracer = self._environment.tracer
            if tracer.on:
                LogEvents(tracer, f"broker/{broker_ids[broker_index]}").trace_start(
                    log, "log-budget"
                )
        held_bytes = budget_check.held_bytes - budget_check.freed_bytes
        if held_bytes >= self.budget // 2:
            for log_maintenance in self._maintenance():
                log_maintenance.clean_soon()
        if budget_check.freed_bytes and not self._has_told:
            self._has_told = True
            _logger.warning(
                f"the logs have reached their budget of {spoken_size(self.budget)}"
                " (--log-budget): the oldest closed segments go from now on"
            )
        self.allowance.bytes_left = max(self.budget // BUDGET_PARTS, self.budget // 2 - held_bytes)
        self._is_looking = False
