"""One direction of a connection: bytes are forwarded as they come, except frames that are needed
whole. Forwarded bytes are written as they arrive, even several frames in one chunk or parts of a
frame. Only a frame that a rule or the proxy needs is collected first. So a proxy without rules
costs one call per chunk and a look at each frame's header.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Final

SIZE_BYTES: Final = 4
_size: Final = Struct(">I").unpack_from


class Course(IntEnum):
    """What to do with a frame."""

    PASS = 0
    """Its bytes are forwarded as they come."""
    WHOLE = 1
    """The frame is collected, and handed over when it is complete."""
    SKIP = 2
    """The bytes are dropped."""
    MORE = 3
    """More bytes are needed to decide."""
    RAW = 4
    """The bytes are no frame: the rest of the stream is forwarded without inspection."""


Decide = Callable[[bytes, int, int], Course]
"""(chunk, start of a frame in it, end of the chunk) -> what to do with the frame; at least
``head_bytes`` of it are there.
"""


class FrameStream:
    """Cuts one direction of a connection into frames; can be stopped."""

    __slots__ = (
        "_backlog",
        "_course",
        "_decide",
        "_ended",
        "_grown",
        "_head",
        "_is_feeding",
        "_left",
        "_pieces",
        "_stops",
        "_take",
        "backlog_bytes",
        "head_bytes",
        "watches_ends",
        "write",
    )

    def __init__(
        self,
        *,
        head_bytes: int,
        decide: Decide,
        take: Callable[[list[bytes]], object],
        ended: Callable[[], object],
        grown: Callable[[], object],
    ) -> None:
        """A direction without bytes yet.

        Args:
            head_bytes: Bytes of a frame that ``decide`` needs.
            decide: Decides what to do with a frame.
            take: Takes the pieces of a collected frame, including its size.
            ended: Called after the last byte of a forwarded or dropped frame, if ``watches_ends``
                is set.
            grown: Called when the backlog has grown or shrunk.
        """
        self.head_bytes = head_bytes
        self._decide = decide
        self._take = take
        self._ended = ended
        self._grown = grown
        self.write: Callable[[bytes], object] = _nowhere
        self.watches_ends = False
        self._head = b""
        """Beginning of a frame, too short for ``decide``."""
        self._left = 0
        """Missing bytes of the present frame; negative if the rest of the stream is forwarded."""
        self._course = Course.PASS
        self._pieces: list[bytes] = []
        self._stops = 0
        self._is_feeding = False
        self._backlog: deque[bytes] = deque()
        self.backlog_bytes = 0
        """Bytes held while the direction is stopped."""

    @property
    def is_stopped(self) -> bool:
        return self._stops > 0

    def stop(self) -> None:
        """Stop forwarding until ``go_on`` has been called once for each ``stop``."""
        self._stops += 1

    def go_on(self) -> None:
        """Undo one ``stop``; the last one continues with the held bytes."""
        self._stops -= 1
        if self._stops or self._is_feeding or not self._backlog:
            return
        while self._backlog and not self._stops:
            data = self._backlog.popleft()
            self.backlog_bytes -= len(data)
            self.feed(data)
        self._grown()

    def forget(self) -> None:
        """Drop the held bytes, and the frame that is being collected."""
        self._backlog.clear()
        self._pieces.clear()
        self.backlog_bytes = 0
        self._head = b""

    def feed(self, data: bytes) -> None:
        """Take a chunk that the connection has received."""
        if self._stops:
            self._backlog.append(data)
            self.backlog_bytes += len(data)
            self._grown()
            return
        end = len(data)
        decided: Course | None = None
        if (
            not self._left
            and not self._head
            and end >= self.head_bytes
            and SIZE_BYTES + _size(data)[0] == end
        ):
            # One whole frame, as nearly always: where it passes, there is nothing to cut.
            decided = self._decide(data, 0, end)
            if decided is Course.PASS and not self.watches_ends:
                self.write(data)
                return
        self._is_feeding = True
        if self._head:
            data = self._head + data
            self._head = b""
            end = len(data)
        position = start = 0
        missing, course = self._left, self._course
        while position < end:
            if missing < 0:
                position = end
                break
            if missing == 0:
                if end - position < self.head_bytes:
                    break
                course = self._decide(data, position, end) if decided is None else decided
                if course is Course.MORE:
                    break
                if course is Course.RAW:
                    missing, course = -1, Course.PASS
                    continue
                missing = SIZE_BYTES + int.from_bytes(data[position : position + SIZE_BYTES], "big")
                if course is not Course.PASS:
                    if position > start:
                        self.write(data[start:position])
                    start = position
            step = min(missing, end - position)
            if course is Course.WHOLE:
                self._pieces.append(data[position : position + step])
            position += step
            missing -= step
            if course is not Course.PASS:
                start = position
            if missing:
                break
            if course is Course.WHOLE:
                pieces, self._pieces = self._pieces, []
                self._take(pieces)
            elif self.watches_ends:
                if position > start:
                    self.write(data[start:position])
                    start = position
                self._ended()
            if self.is_stopped:
                break
        if position > start:
            self.write(data if position - start == len(data) else data[start:position])
        self._left, self._course = missing, course
        self._is_feeding = False
        if position < end:
            self._keep(data[position:])

    def _keep(self, unread: bytes) -> None:
        if not self._stops:
            self._head = unread
            return
        self._backlog.appendleft(unread)
        self.backlog_bytes += len(unread)
        self._grown()


def _nowhere(_data: bytes) -> None:
    """Drop bytes, as the other side is closed."""
