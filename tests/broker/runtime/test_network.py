"""Sockets for clients, real and virtual."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, cast

import pytest

from tests.support.slow_machine import SLOW_S
from tests.support.within import within
from txnsim.runtime.env import Network
from txnsim.runtime.network import reset
from txnsim.runtime.real import new_event_loop, real_environment
from txnsim.runtime.tls import server_context
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.security.options import ClientAuth, TlsFiles
from txnsim.server.security_demo import Authority


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


LOOPS: Final = {"asyncio": asyncio.new_event_loop, "ours": new_event_loop}
NO_TLS: Final = bytes.fromhex("0000000a0012000000000001ffff")
"""ApiVersions in clear."""


class Door:
    """A listener that sends back what it gets, and what its clients need."""

    def __init__(self, directory: Path) -> None:
        self._environment = real_environment()
        self.authority = Authority(directory, now_ms=self._environment.clock.now_ms())
        broker = self.authority.issue("broker", hosts=("127.0.0.1",))
        self.client = self.authority.issue("client")
        files = TlsFiles(
            certificate=str(broker.certificate),
            key=str(broker.key),
            authority=str(self.authority.certificate),
        )
        self._tls = server_context(files, ClientAuth.REQUIRED)
        self.made: list[asyncio.BaseTransport] = []

    async def open(self) -> None:
        """Listen."""
        self.listener = await self._environment.network.listen(
            "127.0.0.1", 0, lambda: Echo(self.made), tls=self._tls
        )

    def context(self, *, with_certificate: bool) -> ssl.SSLContext:
        """A client's."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if with_certificate:
            context.load_cert_chain(self.client.certificate, self.client.key)
        return context

    async def connect(
        self, context: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """As a client."""
        return await asyncio.open_connection(*self.listener.address, ssl=context)


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def __init__(self, made: list[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)

    def data_received(self, data: bytes) -> None:
        # A cast, not a check: uvloop's transports are none of asyncio's classes.
        cast(asyncio.Transport, self._made[-1]).write(data)


Story = Callable[[Door], Awaitable[None]]
Play = Callable[[Story], None]


@pytest.fixture(params=LOOPS)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Runs a story on a loop of one kind."""

    async def main(story: Story) -> None:
        door = Door(tmp_path)
        async with asyncio.timeout(SLOW_S):
            await door.open()
            await story(door)
            await door.listener.close()

    def played(story: Story) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main(story))

    return played


async def echoes(door: Door) -> None:
    reader, writer = await door.connect(door.context(with_certificate=True))
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.close()
    await writer.wait_closed()


def test_who_has_what_is_asked_for_comes_through(play: Play) -> None:
    async def story(door: Door) -> None:
        await echoes(door)
        (made,) = door.made
        assert made.get_extra_info("peercert")

    play(story)


def test_a_client_without_a_certificate_gets_an_alert(play: Play) -> None:
    async def story(door: Door) -> None:
        # In TLS 1.3 a client learns after its own handshake what the server thinks of it.
        reader, writer = await door.connect(door.context(with_certificate=False))
        with pytest.raises(ssl.SSLError, match="certificate required"):
            await reader.read(1)
        writer.transport.abort()
        older = door.context(with_certificate=False)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="alert handshake failure"):
            await door.connect(older)
        assert door.made == []
        await echoes(door)

    play(story)


def test_only_a_client_without_tls_is_cut_off(play: Play) -> None:
    async def story(door: Door) -> None:
        reader, writer = await door.connect(door.context(with_certificate=True))
        stranger, its_writer = await door.connect(None)
        its_writer.write(NO_TLS)
        assert await stranger.read() == b""
        its_writer.close()
        writer.write(b"still")
        assert await reader.readexactly(5) == b"still"
        writer.close()
        await writer.wait_closed()

    play(story)


def test_who_goes_away_in_the_middle_is_forgotten(play: Play) -> None:
    async def story(door: Door) -> None:
        for sent in (b"", b"\x16\x03\x01"):
            _, writer = await door.connect(None)
            writer.write(sent)
            writer.close()
            await writer.wait_closed()
        await echoes(door)

    play(story)


def test_a_handshake_that_goes_on_ends_with_its_listener(play: Play) -> None:
    async def story(door: Door) -> None:
        reader, writer = await door.connect(None)
        writer.write(b"\x16\x03\x01")
        await echoes(door)
        await door.listener.close()
        assert await reader.read() == b""
        writer.close()

    play(story)
