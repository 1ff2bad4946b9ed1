"""Sockets for clients and links between brokers, over any event loop.

The same class serves real and virtual time: sockets come from the loop's ``create_server`` and
``create_connection``; the links between brokers (``peer_links``) take deadlines and latencies from
the clock.

The TLS handshake of a client is led here, with a last word for those with whom it fails. asyncio
drops the connection of a failed handshake before the alert has gone out that says why, and the
client takes it for a broken network, which it tries again for ever. A broker's clients rely on the
alert: with it they give up, and know why. So the handshake runs over a connection whose transport
is known, and the alert is written to it. Kafka's counterpart: SslTransportLayer (handshakeFailure).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from functools import partial
from typing import Final, cast

import msgspec

from txnsim.loggers import Logger
from txnsim.runtime._peer_links import PeerLinks

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

    async def keep(self, host: str, port: int) -> SocketListener:
        """Keep a port that is free now until ``close``: who connects is refused. Without that the
        system gives it to the next process that asks for any.

        Raises:
            OSError: Somebody has it already.
        """
        server = await self._loop.create_server(asyncio.Protocol, host, port, start_serving=False)
        return SocketListener(server, (host, port), None)

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


_log: Final = Logger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 60.0
"""asyncio's own."""


class _LoudObject(ssl.SSLObject):
    """Sends its alert before it fails."""

    say: Callable[[], None]

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self.say()
            raise


class _ContextOfOne(ssl.SSLContext):
    """Stands for the listener's context in one connection: the only place where the loop lets us
    see what it makes of a connection.
    """

    gate: TlsGate
    shared: ssl.SSLContext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the signature is Python's
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """The object of the connection."""
        name = cast(str | None, server_hostname)
        found = self.shared.wrap_bio(incoming, outgoing, server_side, name, session)
        assert isinstance(found, _LoudObject)
        found.say = partial(self.gate.say, outgoing)
        incoming.write(self.gate.take_over())
        return found


class TlsGates:
    """Protocol factory of a TLS listener: makes a gate for each connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: ssl.SSLContext,
        factory: Callable[[], asyncio.Protocol],
    ) -> None:
        context.sslobject_class = _LoudObject
        self._context = context
        self._loop = loop
        self._factory = factory
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self) -> asyncio.Protocol:
        return TlsGate(self)

    def close(self) -> None:
        """Cancel the unfinished handshakes."""
        for task in self._tasks:
            task.cancel()

    def lead(self, gate: TlsGate, raw: asyncio.Transport) -> None:
        """Begin a handshake."""
        task = self._loop.create_task(self._lead(gate, raw))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lead(self, gate: TlsGate, raw: asyncio.Transport) -> None:
        if gate.is_lost:
            return
        context = _ContextOfOne(ssl.PROTOCOL_TLS_SERVER)
        context.gate, context.shared = gate, self._context
        peer = str(raw.get_extra_info("peername"))
        try:
            transport = await self._loop.start_tls(
                raw, gate, context, server_side=True, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S
            )
        except OSError as error:  # that of TLS is one
            reason = str(error) or "the client went away"
            _log.warning("TLS handshake failed", peer=peer, reason=reason)
            raw.close()
            return
        if transport is not None:
            gate.step_aside(transport, self._factory())


class TlsGate(asyncio.Protocol):
    """Protocol of one connection until its TLS handshake is over."""

    def __init__(self, gates: TlsGates) -> None:
        self._gates = gates
        self._raw: asyncio.Transport | None = None
        self._early = bytearray()
        """What came too early: before the handshake is led, as it came; later in clear, before the
        protocol is there.
        """
        self.is_lost = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        # A cast, not a check: uvloop's transports are none of asyncio's classes.
        self._raw = cast(asyncio.Transport, transport)
        self._gates.lead(self, self._raw)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes until the protocol is connected."""
        self._early += data

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_lost = True

    # Of the handshake

    def take_over(self) -> bytes:
        """Bytes received so far; later bytes arrive decrypted."""
        early = bytes(self._early)
        self._early.clear()
        return early

    def say(self, outgoing: ssl.MemoryBIO) -> None:
        """Send what is ready to be sent."""
        last = outgoing.read()
        if last and self._raw is not None:
            self._raw.write(last)

    def step_aside(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """The handshake is over: from now on the connection is the protocol's."""
        if self.is_lost:
            return
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(bytes(self._early))
