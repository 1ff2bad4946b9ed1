"""The fault proxy, which ``txnsim proxy`` starts, and a test may start in its own loop. It looks up
the brokers of a cluster, opens a listener for each, and has one injector for all. It has the same
interface to the control port and to tests as the simulated cluster, as far as possible:
``environment``, ``injector``, ``bootstrap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from txnsim.client import requests
from txnsim.client.backoff import pause
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ConnectionLostError, RequestTimeoutError
from txnsim.errors import ClientError, ConfigError
from txnsim.injection.injector import Injector
from txnsim.runtime.environment import Environment
from txnsim.runtime.tls import client_context, server_context
from txnsim.security.options import ClientAuth, TlsFiles
from txnsim_lab.proxy import meanings
from txnsim_lab.proxy._connection_ends import ClientEnd
from txnsim_lab.proxy._listeners import NodeListener, NodeListeners
from txnsim_lab.proxy._relay import Relay
from txnsim_lab.proxy._topic_names import TopicNames
from txnsim_lab.proxy.addresses import NodeAddress
from txnsim_lab.proxy.options import ProxyOptions

if TYPE_CHECKING:
    import ssl

RETRY_MS: Final = 200
"""Pause between two look-ups of a cluster that does not answer yet."""
TOPIC_LOOK_UPS_APART_MS: Final = 1_000
"""Minimum time between two look-ups of unknown topics."""


class FaultProxy:
    """Listeners in front of a cluster that apply faults; ``start`` it, and ``stop`` it."""

    def __init__(self, environment: Environment, options: ProxyOptions) -> None:
        """A proxy that does not listen yet.

        Raises:
            ConfigError: A certificate, key or address is wrong.
            MissingExtraError: The SASL mechanism for look-ups needs a library that is not
                installed.
        """
        self.environment = environment
        self.options = options
        self.names = TopicNames()
        self.injector = Injector(
            clock=environment.clock,
            tracer=environment.tracer,
            tasks=environment.tasks,
            rng=environment.rng,
            refusal_of=lambda rule: meanings.refusal(rule, has_peers=bool(options.peers)),
        )
        self.cluster_id: str | None = None
        self._looked_up_ms: int | None = None
        security = options.settings.security
        tls_upstream = client_context(security.tls) if security.protocol.has_tls else None
        peer_tls_upstream = client_context(security.tls) if options.peer_tls is not None else None
        self.clients = NodeListeners(
            self,
            host=options.host,
            advertised_host=options.host_for_clients,
            port=options.port,
            tls=_server_context_of(options.tls),
            tls_upstream=tls_upstream,
        )
        self.peers = NodeListeners(
            self,
            host=options.host,
            advertised_host=options.host_for_clients,
            port=options.peer_port,
            is_peer=True,
            tls=_server_context_of(options.peer_tls),
            tls_upstream=peer_tls_upstream,
        )
        self._cluster = self.outside(options.settings)

    def outside(self, settings: ClientSettings) -> Cluster:
        """A client that connects to the cluster directly, not through the proxy."""
        environment = self.environment
        return Cluster(
            self.options.bootstrap,
            settings=settings,
            clock=environment.clock,
            tasks=environment.tasks,
            dial=environment.network.connect,
        )

    @property
    def bootstrap(self) -> str:
        """Addresses of the proxy's listeners for clients."""
        return self.clients.bootstrap

    async def start(self) -> None:
        """Look up the brokers and open their listeners; those between brokers come first, so that a
        cluster may start through them.

        Raises:
            ClientError: No broker answers, or one refuses the login.
            ConfigError: A port is out of range.
            OSError: A port is busy.
        """
        try:
            await self.peers.learn(self.options.peers)
            await self._look_up_at_start()
        except BaseException:
            await self.stop()
            raise

    async def _look_up_at_start(self) -> None:
        clock = self.environment.clock
        deadline_ms = clock.monotonic_ms() + self.options.wait_ms
        while True:
            try:
                await self._cluster.connect()
                # A broker that has just started may answer before it has heard of itself.
                if self._cluster.view.brokers or clock.monotonic_ms() >= deadline_ms:
                    break
            except (ConnectionLostError, RequestTimeoutError):
                if clock.monotonic_ms() >= deadline_ms:
                    raise
            await pause(clock, RETRY_MS)
        await self._open_listeners()

    async def look_up_brokers(self) -> None:
        """Look up the brokers again, and open the listeners of those that are new.

        Raises:
            ClientError: No broker answers.
        """
        await self._cluster.refresh()
        await self._open_listeners()

    async def _open_listeners(self) -> None:
        cluster_view = self._cluster.view
        self.cluster_id = cluster_view.cluster_id
        if not cluster_view.brokers:
            raise ConfigError(f"{self.options.bootstrap}: the cluster names no broker")
        await self.clients.learn(
            NodeAddress(broker.broker_id, broker.host, broker.port)
            for broker in cluster_view.brokers
        )

    def enter(self, listener: NodeListener) -> ClientEnd:
        """Accept a new connection; returns the client's side."""
        return Relay(listener).client

    async def look_up_topics(self) -> None:
        """Ask the cluster for the names of all topics; a failed look-up changes nothing."""
        now_ms = self.environment.clock.monotonic_ms()
        if self._looked_up_ms is not None and now_ms - self._looked_up_ms < TOPIC_LOOK_UPS_APART_MS:
            return
        self._looked_up_ms = now_ms
        try:
            connection = await self._cluster.any_connection()
            self.names.learn(await connection.request(requests.metadata(None)))
        except ClientError:
            return

    async def stop(self) -> None:
        """Release everything that is held, close every connection, and stop listening."""
        self.injector.disarm_all()
        await self.clients.close()
        await self.peers.close()
        await self._cluster.close()


def _server_context_of(tls_files: TlsFiles | None) -> ssl.SSLContext | None:
    return None if tls_files is None else server_context(tls_files, ClientAuth.NONE)
