"""What a connection has sent, up to its handling; and whether its socket is read: not while too
much of it waits.

Kafka's counterpart: NetworkReceive, a connection that is muted, and ``queued.max.requests``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Final

from txnsim.runtime.turns import LargeReads
from txnsim.wire.framing import FrameReader

LARGE_BYTES: Final = 256 << 10
"""Received size from which an incomplete frame counts as large."""
FRAME_BYTES: Final = 256
"""What a request that waits counts for besides its bytes: an empty one takes room and time too."""


class Intake:
    """The reading side of one connection."""

    __slots__ = ("frames", "is_in_line", "is_paused", "queued_bytes", "reader")

    def __init__(self, frame_bytes_max: int) -> None:
        self.reader = FrameReader(frame_bytes_max)
        self.frames: deque[bytes] = deque()
        """Whole requests that wait. The connection adds them and takes them up, and with them what
        they count for.
        """
        self.queued_bytes = 0
        """Bytes that the waiting frames count for."""
        self.is_paused = False
        """The socket is not read: too much waits."""
        self.is_in_line = False
        """It is not read: other large requests have their turns (``LargeReads``)."""

    def forget(self) -> None:
        """Nothing that waits will be handled."""
        self.frames.clear()
        self.queued_bytes = 0

    def close(self) -> None:
        """The connection is gone: nothing that waits will be handled, and nothing more will come.

        What is collected of a frame may be 100 MB, and whoever still holds this may be long-lived.
        """
        self.forget()
        self.reader.forget()

    def keep_within(self, limit_bytes: int, transport: asyncio.Transport | None) -> None:
        """Stop reading above the limit, go on below half of it."""
        if transport is None or transport.is_closing():
            return
        waiting_bytes = self.queued_bytes
        if waiting_bytes:
            waiting_bytes += self.reader.buffered_bytes
        if not self.is_paused and waiting_bytes > limit_bytes:
            self.is_paused = True
            if not self.is_in_line:
                transport.pause_reading()
        elif self.is_paused and waiting_bytes <= limit_bytes // 2:
            self.is_paused = False
            if not self.is_in_line:
                transport.resume_reading()

    def read_by_turns(
        self, count: int, reads: LargeReads, transport: asyncio.Transport | None
    ) -> None:
        """So many bytes of a large frame have come: stop reading where others have their turns."""
        if not reads.have_read(count) or self.is_in_line or self.is_paused:
            return
        if transport is None or transport.is_closing():
            return
        self.is_in_line = True
        transport.pause_reading()
        reads.wait(partial(self._leave_line, transport))

    def _leave_line(self, transport: asyncio.Transport) -> None:
        self.is_in_line = False
        if not self.is_paused and not transport.is_closing():
            transport.resume_reading()
