"""A broker's client listeners: the sockets, their connections, and the moment from which requests
are handled.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from txnsim.api.registry import SHIPPED
from txnsim.api.request import ApiTable
from txnsim.broker.broker import Broker
from txnsim.metrics.requests import RequestMeters
from txnsim.runtime.env import Environment, Listener
from txnsim.server.outbox import HeldBytes
from txnsim.settings import DEFAULTS, Settings

if TYPE_CHECKING:
    from txnsim.server.channel_builder import ChannelBuilder


class ClientConnection(Protocol):
    """One client's connection, as far as its listener drives it."""

    def pump(self) -> None:
        """Handle what has been read meanwhile."""

    def close(self) -> None:
        """End it."""


class BrokerListener:
    """The listening sockets of one broker, which open and close together.

    They are bound before its broker exists, because the cluster's metadata need every port; what
    clients send meanwhile waits until ``open``.
    """

    def __init__(self, *, environment: Environment, settings: Settings, connect: Connect) -> None:
        self._environment = environment
        self._connect = connect
        self._doors: list[_BoundDoor] = []
        self._broker: Broker | None = None
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
        given = settings.socket_send_buffer_bytes
        self.send_buffer_bytes = given if given > 0 else DEFAULTS.socket_send_buffer_bytes
        self.meters: Final = RequestMeters()
        self.unread: Final = HeldBytes(settings.queued_max_response_bytes)
        """Answers that are not read, as far as they take memory of their own."""
        self.strangers: Final = HeldBytes(settings.unknown_clients_max_bytes)
        """What clients have sent that are not known yet."""
        self.node = ""
        self.accepted = 0
        """Connections so far."""
        self.is_open = False
        self.is_gone = False
        """Its broker lives no longer: what is held at a fault point must not take effect."""

    @property
    def broker(self) -> Broker:
        """The broker that answers here."""
        assert self._broker is not None
        return self._broker

    async def bind(
        self,
        host: str,
        port: int,
        *,
        apis: ApiTable = SHIPPED,
        channel_builder: ChannelBuilder | None = None,
    ) -> int:
        """Listen; returns the port really bound.

        Args:
            host: Where.
            port: Where; 0 picks a free one.
            apis: What is spoken there.
            channel_builder: What clients have to pass before; nothing unless given.

        Raises:
            OSError: The port is busy and named, or the host is none of ours.
        """
        door = _BoundDoor(self, apis, channel_builder, self._connect)
        try:
            door.socket = await self.network.listen(
                host, port, door, tls=None if channel_builder is None else channel_builder.tls
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            # Loops word it differently; the port is what matters.
            raise OSError(error.errno, f"{host}:{port} is in use") from error
        self._doors.append(door)
        return door.socket.address[1]

    def succeed(self, former: BrokerListener, apis: Sequence[ApiTable]) -> None:
        """Take over the sockets of another listener, as they are; its connections stay with it.

        Args:
            former: Whose sockets; it has none afterwards.
            apis: What is spoken at each of them from now on, in the order in which they were bound.
        """
        for door, spoken in zip(former._doors, apis, strict=True):
            door.listener = self
            door.apis = spoken
        self._doors, former._doors = former._doors, []

    def open(self, broker: Broker) -> None:
        """From now on requests are handled."""
        self._broker = broker
        self.node = broker.node
        self.is_open = True
        for connection in list(self.connections):
            connection.pump()

    def pause(self) -> None:
        """Handle nothing and answer nothing until ``open``: clients are in a black hole."""
        self.is_open = False

    async def close(self) -> None:
        """Stop listening and close every connection."""
        self.is_open = False
        self.is_gone = True
        for door in self._doors:
            if door.socket is not None:
                await door.socket.close()
        for connection in list(self.connections):
            connection.close()
        # Connections are closed in the loop's next turns; wait until the last one has said so.
        for _ in range(100):
            if not self.connections:
                break
            await asyncio.sleep(0)


class _BoundDoor:
    """A listening socket; who connects there belongs to the listener that has it at that moment."""

    __slots__ = ("apis", "channel_builder", "connect", "listener", "socket")

    def __init__(
        self,
        listener: BrokerListener,
        apis: ApiTable,
        channel_builder: ChannelBuilder | None,
        connect: Connect,
    ) -> None:
        self.listener = listener
        self.apis = apis
        self.channel_builder = channel_builder
        self.connect = connect
        self.socket: Listener | None = None

    def __call__(self) -> asyncio.Protocol:
        """A client has connected."""
        return self.connect(self.listener, self.apis, self.channel_builder)


Connect = Callable[[BrokerListener, ApiTable, "ChannelBuilder | None"], asyncio.Protocol]
"""Makes the connection of a client that has reached a listener (``connection.Connection``)."""
