"""Listening addresses in memory."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.within import within
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "elsewhere"])
@within(run_virtual, seed=1)
async def test_a_wildcard_listens_for_every_name(env: VirtualEnvironment, host: str) -> None:
    await env.loop.create_server(asyncio.Protocol, None, 9092)
    await env.loop.create_connection(asyncio.Protocol, host, 9092)
    assert len(env.net.connections) == 1


@within(run_virtual, seed=1)
async def test_loopback_has_several_names_and_other_hosts_are_other_hosts(
    env: VirtualEnvironment,
) -> None:
    await env.loop.create_server(asyncio.Protocol, "localhost", 9092)
    await env.loop.create_connection(asyncio.Protocol, "127.0.0.1", 9092)
    with pytest.raises(ConnectionRefusedError, match="elsewhere"):
        await env.loop.create_connection(asyncio.Protocol, "elsewhere", 9092)


@within(run_virtual, seed=1)
async def test_a_busy_address_is_refused_until_its_server_closes(env: VirtualEnvironment) -> None:
    server = await env.loop.create_server(asyncio.Protocol, "localhost", 9092)
    with pytest.raises(OSError, match="9092"):
        await env.loop.create_server(asyncio.Protocol, "127.0.0.1", 9092)
    with pytest.raises(OSError, match="9092"):
        await env.loop.create_server(asyncio.Protocol, "0.0.0.0", 9092)
    await env.loop.create_server(asyncio.Protocol, "other", 9092)
    assert server.is_serving()
    server.close()
    server.close()
    await server.wait_closed()
    assert not server.is_serving()
    assert server.sockets == ()
    await env.loop.create_server(asyncio.Protocol, "localhost", 9092)


@within(run_virtual, seed=1)
async def test_free_ports_differ_from_those_taken(env: VirtualEnvironment) -> None:
    first = await env.loop.create_server(asyncio.Protocol, "localhost", 0)
    await env.loop.create_server(asyncio.Protocol, "localhost", first.address[1] + 1)
    second = await env.loop.create_server(asyncio.Protocol, "localhost", 0)
    assert second.address[1] == first.address[1] + 2


@within(run_virtual, seed=1)
async def test_serve_forever_accepts_until_cancelled(env: VirtualEnvironment) -> None:
    server = await env.loop.create_server(asyncio.Protocol, "localhost", 9092)
    await server.start_serving()
    assert server.get_loop() is env.loop
    serving = env.tasks.spawn(server.serve_forever(), name="serve")
    await env.loop.create_connection(asyncio.Protocol, "localhost", 9092)
    serving.cancel()
    await asyncio.sleep(1)
    assert not server.is_serving()
