"""One direction of a connection: bytes as they come, frames where somebody asks for them.

What passes is written on as it came, several frames in one piece, before a frame is whole. Only a
frame that somebody wants to see is collected first. So an unarmed proxy costs one call per chunk
and a look at each frame's header.
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
    """What becomes of a frame."""

    PASS = 0
    """Its bytes are forwarded as they come."""
    WHOLE = 1
    """It is collected, and handed over when it is whole."""
    SKIP = 2
    """Its bytes are thrown away."""
    MORE = 3
    """More bytes are needed to decide."""
    RAW = 4
    """The bytes are no frame: the rest of the stream is forwarded unread."""


Decide = Callable[[bytes, int, int], Course]
"""(chunk, start of a frame in it, end of the chunk) -> its course; ``head_bytes`` are there."""


class FrameStream:
    """Cuts one direction, and can be made to wait."""

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
        """A direction in which nothing has come yet.

        Args:
            head_bytes: So many bytes of a frame have to be there before it is decided about.
            decide: Says the course of each frame.
            take: Given the pieces of a frame that was collected, its size in front.
            ended: Called behind the last byte of a frame that passes or is thrown away, where
                ``watches_ends``.
            grown: The backlog has grown or shrunk.
        """
        self.head_bytes = head_bytes
        self._decide = decide
        self._take = take
        self._ended = ended
        self._grown = grown
        self.write: Callable[[bytes], object] = _nowhere
        self.watches_ends = False
        self._head = b""
        """The beginning of a frame that can't be decided about yet."""
        self._left = 0
        """Bytes that are missing of the present frame; negative: of no frame, for ever."""
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
        """Undo one ``stop``; the last one resumes with the held bytes."""
        self._stops -= 1
        if self._stops or self._is_feeding or not self._backlog:
            return
        while self._backlog and not self._stops:
            data = self._backlog.popleft()
            self.backlog_bytes -= len(data)
            self.feed(data)
        self._grown()

    def forget(self) -> None:
        """Throw away what waits, and what is being collected."""
        self._backlog.clear()
        self._pieces.clear()
        self.backlog_bytes = 0
        self._head = b""

    def feed(self, data: bytes) -> None:
        """Take what the connection delivered."""
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
    """Drop bytes: the other side has closed."""
