"""A pair of ports for tests: a free one, followed by a busy one."""

from __future__ import annotations

import socket  # noqa: TID251 - a port must really be busy
from collections.abc import Iterator
from contextlib import contextmanager

from txnsim.runtime.real_world import free_ports


@contextmanager
def free_port_before_a_busy_one() -> Iterator[int]:
    """A free port; the next port is busy while the block runs."""
    while True:
        (port,) = free_ports(1)
        with socket.socket() as busy_socket:
            try:
                busy_socket.bind(("127.0.0.1", port + 1))
            except OSError:
                continue  # taken by somebody else: try another pair
            busy_socket.listen()
            yield port
            return
