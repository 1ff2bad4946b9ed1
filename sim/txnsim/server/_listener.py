"""A broker's client listeners: the sockets, their connections, and the moment from which requests
are handled.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from txnsim.api.memory_limit import refusing
from txnsim.api.registry import SHIPPED
from txnsim.api.request import ApiTable
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
    """One client's connection, as far as its listener drives it."""

    apis: ApiTable

    def pump(self) -> None:
        """Handle what has been read meanwhile."""

    @property
    def unfinished_bytes(self) -> int:
        """Bytes received of an incomplete frame."""

    def give_up(self, why: str) -> None:
        """Close the connection, which holds too many received bytes."""

    def close(self) -> None:
        """End it."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A listening address that a broker has in every life."""

    host: str
    port: int
    """0 for any free port until the socket is bound."""
    apis: ApiTable = SHIPPED
    channel_builder: ChannelBuilder | None = None
    """What clients have to pass there before they are served."""


class BrokerListener:
    """The listening sockets of one broker, which open and close together.

    They are bound before its broker exists, because the cluster's metadata need every port; what
    clients send meanwhile waits until ``open``.
    """

    def __init__(self, *, environment: Environment, settings: Settings, connect: Connect) -> None:
        self._environment = environment
        self._connect = connect
        self._endpoints: list[_BoundEndpoint] = []
        self.broker: Broker
        """The broker that answers here, once it is open."""
        self.settings: Final = settings
        self.network: Final = environment.network
        self.tasks: Final = environment.tasks
        self.tasks.turns.limit_ns = max(settings.request_turn_ms, 1) * 1_000_000
        self.clock: Final = environment.clock
        self.stopwatch_ns = environment.clock.stopwatch_ns
        self.tracer: Final = environment.tracer
        self.logs_requests = environment.logs_requests
        self.connections: dict[ClientConnection, None] = {}
        # -1 leaves it to the operating system, in Kafka.
        send_buffer_setting = settings.socket_send_buffer_bytes
        self.send_buffer_bytes = (
            send_buffer_setting if send_buffer_setting > 0 else DEFAULTS.socket_send_buffer_bytes
        )
        self.meters: Final = RequestMeters()
        self.unread: Final = HeldBytes(settings.queued_max_response_bytes)
        """Unread answers, as far as they take memory of their own."""
        self.strangers: Final = HeldBytes(settings.unknown_clients_max_bytes)
        """Bytes received from unauthenticated clients."""
        self.node = ""
        self.accepted = 0
        """Connections so far."""
        self._is_full = False
        self.is_open = False
        self.is_gone = False
        """Its broker lives no longer: what is held at a fault point must not take effect."""

    async def bind(self, endpoint: Endpoint) -> Endpoint:
        """Listen; returns the endpoint with the port really bound.

        Raises:
            OSError: The port is busy and named, or the host is none of ours.
        """
        bound = _BoundEndpoint(self, endpoint, self._connect)
        tls = None if endpoint.channel_builder is None else endpoint.channel_builder.tls
        try:
            bound.socket = await self.network.listen(endpoint.host, endpoint.port, bound, tls=tls)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            # Loops word it differently; the port is what matters.
            raise OSError(
                error.errno, f"{host_and_port(endpoint.host, endpoint.port)} is in use"
            ) from error
        self._endpoints.append(bound)
        return msgspec.structs.replace(endpoint, port=bound.socket.address[1])

    def succeed(self, former: BrokerListener, endpoints: Sequence[Endpoint]) -> None:
        """Take over the sockets of another listener, as they are; its connections stay with it.

        Args:
            former: Whose sockets; it has none afterwards.
            endpoints: What each of them is from now on, in the order in which they were bound.
        """
        for bound, endpoint in zip(former._endpoints, endpoints, strict=True):
            bound.listener = self
            bound.endpoint, bound.other = endpoint, None
        self._endpoints, former._endpoints = former._endpoints, []

    def open(self, broker: Broker) -> None:
        """From now on requests are handled."""
        self.broker = broker
        self.node = broker.node
        self.is_open = True
        for connection in list(self.connections):
            connection.pump()

    def pause(self) -> None:
        """Handle nothing and answer nothing until ``open``: clients are in a black hole."""
        self.is_open = False

    def give_up_largest_frame(self) -> bool:
        """Close the connection with the largest incomplete frame; False if none is large."""
        largest = max(
            self.connections, key=lambda connection: connection.unfinished_bytes, default=None
        )
        if largest is None or largest.unfinished_bytes <= self.settings.connection_queue_bytes:
            return False
        largest.give_up("there is too little memory for what it sends")
        return True

    def refuse_growth(self, *, is_full: bool) -> None:
        """Refuse what needs more memory, or take it again."""
        if is_full is self._is_full:
            return
        self._is_full = is_full
        for bound in self._endpoints:
            bound.endpoint, bound.other = (
                bound.full() if bound.other is None else bound.other,
                bound.endpoint,
            )
            for connection in self.connections:
                if connection.apis is bound.other.apis:
                    connection.apis = bound.endpoint.apis

    async def keep_ports(self) -> list[Listener]:
        """Keep the ports where it has listened for whoever listens there next."""
        kept_ports = []
        for bound in self._endpoints:
            if bound.socket is not None:
                host, port = bound.socket.address
                try:
                    kept_ports.append(await self.network.keep(host, port))
                except OSError as error:
                    _log.warning("listener.port_lost", host=host, port=port, error=str(error))
        return kept_ports

    async def close(self) -> None:
        """Stop listening and close every connection."""
        self.is_open = False
        self.is_gone = True
        for bound in self._endpoints:
            if bound.socket is not None:
                await bound.socket.close()
        for connection in list(self.connections):
            connection.close()
        # Connections are closed in the loop's next turns; wait until the last one has said so.
        for _ in range(100):
            if not self.connections:
                break
            await asyncio.sleep(0)


class _BoundEndpoint(msgspec.Struct, eq=False):
    """A listening socket; who connects there belongs to the listener that has it at that moment."""

    listener: BrokerListener
    endpoint: Endpoint
    connect: Connect
    socket: Listener | None = None
    other: Endpoint | None = None
    """The other endpoint: with normal APIs, or with refusing ones above the memory mark."""

    def full(self) -> Endpoint:
        """A copy of the endpoint above the memory mark: its APIs refuse requests."""
        return msgspec.structs.replace(self.endpoint, apis=refusing(self.endpoint.apis))

    def __call__(self) -> asyncio.Protocol:
        """A client has connected."""
        return self.connect(self.listener, self.endpoint.apis, self.endpoint.channel_builder)


Connect = Callable[[BrokerListener, ApiTable, ChannelBuilder | None], asyncio.Protocol]
"""Makes the connection of a client that has reached a listener (``connection.Connection``)."""
