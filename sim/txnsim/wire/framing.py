"""Length-prefixed frames: bytes as a connection delivers them go in, whole frames come out.

Kafka's counterpart is ``NetworkReceive``: four bytes of size, then that many bytes. This module
does not look inside a frame.
"""

from __future__ import annotations

from io import BytesIO
from struct import Struct
from typing import Final

from txnsim.errors import MalformedFrameError

_SIZE: Final = Struct(">i").unpack_from
_SIZE_BYTES: Final = 4
_TLS: Final = b"\x16\x03"
"""The first bytes of a ClientHello, whose record is of the type "handshake" of TLS 1.x."""
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")
"""How an HTTP request begins."""


class FrameReader:
    """Cuts the byte stream of one connection into frames.

    At most one frame is being assembled at a time, in a ``BytesIO``: it grows with what comes, so
    nothing is reserved for a frame before its bytes are there, and hands out what it has without
    another copy. A size above ``limit`` is refused when its four bytes are read.
    """

    __slots__ = ("_assembled", "_missing", "_size_bytes", "buffered_bytes", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """The largest frame accepted from now on, in bytes (``socket.request.max.bytes``, or
        ``sasl.server.max.receive.size`` of who is not known yet).
        """
        self._size_bytes = b""
        """The first bytes of a size field that is cut off."""
        self._assembled = BytesIO()
        """The received part of an incomplete frame."""
        self.buffered_bytes = 0
        """Bytes received that belong to a frame not yet whole."""
        self._missing = 0
        """Bytes that the frame being assembled still needs; 0 between frames."""

    def receive_data(self, data: bytes) -> list[bytes]:
        """Take what the connection delivered.

        Returns:
            The frames that are whole now, in order, without their size fields.

        Raises:
            MalformedFrameError: A size is negative or above the limit. The stream can't be read
                any further.
        """
        frames: list[bytes] = []
        position = 0
        if self._missing:
            position = self._missing
            if len(data) < position:
                self._store(data)
                return frames
            self._assembled.write(memoryview(data)[:position])
            frames.append(self._assembled.getvalue())
            self._assembled = BytesIO()
            self._missing = self.buffered_bytes = 0
        elif self._size_bytes:
            data = self._size_bytes + data
            self._size_bytes = b""
            self.buffered_bytes = 0
        end = len(data)
        while end - position >= _SIZE_BYTES:
            size = _SIZE(data, position)[0]
            if size < 0 or size > self.limit:
                what = _no_kafka(data[position : position + _SIZE_BYTES])
                raise MalformedFrameError(f"frame size {size} is outside 0..{self.limit}{what}")
            start = position + _SIZE_BYTES
            position = start + size
            if position > end:
                self._missing = size
                self.buffered_bytes = _SIZE_BYTES
                self._store(memoryview(data)[start:])
                return frames
            frames.append(data[start:position])
        self._size_bytes = data[position:]
        self.buffered_bytes = end - position
        return frames

    def forget(self) -> None:
        """Throw away what belongs to a frame that will never be whole."""
        self._assembled = BytesIO()
        self._size_bytes = b""
        self._missing = self.buffered_bytes = 0

    def _store(self, piece: bytes | memoryview) -> None:
        """Keep a piece of the frame being assembled."""
        self.buffered_bytes += len(piece)
        self._missing -= len(piece)
        self._assembled.write(piece)


def _no_kafka(start: bytes) -> str:
    """The protocol that a peer seems to speak when its first bytes are no size."""
    if start.startswith(_TLS):
        return " (so TLS begins, at a listener in clear)"
    if start in _HTTP:
        return " (so HTTP begins: this is a Kafka listener, the control port has another address)"
    return ""
