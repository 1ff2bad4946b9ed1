"""The two sides of a connection through the proxy: a client's and a broker's."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from txnsim.runtime.network import reset
from txnsim_lab.proxy._frame_stream import FrameStream


class JoinedEnds(Protocol):
    """Both sides of a connection together (``relay.Relay``)."""

    def pause_or_resume_reading(self) -> None:
        """Pauses or resumes reading each side, depending on whether the other side accepts more."""

    def client_connected(self) -> None:
        """Called when the client has connected."""

    def client_lost(self, exc: Exception | None) -> None:
        """Called when the client's side is closed."""

    def broker_lost(self, exc: Exception | None) -> None:
        """Called when the broker's side is closed."""

    def close(self) -> None:
        """Close both sides, as the proxy stops."""


class ConnectionEnd(asyncio.Protocol):
    """One of the two sides; bytes that it receives go straight to the stream of that direction."""

    def __init__(self, relay: JoinedEnds, stream: FrameStream) -> None:
        self._relay = relay
        self.data_received = stream.feed  # type: ignore[method-assign]  # a call less per chunk
        self.transport: asyncio.Transport | None = None
        self.is_full = False
        """Whether the peer does not read at the moment."""
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports are none of asyncio's classes.
        self.transport = cast(asyncio.Transport, transport)

    def pause_writing(self) -> None:
        """The peer does not read: pauses the other side as well."""
        self.is_full = True
        self._relay.pause_or_resume_reading()

    def resume_writing(self) -> None:
        """Called when the peer reads again."""
        self.is_full = False
        self._relay.pause_or_resume_reading()

    def read(self, *, is_wanted: bool) -> None:
        """Pauses or resumes reading from this side."""
        transport = self.transport
        if transport is None or transport.is_closing() or self._is_paused is not is_wanted:
            return
        self._is_paused = not is_wanted
        if is_wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def close(self, *, is_reset: bool = False) -> None:
        """Send what was written, then close; with ``is_reset``, close at once with RST."""
        if self.transport is None:
            return
        if is_reset:
            reset(self.transport)
        else:
            self.transport.close()

    def abort(self) -> None:
        """Closes at once."""
        if self.transport is not None:
            self.transport.abort()


class ClientEnd(ConnectionEnd):
    """The client's side of a connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when a client has connected."""
        super().connection_made(transport)
        self._relay.client_connected()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._relay.client_lost(exc)


class BrokerEnd(ConnectionEnd):
    """The broker's side of a connection."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._relay.broker_lost(exc)
