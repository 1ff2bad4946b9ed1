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
_unpack_size: Final = Struct(">I").unpack_from


class FrameHandling(IntEnum):
    """What to do with a frame."""

    PASS = 0
    """Its bytes are forwarded as they come."""
    COLLECT = 1
    """The frame is collected, and handed over when it is complete."""
    SKIP = 2
    """The bytes are dropped."""
    NEED_MORE = 3
    """More bytes are needed to decide."""
    NO_FRAME = 4
    """The bytes are no frame: the rest of the stream is forwarded without inspection."""


DecideHandling = Callable[[bytes, int, int], FrameHandling]
"""(chunk, start of a frame in it, end of the chunk) -> what to do with the frame; at least
``head_bytes`` of it are there.
"""


class FrameStream:
    """Cuts one direction of a connection into frames; can be stopped."""

    __slots__ = (
        "_data_backlog",
        "_decide",
        "_frame_beginning",
        "_frame_pieces",
        "_handling",
        "_is_feeding",
        "_missing_bytes",
        "_on_backlog_change",
        "_on_frame_end",
        "_pause_count",
        "_take_frame",
        "backlog_bytes",
        "head_bytes",
        "watches_ends",
        "write",
    )

    def __init__(
        self,
        *,
        head_bytes: int,
        decide_handling: DecideHandling,
        take_frame: Callable[[list[bytes]], object],
        on_frame_end: Callable[[], object],
        on_backlog_change: Callable[[], object],
    ) -> None:
        """A direction without bytes yet.

        Args:
            head_bytes: Bytes of a frame that ``decide_handling`` needs.
            decide_handling: Decides what to do with a frame.
            take_frame: Takes the pieces of a collected frame, including its size.
            on_frame_end: Called after the last byte of a forwarded or dropped frame, if
                ``watches_ends`` is set.
            on_backlog_change: Called when the backlog has grown or shrunk.
        """
        self.head_bytes = head_bytes
        self._decide = decide_handling
        self._take_frame = take_frame
        self._on_frame_end = on_frame_end
        self._on_backlog_change = on_backlog_change
        self.write: Callable[[bytes], object] = _drop_bytes
        self.watches_ends = False
        self._frame_beginning = b""
        """Beginning of a frame, too short for ``decide``."""
        self._missing_bytes = 0
        """Missing bytes of the present frame; negative if the rest of the stream is forwarded."""
        self._handling = FrameHandling.PASS
        self._frame_pieces: list[bytes] = []
        self._pause_count = 0
        self._is_feeding = False
        self._data_backlog: deque[bytes] = deque()
        self.backlog_bytes = 0
        """Bytes held while the direction is stopped."""

    @property
    def is_paused(self) -> bool:
        return self._pause_count > 0

    def pause(self) -> None:
        """Stop forwarding until ``resume`` has been called once for each ``pause``."""
        self._pause_count += 1

    def resume(self) -> None:
        """Undo one ``pause``; the last one continues with the held bytes."""
        self._pause_count -= 1
        if self._pause_count or self._is_feeding or not self._data_backlog:
            return
        while self._data_backlog and not self._pause_count:
            data = self._data_backlog.popleft()
            self.backlog_bytes -= len(data)
            self.feed(data)
        self._on_backlog_change()

    def forget(self) -> None:
        """Drop the held bytes, and the frame that is being collected."""
        self._data_backlog.clear()
        self._frame_pieces.clear()
        self.backlog_bytes = 0
        self._frame_beginning = b""

    def feed(self, data: bytes) -> None:
        """Take a chunk that the connection has received."""
        if self._pause_count:
            self._hold(data)
            return
        data_end = len(data)
        decided: FrameHandling | None = None
        if (
            not self._missing_bytes
            and not self._frame_beginning
            and data_end >= self.head_bytes
            and SIZE_BYTES + _unpack_size(data)[0] == data_end
        ):
            # One whole frame, as nearly always: where it passes, there is nothing to cut.
            decided = self._decide(data, 0, data_end)
            if decided is FrameHandling.PASS and not self.watches_ends:
                self.write(data)
                return
        self._is_feeding = True
        if self._frame_beginning:
            data = self._frame_beginning + data
            self._frame_beginning = b""
            data_end = len(data)
        position = unwritten = 0
        missing, handling = self._missing_bytes, self._handling
        while position < data_end:
            if missing < 0:
                position = data_end
                break
            if missing == 0:
                if data_end - position < self.head_bytes:
                    break
                handling = self._decide(data, position, data_end) if decided is None else decided
                if handling is FrameHandling.NEED_MORE:
                    break
                if handling is FrameHandling.NO_FRAME:
                    missing, handling = -1, FrameHandling.PASS
                    continue
                missing = SIZE_BYTES + int.from_bytes(data[position : position + SIZE_BYTES], "big")
                if handling is not FrameHandling.PASS:
                    if position > unwritten:
                        self.write(data[unwritten:position])
                    unwritten = position
            step = min(missing, data_end - position)
            if handling is FrameHandling.COLLECT:
                self._frame_pieces.append(data[position : position + step])
            position += step
            missing -= step
            if handling is not FrameHandling.PASS:
                unwritten = position
            if missing:
                break
            if handling is FrameHandling.COLLECT:
                frame_pieces, self._frame_pieces = self._frame_pieces, []
                self._take_frame(frame_pieces)
            elif self.watches_ends:
                if position > unwritten:
                    self.write(data[unwritten:position])
                    unwritten = position
                self._on_frame_end()
            if self.is_paused:
                break
        if position > unwritten:
            self.write(data if position - unwritten == len(data) else data[unwritten:position])
        self._missing_bytes, self._handling = missing, handling
        self._is_feeding = False
        if position < data_end:
            self._keep_unread(data[position:])

    def _hold(self, data: bytes) -> None:
        self._data_backlog.append(data)
        self.backlog_bytes += len(data)
        self._on_backlog_change()

    def _keep_unread(self, unread: bytes) -> None:
        if not self._pause_count:
            self._frame_beginning = unread
            return
        self._data_backlog.appendleft(unread)
        self.backlog_bytes += len(unread)
        self._on_backlog_change()


def _drop_bytes(_data: bytes) -> None:
    """Drop bytes, as the other side is closed."""
