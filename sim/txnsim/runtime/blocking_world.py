"""Connections and time of blocking programs: real, unless a program runs in another world.

A story or a case is a plain function: it sends a request, waits for the answer, and pauses. So it
can run over TCP against any broker, and in virtual time against the simulator, where its pauses
cost nothing and a busy machine does not make it late.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol


class BlockingConnection(Protocol):
    """A connection, with the methods of a blocking socket."""

    def settimeout(self, value: float, /) -> None:
        """Set how many seconds ``recv`` waits before it raises ``TimeoutError``."""

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes, or raise ``OSError``."""

    def recv(self, size: int, /) -> bytes:
        """Receive up to ``size`` bytes; empty at the end of the stream."""

    def close(self) -> None: ...


class BlockingWorld(Protocol):
    """Connections and time of a blocking program."""

    def connect(self, host: str, port: int, *, timeout_s: float) -> BlockingConnection:
        """Open a connection."""

    def monotonic_s(self) -> float:
        """Monotonic time in seconds, for deadlines."""

    def sleep(self, seconds: float) -> None:
        """Wait ``seconds``."""

    def age(self, transactional_id: str, epoch: int) -> bool:
        """Move an idle transactional id to an epoch; False if only requests can do that."""


class RealWorld:
    """TCP connections and the clock of the machine."""

    def connect(self, host: str, port: int, *, timeout_s: float) -> BlockingConnection:
        return socket.create_connection((host, port), timeout=timeout_s)

    def monotonic_s(self) -> float:
        """Monotonic time in seconds, for deadlines."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def age(self, transactional_id: str, epoch: int) -> bool:  # noqa: ARG002 - the protocol's
        """False: real brokers increase epochs one by one."""
        return False


_current_world: Final[ContextVar[BlockingWorld]] = ContextVar("world", default=RealWorld())  # noqa: B039 - has no state


def world() -> BlockingWorld:
    """The current world of this thread."""
    return _current_world.get()


@contextmanager
def playing_in(new_world: BlockingWorld) -> Iterator[None]:
    """Make ``new_world`` the current world of this thread for the block."""
    token = _current_world.set(new_world)
    try:
        yield
    finally:
        _current_world.reset(token)
