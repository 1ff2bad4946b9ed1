"""A broker's listeners for clients: sockets and connections. Requests are handled once they are
open.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from txnsim.api.memory_limit import with_growth_refusal
from txnsim.api.registry import SHIPPED
from txnsim.api.request import ApiTable, ClientLink
from txnsim.broker.broker import Broker
from txnsim.loggers import Logger
from txnsim.metrics.requests import RequestMeters
from txnsim.runtime.environment import Environment, Listener
from txnsim.server._channel_builder import ChannelBuilder
from txnsim.server._outbox import HeldBytes
from txnsim.settings import DEFAULTS, Settings
from txnsim.text import host_and_port

_log: Final = Logger(__name__)


class ClientConnection(Protocol):
    """One client's connection, as its listener uses it."""

    apis: ApiTable
    client_host: str
    principal: str
    link: ClientLink

    def handle_read_requests(self) -> None:
        """Handle the requests that were read meanwhile."""

    @property
    def unfinished_bytes(self) -> int:
        """Bytes received of an incomplete frame."""

    def give_up(self, reason: str) -> None:
        """Close the connection, because it holds too many received bytes."""

    def close(self) -> None: ...


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A listening address of a broker, the same in all its lives."""

    host: str
    port: int
    """0 for any free port until the socket is bound."""
    apis: ApiTable = SHIPPED
    channel_builder: ChannelBuilder | None = None
    """TLS and SASL that clients pass before they are served; None for neither."""


class BrokerListener:
    """The listening sockets of one broker, which open and close together.

    They are bound before the broker exists, because the cluster's metadata need every port;
    requests that clients send meanwhile wait until ``open``.
    """

    def __init__(
        self, *, environment: Environment, settings: Settings, make_connection: ConnectionFactory
    ) -> None:
        self._environment = environment
        self._connect = make_connection
        self._endpoints: list[_BoundEndpoint] = []
        self.broker: Broker
        """The broker that answers here; set by ``open``."""
        self.settings: Final = settings
        self.network: Final = environment.network
        self.tasks: Final = environment.tasks
        self.tasks.turns.limit_ns = max(settings.request_turn_ms, 1) * 1_000_000
        self.clock: Final = environment.clock
        self.stopwatch_ns = environment.clock.stopwatch_ns
        self.tracer: Final = environment.tracer
        self.logs_requests = environment.logs_requests
        self.connections: dict[ClientConnection, None] = {}
        # In Kafka, -1 leaves the size to the operating system.
        send_buffer_setting = settings.socket_send_buffer_bytes
        self.send_buffer_bytes = (
            send_buffer_setting if send_buffer_setting > 0 else DEFAULTS.socket_send_buffer_bytes
        )
        self.meters: Final = RequestMeters()
        self.unread: Final = HeldBytes(settings.queued_max_response_bytes)
        """Unread answers, without records that are in the log's memory anyway."""
        self.unauthenticated_bytes: Final = HeldBytes(settings.unknown_clients_max_bytes)
        """Bytes received from unauthenticated clients."""
        self.node = ""
        self.accepted = 0
        """Number of connections so far."""
        self._is_full = False
        self.is_open = False
        self.is_gone = False
        """The broker has ended: a request that is held at a fault point must not take effect."""

    async def bind(self, endpoint: Endpoint) -> Endpoint:
        """Listen; returns the endpoint with the port that was bound.

        Raises:
            OSError: The port is busy, or the host is not an address of this machine.
        """
        bound_endpoint = _BoundEndpoint(self, endpoint, self._connect)
        tls = None if endpoint.channel_builder is None else endpoint.channel_builder.tls
        try:
            bound_endpoint.socket = await self.network.listen(
                endpoint.host, endpoint.port, bound_endpoint, tls=tls
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            # Event loops have different messages; the port is what matters.
            raise OSError(
                error.errno, f"{host_and_port(endpoint.host, endpoint.port)} is in use"
            ) from error
        self._endpoints.append(bound_endpoint)
        return msgspec.structs.replace(endpoint, port=bound_endpoint.socket.address[1])

    def take_over_sockets(
        self, former_listener: BrokerListener, endpoints: Sequence[Endpoint]
    ) -> None:
        """Take over the sockets of another listener; its connections stay with it.

        Args:
            former_listener: The other listener; it has no sockets afterwards.
            endpoints: The new endpoint of each socket, in the order in which they were bound.
        """
        for bound_endpoint, endpoint in zip(former_listener._endpoints, endpoints, strict=True):
            bound_endpoint.listener = self
            bound_endpoint.endpoint, bound_endpoint.replaced_endpoint = endpoint, None
        self._endpoints, former_listener._endpoints = former_listener._endpoints, []

    def open(self, broker: Broker) -> None:
        """Handle requests from now on."""
        self.broker = broker
        self.node = broker.node
        self.is_open = True
        for connection in list(self.connections):
            connection.handle_read_requests()

    def pause(self) -> None:
        """Handle and answer nothing until ``open``: a black hole for clients."""
        self.is_open = False

    def give_up_largest_frame(self) -> bool:
        """Close the connection with the largest incomplete frame; False if none is large."""
        largest_connection = max(
            self.connections, key=lambda connection: connection.unfinished_bytes, default=None
        )
        if (
            largest_connection is None
            or largest_connection.unfinished_bytes <= self.settings.connection_queue_bytes
        ):
            return False
        largest_connection.give_up("there is too little memory for what it sends")
        return True

    def refuse_growth(self, *, is_full: bool) -> None:
        """Refuse requests that need more memory, or accept them again."""
        if is_full is self._is_full:
            return
        self._is_full = is_full
        for bound_endpoint in self._endpoints:
            bound_endpoint.endpoint, bound_endpoint.replaced_endpoint = (
                bound_endpoint.refusing_endpoint()
                if bound_endpoint.replaced_endpoint is None
                else bound_endpoint.replaced_endpoint,
                bound_endpoint.endpoint,
            )
            for connection in self.connections:
                if connection.apis is bound_endpoint.replaced_endpoint.apis:
                    connection.apis = bound_endpoint.endpoint.apis

    async def keep_ports(self) -> list[Listener]:
        """Keep the ports of this listener occupied for the next listener."""
        kept_ports = []
        for bound_endpoint in self._endpoints:
            if bound_endpoint.socket is not None:
                host, port = bound_endpoint.socket.address
                try:
                    kept_ports.append(await self.network.keep(host, port))
                except OSError as error:
                    _log.warning("listener.port_lost", host=host, port=port, error=str(error))
        return kept_ports

    async def close(self) -> None:
        """Stop listening and close every connection."""
        self.is_open = False
        self.is_gone = True
        for bound_endpoint in self._endpoints:
            if bound_endpoint.socket is not None:
                await bound_endpoint.socket.close()
        for connection in list(self.connections):
            connection.close()
        # Connections close in the loop's next turns; wait for the last one.
        for _ in range(100):
            if not self.connections:
                break
            await asyncio.sleep(0)


class _BoundEndpoint(msgspec.Struct, eq=False):
    """A listening socket; a new connection belongs to the listener that has the socket at that
    moment.
    """

    listener: BrokerListener
    endpoint: Endpoint
    make_connection: ConnectionFactory
    socket: Listener | None = None
    replaced_endpoint: Endpoint | None = None
    """The replaced endpoint: with normal APIs, or with refusing ones above the memory mark."""

    def refusing_endpoint(self) -> Endpoint:
        """A copy of the endpoint for use above the memory mark: its APIs refuse requests."""
        return msgspec.structs.replace(self.endpoint, apis=with_growth_refusal(self.endpoint.apis))

    def __call__(self) -> asyncio.Protocol:
        """Make the connection of a client."""
        return self.make_connection(
            self.listener, self.endpoint.apis, self.endpoint.channel_builder
        )


ConnectionFactory = Callable[[BrokerListener, ApiTable, ChannelBuilder | None], asyncio.Protocol]
"""Makes the connection of a client at a listener (``connection.Connection``)."""
