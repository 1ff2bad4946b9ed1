"""Connections that speak no Kafka, or stop in the middle of it."""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from tests.support.slow_machine import SLOW_S

PRODUCE: Final = 0


def client_hello() -> bytes:
    """What a client sends first that believes in TLS."""
    outgoing_buffer = ssl.MemoryBIO()
    tls_end = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), outgoing_buffer, server_hostname="localhost"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        tls_end.do_handshake()
    return outgoing_buffer.read()


def request(api_key: int, api_version: int, body: bytes) -> bytes:
    """A frame with header v1."""
    frame = struct.pack(">hhih", api_key, api_version, 1, -1) + body
    return struct.pack(">i", len(frame)) + frame


CLOSED_FOR: Final = {
    "chance": random.Random(1).randbytes(4_096),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": client_hello(),
    "oversized frame": struct.pack(">i", 2**31 - 1) + b"\0" * 100,
    "negative size": struct.pack(">i", -1),
    "frame without header": struct.pack(">i", 2) + b"\0\0",
    "unknown API": request(9_999, 0, b""),
    "version of nobody": request(PRODUCE, 99, b""),
    "torn body": request(PRODUCE, 7, b"\x00\x05abc"),
}
HALF_FRAME: Final = struct.pack(">i", 1_000) + b"\0" * 10
"""Nothing is wrong with it yet: the connection stays."""


class Neighbour:
    """A connection that will misbehave."""

    def __init__(self, connection: socket.socket, kind: str, *, is_closed: bool) -> None:
        self._connection = connection
        self._kind = kind
        self._is_closed = is_closed

    def misbehave(self) -> None:
        """Send what should not be sent."""
        # The broker may close as soon as it has read the beginning.
        with contextlib.suppress(ConnectionError):
            self._connection.sendall(CLOSED_FOR.get(self._kind, HALF_FRAME))

    def expect_answer(self) -> None:
        """Check that the broker has closed the connection, or waits for the rest of the frame."""
        if not self._is_closed:
            self._connection.setblocking(False)
            try:
                received_byte = self._connection.recv(1)
            except BlockingIOError:
                return
            raise AssertionError(f"{self._kind}: got {received_byte!r}, expected nothing yet")
        try:
            received_byte = self._connection.recv(1)
        except ConnectionError:
            received_byte = b""
        except TimeoutError:
            raise AssertionError(f"{self._kind}: the connection is still open") from None
        assert received_byte == b"", (
            f"{self._kind}: got {received_byte!r}, expected a closed connection"
        )


@contextlib.contextmanager
def bad_neighbours(bootstrap: str) -> Iterator[Sequence[Neighbour]]:
    """One neighbour of each kind on every broker."""
    with contextlib.ExitStack() as stack:
        neighbours = []
        for address in bootstrap.split(","):
            host, _colon, port = address.rpartition(":")
            for kind in (*CLOSED_FOR, "half frame"):
                connection = socket.create_connection((host, int(port)), timeout=SLOW_S)
                stack.enter_context(connection)
                neighbours.append(Neighbour(connection, kind, is_closed=kind in CLOSED_FOR))
        yield neighbours
