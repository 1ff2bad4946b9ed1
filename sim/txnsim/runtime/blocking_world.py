"""What blocking players have around them: connections and time, real unless a play says otherwise.

A story or a case is a plain function: it asks, waits for the answer, and pauses. So it can be
played over TCP to any broker, and in virtual time to the simulator , where its
pauses cost nothing and no busy machine makes it late.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol


class Line(Protocol):
    """A connection, with the calls of a blocking socket."""

    def settimeout(self, value: float, /) -> None:
        """How many seconds ``recv`` waits before it raises ``TimeoutError``."""

    def sendall(self, data: bytes, /) -> None:
        """Send every byte, or raise ``OSError``."""

    def recv(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; empty at the end of the stream."""

    def close(self) -> None:
        """End it."""


class World(Protocol):
    """Connections and time."""

    def connect(self, host: str, port: int, *, timeout_s: float) -> Line:
        """Open a connection."""

    def monotonic_s(self) -> float:
        """For deadlines."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def age(self, transactional_id: str, epoch: int) -> bool:
        """Let an idle transactional id go on at an epoch; False where only requests lead there."""


class RealWorld:
    """TCP, and the clock of the machine."""

    def connect(self, host: str, port: int, *, timeout_s: float) -> Line:
        """Open a connection."""
        return socket.create_connection((host, port), timeout=timeout_s)

    def monotonic_s(self) -> float:
        """For deadlines."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def age(self, transactional_id: str, epoch: int) -> bool:  # noqa: ARG002 - the protocol's
        """Real brokers reach epochs one by one."""
        return False


_current: Final[ContextVar[World]] = ContextVar("world", default=RealWorld())  # noqa: B039 - has no state


def world() -> World:
    """The present one."""
    return _current.get()


@contextmanager
def playing_in(other: World) -> Iterator[None]:
    """Let ``other`` be the present world of this thread."""
    token = _current.set(other)
    try:
        yield
    finally:
        _current.reset(token)
