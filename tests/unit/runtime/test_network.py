"""Sockets for clients, real and virtual."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.within import within
from txnsim.runtime.env import Network
from txnsim.runtime.network import reset
from txnsim.runtime.real import real_environment
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual


def real_network() -> Network:
    return real_environment().network


async def test_clients_connect_over_real_sockets() -> None:
    network = real_network()
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    class Server(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            received.set_result(data)

    listener = await network.listen("127.0.0.1", 0, Server)
    host, port = listener.address
    assert port != 0
    transport = await network.connect(host, port, asyncio.Protocol)
    transport.write(b"hello")
    assert await received == b"hello"
    transport.close()
    await listener.close()
    with pytest.raises(OSError, match=str(port)):
        await network.connect(host, port, asyncio.Protocol)


async def test_a_busy_port_is_refused() -> None:
    network = real_network()
    listener = await network.listen("127.0.0.1", 0, asyncio.Protocol)
    with pytest.raises(OSError, match="in use"):
        await network.listen(*listener.address, asyncio.Protocol)
    await listener.close()


@within(run_virtual, seed=1)
async def test_the_same_network_serves_virtual_sockets(env: VirtualEnvironment) -> None:
    listener = await env.network.listen("broker-1", 9092, asyncio.Protocol)
    assert listener.address == ("broker-1", 9092)
    await env.network.connect("broker-1", 9092, asyncio.Protocol)
    await listener.close()
    with pytest.raises(ConnectionRefusedError):
        await env.network.connect("broker-1", 9092, asyncio.Protocol)


async def test_a_reset_is_one_on_a_real_socket_too() -> None:
    class Resetting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            reset(transport)

    server = await asyncio.get_running_loop().create_server(Resetting, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
