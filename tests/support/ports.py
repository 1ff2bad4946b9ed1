"""Ports of this machine, as a test needs them: one that is busy, right after one that is free."""

from __future__ import annotations

import socket  # noqa: TID251 - a port must really be busy
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def free_port_before_a_busy_one() -> Iterator[int]:
    """The free one; the next one is busy as long as the context lasts."""
    while True:
        with socket.socket() as busy, socket.socket() as free:
            busy.bind(("127.0.0.1", 0))
            busy.listen()
            port = busy.getsockname()[1] - 1
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue  # taken by somebody else: try another pair
            free.close()
            yield port
            return
