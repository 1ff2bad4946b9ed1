"""Listening addresses in memory, for a loop with virtual time.

Host names are only names; the aliases of loopback are one host, and a wildcard listens for all of
them. ``_connection`` has the connections.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from txnsim.runtime.rng import RandomStreams
from txnsim.runtime.virtual._connection import Address, VirtualConnection, VirtualTransport
from txnsim.text import host_and_port

LATENCY_US_DEFAULT: Final = (50, 500)
"""Least and greatest latency of one way, drawn evenly: about that of a local network."""

PORT_FIRST: Final = 49_152
"""First port for listeners that request none (the dynamic range of RFC 6335)."""

HOST: Final = "virtual-time.invalid"
"""Host name at which clients in a run reach this machine. No name under ``.invalid`` has an address
(RFC 6761), so a library that opens sockets of its own reaches nobody, and its error shows where the
name is from.
"""

_LOOPBACK: Final = "127.0.0.1"
_ALIASES: Final = {
    HOST: _LOOPBACK,
    "localhost": _LOOPBACK,
    "::1": _LOOPBACK,
    "": "0.0.0.0",
    "::": "0.0.0.0",
}
_WILDCARD: Final = "0.0.0.0"


class VirtualNet:
    """Listening addresses and connections of one run."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        rng: RandomStreams,
        latency_us: tuple[int, int] = LATENCY_US_DEFAULT,
    ) -> None:
        """Start without listeners."""
        self._loop = loop
        self._rng = rng
        self._latency_us = latency_us
        self._servers: dict[Address, VirtualServer] = {}
        self._connections: dict[int, VirtualConnection] = {}
        self._opened_count = 0
        self._port_next = PORT_FIRST

    @property
    def connections(self) -> tuple[VirtualConnection, ...]:
        """Open connections, oldest first."""
        return tuple(self._connections.values())

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> VirtualServer:
        """Accept connections from now on.

        Raises:
            OSError: The address is in use.
        """
        host = _ALIASES.get(host, host)
        if port == 0:
            port = self._free_port()
        elif self._find_server(host, port) or (host == _WILDCARD and self._port_taken(port)):
            raise OSError(errno.EADDRINUSE, f"{host_and_port(host, port)} is in use")
        server = VirtualServer(self, self._loop, factory, (host, port))
        self._servers[host, port] = server
        return server

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[VirtualTransport, asyncio.BaseProtocol]:
        """Open a connection, after the latency there and back.

        Raises:
            ConnectionRefusedError: There is no listener when the request arrives.
        """
        self._opened_count += 1
        connection_number = self._opened_count
        latency_rng = self._rng.stream(f"net.connection.{connection_number}")
        host = _ALIASES.get(host, host)
        await self._pass_time(latency_rng)
        server = self._find_server(host, port)
        if server is None:
            raise ConnectionRefusedError(
                errno.ECONNREFUSED, f"no listener on {host_and_port(host, port)}"
            )
        connection = VirtualConnection(
            self._loop,
            connection_number=connection_number,
            latency_rng=latency_rng,
            latency_us=self._latency_us,
            client_address=(_LOOPBACK, self._free_port()),
            server_address=(host, port),
            on_closed=lambda: self._connections.pop(connection_number, None),
        )
        self._connections[connection_number] = connection
        connection.server.start(server.factory(), server.context)
        await self._pass_time(latency_rng)
        protocol = factory()
        connection.client.start(protocol, copy_context())
        # As asyncio does, hand the transport out only after connection_made has run.
        await asyncio.sleep(0)
        return connection.client, protocol

    def forget(self, server: VirtualServer) -> None:
        """Remove the listener of ``server``."""
        self._servers.pop(server.address, None)

    def _find_server(self, host: str, port: int) -> VirtualServer | None:
        return self._servers.get((host, port)) or self._servers.get((_WILDCARD, port))

    def _port_taken(self, port: int) -> bool:
        return any(taken_port == port for _, taken_port in self._servers)

    def _free_port(self) -> int:
        while self._port_taken(self._port_next):
            self._port_next += 1
        port = self._port_next
        self._port_next += 1
        return port

    async def _pass_time(self, latency_rng: random.Random) -> None:
        await asyncio.sleep(latency_rng.randint(*self._latency_us) / 1e6)


class VirtualServer(asyncio.AbstractServer):
    """A listening address in memory, as ``loop.create_server`` returns it."""

    def __init__(
        self,
        net: VirtualNet,
        loop: asyncio.AbstractEventLoop,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
    ) -> None:
        self._net = net
        self._loop = loop
        self._is_serving = True
        self.factory = factory
        self.address = address
        self.context = copy_context()

    @property
    def sockets(self) -> tuple[VirtualSocket, ...]:
        """One pseudo socket, which has the address."""
        return (VirtualSocket(self.address),) if self._is_serving else ()

    def close(self) -> None:
        """Stop accepting; connections stay open."""
        if self._is_serving:
            self._is_serving = False
            self._net.forget(self)

    async def wait_closed(self) -> None:
        """Return at once: a virtual server closes immediately."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._is_serving

    async def start_serving(self) -> None:
        """Do nothing: it serves already."""

    async def serve_forever(self) -> None:
        """Accept until cancelled."""
        try:
            await self._loop.create_future()
        finally:
            self.close()


class VirtualSocket:
    """A pseudo socket of a listener, which has only an address."""

    __slots__ = ("_address",)

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        """Host and port."""
        return self._address
