"""A fault proxy in front of a simulated cluster, both in one virtual run, as a test asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.support.clusters import VirtualCluster, options
from txnsim.injection.injector import Injector
from txnsim.log.partition_log import PartitionLog
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.types import BrokerId, TopicPartition
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import ProxyOptions

T = TypeVar("T")


class ProxiedCluster(VirtualCluster):
    """A cluster whose clients come through a proxy; its faults are the proxy's."""

    def __init__(self, env: VirtualEnvironment, sim: SimCluster, proxy: FaultProxy) -> None:
        super().__init__(env, sim)
        self.proxy = proxy

    @property
    def injector(self) -> Injector:
        """The fault injector of the proxy."""
        return self.proxy.injector

    def address(self, topic_partition: TopicPartition) -> tuple[str, int]:
        """Where clients reach the leader: the proxy's listener."""
        return self.proxy.clients.address(int(self.leader(topic_partition)))


class SimDisks:
    """The state of replicas that a cluster's brokers would have on disk."""

    def __init__(self, sim: SimCluster) -> None:
        self.sim = sim

    def segments(self, number: int, topic_partition: TopicPartition) -> list[int]:
        """The base offset of each segment of a replica."""
        log = self._log(number, topic_partition)
        inactive = log.local.inactive_segments(log.log_start_offset, log.local.active_base_offset)
        return [*(segment.base_offset for segment in inactive), log.local.active_base_offset]

    def cleaned_until(self, number: int, topic_partition: TopicPartition) -> int:
        """The offset up to which a replica was cleaned, or -1."""
        until = self._log(number, topic_partition).local.cleaned_until
        return -1 if until is None else until

    def _log(self, number: int, topic_partition: TopicPartition) -> PartitionLog:
        return self.sim.brokers[BrokerId(number)].replicas.hosted[topic_partition]


def run_proxied(
    main: Callable[[ProxiedCluster], Awaitable[T]],
    *,
    seed: int = 1,
    trace_level: TraceLevel = TraceLevel.OFF,
    **config_changes: Any,
) -> T:
    """Run ``main`` beside a cluster and its proxy; ``changes`` as in ``clusters.options``."""

    async def run_beside_cluster(env: VirtualEnvironment) -> T:
        sim = SimCluster(env, options(**config_changes))
        await sim.start()
        proxy = FaultProxy(env, ProxyOptions(bootstrap=sim.bootstrap, port=0))
        try:
            await proxy.start()
            return await main(ProxiedCluster(env, sim, proxy))
        finally:
            await proxy.stop()
            await sim.stop()

    return run_virtual(run_beside_cluster, seed=seed, trace_level=trace_level)
