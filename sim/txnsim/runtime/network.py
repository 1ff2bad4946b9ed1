"""Sockets for clients and links between brokers, over any event loop.

The same class serves real and virtual time: sockets come from the loop's ``create_server`` and
``create_connection``; the links between brokers (``peer_links``) take deadlines and latencies from
the clock.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.runtime.peer_links import PeerLinks
from txnsim.runtime.tls_gate import TlsGates

if TYPE_CHECKING:
    import ssl

LISTEN_BACKLOG: Final = 1_024
"""Connections that the kernel may hold before we accept them (socket.listen.backlog.size, 50)."""


class LoopNetwork(PeerLinks):
    """Sockets for clients, links between brokers."""

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> SocketListener:
        """Accept client connections, over TLS if given; ``port`` 0 picks a free one.

        Raises:
            OSError: The address is busy or can't be bound.
        """
        gates = None if tls is None else TlsGates(self._loop, tls, factory)
        server = await self._loop.create_server(
            gates or factory, host, port, backlog=LISTEN_BACKLOG
        )
        address = server.sockets[0].getsockname()
        return SocketListener(server, (address[0], address[1]), gates)

    async def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> asyncio.Transport:
        """Open a client connection, over TLS if given.

        Raises:
            OSError: There is no listener.
        """
        transport, _ = await self._loop.create_connection(factory, host, port, ssl=tls)
        return transport


class SocketListener(msgspec.Struct, eq=False):
    """A listening address: a server of the loop."""

    server: asyncio.AbstractServer
    address: tuple[str, int]
    """Host and port really bound."""
    gates: TlsGates | None

    async def close(self) -> None:
        """Stop accepting."""
        # Not wait_closed(): from Python 3.12 on it waits for the connections too, which the server
        # closes itself.
        self.server.close()
        if self.gates is not None:
            self.gates.close()
        await asyncio.sleep(0)  # uvloop frees the port in the next turn


def reset(transport: asyncio.Transport) -> None:
    """Close a connection at once: the other end sees a reset (RST), and what it has not read is
    lost.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:  # virtual ones have none
        no_linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
    transport.abort()
