"""Length-prefixed frames: bytes as a connection delivers them go in, whole frames come out.

Kafka's counterpart is ``NetworkReceive``: four bytes of size, then that many bytes. What is inside
a frame is none of our business.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from sim.errors import MalformedFrameError

_SIZE: Final = Struct(">i").unpack_from
_SIZE_BYTES: Final = 4


class FrameReader:
    """Cuts the byte stream of one connection into frames.

    At most one frame is being assembled at a time, from pieces that are kept as they came, so
    nothing is reserved for a frame before its bytes are there. A size above ``limit`` is refused
    when its four bytes are read.
    """

    __slots__ = ("_limit", "_need", "_parts", "_stored")

    def __init__(self, limit: int) -> None:
        """``limit`` is the largest frame accepted, in bytes (``socket.request.max.bytes``)."""
        self._limit = limit
        self._parts: list[bytes] = []
        self._stored = 0
        # Bytes to collect before looking again: the size field, or size field and frame.
        self._need = _SIZE_BYTES

    @property
    def buffered_bytes(self) -> int:
        """Bytes received that belong to a frame not yet whole."""
        return self._stored

    def receive_data(self, data: bytes) -> list[bytes]:
        """Take what the connection delivered.

        Args:
            data: One chunk, cut anywhere.

        Returns:
            The frames that are whole now, in order, without their size fields.

        Raises:
            MalformedFrameError: A size is negative or above the limit. The stream can't be read
                any further.
        """
        if self._stored:
            self._parts.append(data)
            self._stored += len(data)
            if self._stored < self._need:
                return []
            # Joined once per look: small pieces of a large frame wait in the list meanwhile.
            data = b"".join(self._parts)
            self._parts.clear()
            self._stored = 0
        return self._cut(data)

    def _cut(self, data: bytes) -> list[bytes]:
        frames: list[bytes] = []
        position = 0
        end = len(data)
        self._need = _SIZE_BYTES
        while end - position >= _SIZE_BYTES:
            size = _SIZE(data, position)[0]
            if size < 0 or size > self._limit:
                raise MalformedFrameError(
                    f"frame size {size} is outside 0..{self._limit} (socket.request.max.bytes)"
                )
            start = position + _SIZE_BYTES
            if start + size > end:
                self._need = _SIZE_BYTES + size
                break
            position = start + size
            frames.append(data[start:position])
        if position < end:
            rest = data[position:] if position else data
            self._parts.append(rest)
            self._stored = len(rest)
        return frames
