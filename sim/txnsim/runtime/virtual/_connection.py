"""A connection in memory: two transports, and a pipe per direction.

Written data arrives after a latency that is drawn from the connection's own random stream, never
earlier than data that was written before it. As with TCP: closing sends the written data and then
the end of the stream; data that reaches a closed end is answered with a reset; a reader that pauses
makes the writer's buffer grow until the writer's protocol has to pause. Unlike with TCP,
``connection_lost`` comes at once after ``close``, even where the other end is stalled and has not
taken everything.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from enum import Enum
from typing import Any, Final

import msgspec

BUFFER_HIGH_BYTES: Final = 65_536
"""Unread bytes at which a writer has to pause; asyncio's default."""

Address = tuple[str, int]


class _Signal(Enum):
    """What a pipe carries besides data."""

    EOF = "end of stream"
    RESET = "reset"


class VirtualConnection:
    """Two transports and the pipes between them; faults of a connection act here."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        connection_number: int,
        latency_rng: random.Random,
        latency_us: tuple[int, int],
        client_address: Address,
        server_address: Address,
        on_closed: Callable[[], object],
    ) -> None:
        self.number = connection_number
        self._on_closed = on_closed
        self._ends_open = 2
        self.client = VirtualTransport(loop, self, sockname=client_address, peername=server_address)
        self.server = VirtualTransport(loop, self, sockname=server_address, peername=client_address)
        self.client.join(self.server, _Pipe(loop, latency_rng, latency_us, self.server))
        self.server.join(self.client, _Pipe(loop, latency_rng, latency_us, self.client))

    def reset(self) -> None:
        """Break the connection at once: both ends get a ConnectionResetError, and data under way is
        lost.
        """
        self.client.lose(ConnectionResetError(errno.ECONNRESET, "connection reset"))
        self.server.lose(ConnectionResetError(errno.ECONNRESET, "connection reset"))

    def stall(self) -> None:
        """Stop delivery to both ends until ``resume``; nothing is lost."""
        self.client.stall()
        self.server.stall()

    def resume(self) -> None:
        """Undo ``stall``."""
        self.client.unstall()
        self.server.unstall()

    def end_closed(self) -> None:
        """Note that one of the ends is closed for good."""
        self._ends_open -= 1
        if self._ends_open == 0:
            self._on_closed()


class _Pipe(msgspec.Struct, eq=False):
    """One direction of a connection: delays data, and keeps its order."""

    loop: asyncio.AbstractEventLoop
    random_source: random.Random
    latency_us: tuple[int, int]
    target: VirtualTransport
    _last_s: float = 0.0
    _items_in_flight: deque[bytes | _Signal] = msgspec.field(default_factory=deque)

    def send(self, item: bytes | _Signal) -> None:
        latency_s = self.random_source.randint(*self.latency_us) / 1e6
        self._last_s = max(self._last_s, self.loop.time() + latency_s)
        self._items_in_flight.append(item)
        # Each timer takes the oldest item: equal deadlines fire in no promised order.
        self.loop.call_at(self._last_s, self._arrive, context=self.target.context)

    def _arrive(self) -> None:
        self.target.arrive(self._items_in_flight.popleft())


class VirtualTransport(asyncio.Transport):
    """One end of a connection in memory."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: VirtualConnection,
        *,
        sockname: Address,
        peername: Address,
    ) -> None:
        super().__init__({"sockname": sockname, "peername": peername})
        self.connection = connection
        self.context = Context()
        self._loop = loop
        self._protocol: asyncio.BaseProtocol = asyncio.Protocol()
        self._inbox: deque[bytes | _Signal] = deque()
        self._has_started = False
        self._is_paused = False
        self._is_stalled = False
        self._is_closing = False
        self._is_lost = False
        self._has_sent_eof = False
        self._unread_bytes = 0  # written here, not yet taken by the other end
        self._high_bytes = BUFFER_HIGH_BYTES
        self._low_bytes = BUFFER_HIGH_BYTES // 4
        self._is_writer_paused = False

    def join(self, peer: VirtualTransport, pipe: _Pipe) -> None:
        self._peer = peer
        self._pipe = pipe

    def start(self, protocol: asyncio.BaseProtocol, context: Context) -> None:
        """Tell the protocol that it is connected, then deliver what has arrived."""
        self._protocol = protocol
        self.context = context.copy()
        self._loop.call_soon(self._connect_protocol, context=self.context)

    def _connect_protocol(self) -> None:
        self._protocol.connection_made(self)
        self._has_started = True
        self._pump()

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send; the bytes are copied."""
        if self._has_sent_eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_closing or not data:
            return
        data_copy = bytes(data)
        self._unread_bytes += len(data_copy)
        self._pipe.send(data_copy)
        if self._unread_bytes > self._high_bytes and not self._is_writer_paused:
            self._is_writer_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send all buffers as one piece of data."""
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """Close this direction; the other one stays open."""
        if not self._is_closing and not self._has_sent_eof:
            self._has_sent_eof = True
            self._pipe.send(_Signal.EOF)

    def can_write_eof(self) -> bool:
        """Return True: one direction can be closed."""
        return True

    def get_write_buffer_size(self) -> int:
        """Number of bytes that the other end has not taken."""
        return self._unread_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Low and high limit of the write buffer."""
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set at how many unread bytes the protocol has to pause and to resume."""
        if high is None:
            high = BUFFER_HIGH_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")
        self._high_bytes, self._low_bytes = high, low

    def _note_taken_bytes(self, byte_count: int) -> None:
        """Note that the other end has taken ``byte_count`` bytes."""
        self._unread_bytes -= byte_count
        if self._is_writer_paused and self._unread_bytes <= self._low_bytes and not self._is_lost:
            self._is_writer_paused = False
            self._loop.call_soon(self._protocol.resume_writing, context=self.context)

    # Reading

    def arrive(self, item: bytes | _Signal) -> None:
        """Handle data or a signal that has come through the pipe."""
        if self._is_closing:
            self._arrive_late(item)
        else:
            self._inbox.append(item)
            self._pump()

    def _arrive_late(self, item: bytes | _Signal) -> None:
        if isinstance(item, bytes):
            self._peer._note_taken_bytes(len(item))
            self._pipe.send(_Signal.RESET)  # as a kernel does for a socket that is closed

    def _pump(self) -> None:
        while (
            self._inbox
            and self._has_started
            and not (self._is_paused or self._is_stalled or self._is_closing)
        ):
            item = self._inbox.popleft()
            if item is _Signal.RESET:
                self.lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
                return
            try:
                self._hand_over(item)
            except Exception as error:  # noqa: BLE001 - as asyncio does: report, and lose this connection only
                self._loop.call_exception_handler(
                    {
                        "message": "Fatal error: protocol callback failed.",
                        "exception": error,
                        "transport": self,
                        "protocol": self._protocol,
                    }
                )
                self._pipe.send(_Signal.RESET)
                self.lose(error)

    def _hand_over(self, item: bytes | _Signal) -> None:
        protocol = self._protocol
        if isinstance(item, bytes):
            self._peer._note_taken_bytes(len(item))
            if isinstance(protocol, asyncio.BufferedProtocol):
                _feed_buffered(protocol, item)
            elif isinstance(protocol, asyncio.Protocol):
                protocol.data_received(item)
            return
        keeps_open = None
        if isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol):
            keeps_open = protocol.eof_received()
        if not keeps_open:
            self.close()

    def pause_reading(self) -> None:
        """Deliver nothing to the protocol until ``resume_reading``."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Deliver again, from a later turn of the loop on."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._pump, context=self.context)

    def is_reading(self) -> bool:
        """Whether data is delivered to the protocol."""
        return not (self._is_paused or self._is_closing)

    def stall(self) -> None:
        """Deliver nothing more to this end, as if the network had stopped
        (``VirtualConnection.stall``).
        """
        self._is_stalled = True

    def unstall(self) -> None:
        """Undo ``stall``."""
        self._is_stalled = False
        self._loop.call_soon(self._pump, context=self.context)

    # Closing

    def close(self) -> None:
        """Send the written data, then the end of the stream."""
        if not self._is_closing:
            if not self._has_sent_eof:
                self._pipe.send(_Signal.EOF)
            self._close_with(None)

    def abort(self) -> None:
        """Close at once; the other end gets a reset."""
        if not self._is_closing:
            self._pipe.send(_Signal.RESET)
            self._close_with(None)

    def lose(self, error: Exception) -> None:
        """End this transport: the connection broke."""
        if not self._is_closing:
            self._close_with(error)

    def _close_with(self, error: Exception | None) -> None:
        self._is_closing = True
        for item in self._inbox:
            if isinstance(item, bytes):
                self._peer._note_taken_bytes(len(item))
        self._inbox.clear()
        self._loop.call_soon(self._tell_lost, error, context=self.context)

    def _tell_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self.connection.end_closed()
        self._protocol.connection_lost(error)

    def is_closing(self) -> bool:
        """Whether the transport is closed or broken."""
        return self._is_closing

    # Protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol


def _feed_buffered(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    while data:
        buffer: Any = memoryview(protocol.get_buffer(len(data)))
        copied_bytes = min(len(buffer), len(data))
        if copied_bytes == 0:
            raise RuntimeError("get_buffer() returned an empty buffer")
        buffer[:copied_bytes] = data[:copied_bytes]
        protocol.buffer_updated(copied_bytes)
        data = data[copied_bytes:]
