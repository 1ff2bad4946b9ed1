"""Ports of this machine, as a test needs them: one that is busy, right after one that is free."""

from __future__ import annotations

import socket  # noqa: TID251 - a port must really be busy
from collections.abc import Iterator
from contextlib import contextmanager

from txnsim.runtime.real_world import free_ports


@contextmanager
def free_port_before_a_busy_one() -> Iterator[int]:
    """The free one; the next one is busy as long as the context lasts."""
    while True:
        (port,) = free_ports(1)
        with socket.socket() as busy:
            try:
                busy.bind(("127.0.0.1", port + 1))
            except OSError:
                continue  # taken by somebody else: try another pair
            busy.listen()
            yield port
            return
