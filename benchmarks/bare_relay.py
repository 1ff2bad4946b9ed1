"""A relay that passes bytes on and reads none of them. It shows what one hop costs on this machine.

    python -m benchmarks.bare_relay PORT TARGET_PORT

It is the peer of ``benchmarks.proxy``: the same loop (uvloop) and the same kind of transports as
the fault proxy has, without anything that makes it one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final, cast

from txnsim.runtime.real_world import run

HOST: Final = "127.0.0.1"


class RelaySide(asyncio.Protocol):
    """One side of a connection; it writes the received bytes to the other side."""

    def __init__(self, take_data: Callable[[bytes], object]) -> None:
        """Begin without a connection; ``take_data`` gets all bytes that arrive."""
        self._take_data = take_data

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on."""
        self._take_data(data)


class ClientSide(RelaySide):
    """The connection of one client: what it sends goes to the broker, unread."""

    def __init__(self, target_port: int) -> None:
        """Make the side of a client that is about to connect."""
        self._bytes_before_target: list[bytes] = []
        super().__init__(self._bytes_before_target.append)
        self._target_port = target_port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the target."""
        client_transport = cast(asyncio.Transport, transport)
        self._task = asyncio.get_running_loop().create_task(
            self._connect_to_target(client_transport)
        )

    async def _connect_to_target(self, client_transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        target_transport, _ = await loop.create_connection(
            lambda: RelaySide(client_transport.write), HOST, self._target_port
        )
        target_transport.writelines(self._bytes_before_target)
        self._take_data = target_transport.write


async def run_relay(port: int, target_port: int) -> None:
    """Relay bytes between clients and the target until the process is ended."""
    server = await asyncio.get_running_loop().create_server(
        lambda: ClientSide(target_port), HOST, port
    )
    await server.serve_forever()


if __name__ == "__main__":
    run(run_relay(int(sys.argv[1]), int(sys.argv[2])))
