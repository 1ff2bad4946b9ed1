"""A cluster with its environment, which can be stopped and built again on the same ports, and the
client with which tests look at it from outside.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.errors import ConfigError
from txnsim.injection.injector import Injector
from txnsim.runtime.environment import Environment
from txnsim.runtime.real_world import real_environment
from txnsim.runtime.trace import RunInfo, Tracer
from txnsim.server.cluster import SimCluster
from txnsim.server.options import ClusterOptions
from txnsim.testing.event_loop import ClusterLoop
from txnsim.testing.options import SimulatedClusterOptions

ONLOOKER: Final = "txnsim-testing"
"""Client id of that client: fault rules that name another client do not affect it."""
BACKOFF_MS: Final = 5


class RebuiltCluster:
    """The cluster that one ``SimulatedKafka`` controls."""

    def __init__(
        self,
        cluster_loop: ClusterLoop,
        description: SimulatedClusterOptions,
        environment: Environment | None = None,
    ) -> None:
        """Start without a running cluster.

        Args:
            cluster_loop: The event loop in which all of it runs.
            description: Topics, brokers and settings of the cluster.
            environment: The environment in which it runs, which belongs to the caller; a real one
                unless given.
        """
        self.cluster_loop = cluster_loop
        self.requested_options = description
        self._given_environment = environment
        self._sim: SimCluster | None = None
        self._onlooker: Cluster | None = None
        self.guests: list[Callable[[], Awaitable[None]]] = []
        """Functions that end what tests have running in the cluster: members of groups."""
        self.build_count = 0
        """Number of times that a cluster was built."""
        self.tracer: Tracer | None = None
        """Trace of the last cluster; it remains after the cluster's end."""

    @property
    def sim(self) -> SimCluster:
        """The cluster.

        Raises:
            RuntimeError: The cluster does not run.
        """
        if self._sim is None:
            raise RuntimeError("the cluster does not run: start it, or use it as a context manager")
        return self._sim

    @property
    def injector(self) -> Injector:
        """The injector of the cluster's faults."""
        return self.sim.injector

    @property
    def client_bootstrap(self) -> str:
        """Address for the clients of a test."""
        return self.sim.bootstrap

    @property
    def is_running(self) -> bool:
        return self._sim is not None

    @property
    def environment(self) -> Environment:
        """The environment of the running cluster: clock, trace and so on."""
        return self.sim.environment

    async def start(self) -> None:
        """Builds and starts the cluster.

        Raises:
            RuntimeError: The cluster runs already.
        """
        if self._sim is not None:
            raise RuntimeError("the cluster runs already")
        await self._build(self.requested_options.options())

    async def stop(self) -> None:
        """Stop the cluster; do nothing if none runs."""
        sim, self._sim = self._sim, None
        onlooker, self._onlooker = self._onlooker, None
        if sim is None:
            return
        # Held crossings would keep their connections and block the requests that wait for them.
        sim.injector.disarm_all()
        await self._end_guests()
        if onlooker is not None:
            await onlooker.close()
        await sim.stop()

    async def _end_guests(self) -> None:
        guest_endings, self.guests = self.guests, []
        for end_guest in guest_endings:
            await end_guest()

    async def reset(self) -> None:
        """Stop the cluster and build it again: with the same addresses, and nothing else from
        before.

        Raises:
            ConfigError: The cluster does not own its environment, or has listeners whose ports it
                can't get again.
        """
        sim_before = self.sim
        options = sim_before.options
        if self._given_environment is not None:
            raise ConfigError("a cluster in virtual time can't be reset: start another run")
        if options.security.listeners or options.settings.kip_text:
            raise ConfigError("a cluster with further listeners can't be reset: start another one")
        ports = tuple(member.endpoints[0].port for member in sim_before.members.values())
        await self.stop()
        await self._build(msgspec.structs.replace(options, ports=ports))

    async def admin(self) -> Admin:
        """An operator's client, connected on first use."""
        return Admin(await self.onlooker())

    async def onlooker(self) -> Cluster:
        """The connected client that looks at the cluster from outside."""
        if self._onlooker is None:
            self._onlooker = await self.client(ONLOOKER)
        return self._onlooker

    async def client(self, client_id: str) -> Cluster:
        """A new client, connected."""
        environment = self.environment
        client = Cluster(
            self.client_bootstrap,
            settings=ClientSettings(client_id=client_id, retry_backoff_ms=BACKOFF_MS),
            clock=environment.clock,
            tasks=environment.tasks,
        )
        await client.connect()
        return client

    async def _build(self, options: ClusterOptions) -> None:
        environment = self._given_environment
        if environment is None:
            environment = real_environment(
                seed=self.requested_options.seed,
                trace_level=self.requested_options.trace_level,
                run_info=RunInfo(seed=self.requested_options.seed),
            )
        self.tracer = environment.tracer
        sim = SimCluster(environment, options)
        await sim.start()
        self._sim = sim
        self.build_count += 1


class ClusterPart:
    """One part of a cluster's interface for tests."""

    def __init__(self, rebuilt_cluster: RebuiltCluster) -> None:
        self._rebuilt = rebuilt_cluster

    @property
    def cluster_loop(self) -> ClusterLoop:
        """The event loop of the cluster."""
        return self._rebuilt.cluster_loop
