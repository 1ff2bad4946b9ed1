"""The gates of one broker's inner fault points, for tests of the parts behind them."""

from __future__ import annotations

from typing import cast

from txnsim.faults.interception import Interceptor, PassAll
from txnsim.node.broker_fault_points import BrokerFaultPoints
from txnsim.node.log_gate import LogGate
from txnsim.releases.rules import LATEST_RULES
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.runtime.environment import Network, Tasks
from txnsim.settings import Settings


class OnlyFaults:
    """A network that consists of an interceptor only."""

    def __init__(self, interceptor: Interceptor | None = None) -> None:
        self.interceptor: Interceptor = interceptor or PassAll()


class Gates:
    """Fault points and log gate of broker 1, with a count of failed directories."""

    def __init__(
        self,
        tasks: Tasks,
        *,
        interceptor: Interceptor | None = None,
        broker_logs: BrokerLogs | None = None,
    ) -> None:
        self.disk = broker_logs or BrokerLogs(Settings(), LATEST_RULES)
        self.failures = 0
        self.network = OnlyFaults(interceptor)
        self.fault_points = BrokerFaultPoints(
            node="broker/1", network=cast(Network, self.network), tasks=tasks
        )
        self.log = LogGate(
            fault_points=self.fault_points, disk=self.disk, directory_failed=self._directory_failed
        )

    def _directory_failed(self) -> None:
        self.failures += 1
