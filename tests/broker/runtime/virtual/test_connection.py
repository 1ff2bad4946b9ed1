"""Connections in memory: order, closing, pausing, faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from tests.support.within_environment import within
from txnsim.runtime.virtual._connection import BUFFER_HIGH_BYTES, VirtualTransport
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual

T = TypeVar("T")


def run(main: Callable[[VirtualEnvironment], Awaitable[T]], seed: int = 1) -> T:
    return run_virtual(main, seed=seed)


class Recorder(asyncio.Protocol):
    """Notes every call of the transport to the protocol."""

    def __init__(self, *, keep_open: bool = False) -> None:
        self.events: list[object] = []
        self.received = b""
        self.transport: VirtualTransport
        self._keep_open = keep_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, VirtualTransport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.received_at = asyncio.get_running_loop().time()

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self._keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(type(exc).__name__ if exc else "lost")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


async def pair(env: VirtualEnvironment, *, keep_open: bool = False) -> tuple[Recorder, Recorder]:
    """The protocols of a client and of a server that are connected."""
    accepted_recorders: list[Recorder] = []

    def accept() -> Recorder:
        accepted_recorders.append(Recorder(keep_open=keep_open))
        return accepted_recorders[-1]

    server = await env.loop.create_server(accept, "broker", 0)
    _, client = await env.loop.create_connection(Recorder, *server.address)
    server.close()
    assert isinstance(client, Recorder)
    return client, accepted_recorders[0]


async def settle() -> None:
    await asyncio.sleep(1)


def test_bytes_arrive_whole_and_in_order_whatever_the_latencies() -> None:
    async def main(env: VirtualEnvironment) -> bytes:
        client, server = await pair(env)
        for number in range(500):
            client.transport.write(b"%d," % number)
            if number % 7 == 0:
                await asyncio.sleep(0.0001)
        await settle()
        return server.received

    assert run(main) == b"".join(b"%d," % number for number in range(500))


@within(run)
async def test_both_ends_know_their_names(env: VirtualEnvironment) -> None:
    server = await env.loop.create_server(Recorder, "broker-1", 9092)
    assert server.sockets[0].getsockname() == ("broker-1", 9092)
    transport, client = await env.loop.create_connection(Recorder, "broker-1", 9092)
    server_end = env.net.connections[0].server
    assert transport.get_extra_info("peername") == ("broker-1", 9092)
    assert server_end.get_extra_info("sockname") == ("broker-1", 9092)
    assert transport.get_extra_info("sockname") == server_end.get_extra_info("peername")
    assert transport.get_extra_info("socket") is None
    assert transport.get_protocol() is client


def test_connections_outlive_their_server() -> None:
    async def main(env: VirtualEnvironment) -> bytes:
        client, server = await pair(env)
        client.transport.write(b"still here")
        await settle()
        return server.received

    assert run(main) == b"still here"


# Closing


@within(run)
async def test_closing_delivers_what_was_written_first(env: VirtualEnvironment) -> None:
    client, server = await pair(env)
    client.transport.writelines([b"last ", b"words"])
    client.transport.close()
    client.transport.close()
    assert client.transport.is_closing()
    assert not client.transport.is_reading()
    await settle()
    assert server.received == b"last words"
    assert client.events == ["made", "lost"]
    assert server.events == ["made", "eof", "lost"]
    assert env.net.connections == ()
    client.transport.write(b"nobody hears")
    client.transport.write_eof()
    client.transport.abort()


@within(run)
async def test_half_closing_leaves_the_way_back_open(env: VirtualEnvironment) -> None:
    client, server = await pair(env, keep_open=True)
    assert client.transport.can_write_eof()
    client.transport.write_eof()
    client.transport.write_eof()
    with pytest.raises(RuntimeError, match="write_eof"):
        client.transport.write(b"more")
    await settle()
    assert server.events == ["made", "eof"]
    server.transport.write(b"answer")
    server.transport.close()
    await settle()
    assert client.received == b"answer"
    assert client.events == ["made", "eof", "lost"]


@within(run)
async def test_aborting_resets_the_other_end(env: VirtualEnvironment) -> None:
    client, server = await pair(env)
    client.transport.abort()
    await settle()
    assert client.events == ["made", "lost"]
    assert server.events == ["made", "ConnectionResetError"]


@within(run)
async def test_data_for_a_closed_end_is_answered_with_a_reset(env: VirtualEnvironment) -> None:
    client, server = await pair(env, keep_open=True)
    client.transport.close()
    await settle()
    assert server.events == ["made", "eof"]
    server.transport.write(b"too late")
    await settle()
    assert server.events == ["made", "eof", "ConnectionResetError"]


def test_a_protocol_that_fails_loses_its_own_connection_only() -> None:
    class BrokenRecorder(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("bug in a protocol")

    async def main(env: VirtualEnvironment) -> None:
        await env.loop.create_server(BrokenRecorder, "localhost", 1)
        _, struck_protocol = await env.loop.create_connection(Recorder, "localhost", 1)
        _, neighbouring_protocol = await env.loop.create_connection(Recorder, "localhost", 1)
        assert isinstance(struck_protocol, Recorder)
        assert isinstance(neighbouring_protocol, Recorder)
        struck_protocol.transport.write(b"x")
        await settle()
        assert struck_protocol.events == ["made", "ConnectionResetError"]
        assert neighbouring_protocol.events == ["made"]

    with pytest.raises(BaseExceptionGroup) as error_info:
        run(main)
    assert [str(error) for error in error_info.value.exceptions] == ["bug in a protocol"]


# Pausing


@within(run)
async def test_a_reader_that_pauses_makes_the_writer_pause(env: VirtualEnvironment) -> None:
    client, server = await pair(env)
    server.transport.pause_reading()
    assert not server.transport.is_reading()
    client.transport.write(bytes(BUFFER_HIGH_BYTES))
    assert client.events == ["made"]
    client.transport.write(b"x")
    client.transport.write(b"y")
    assert client.events == ["made", "pause"]
    await settle()
    assert server.received == b""
    assert client.transport.get_write_buffer_size() == BUFFER_HIGH_BYTES + 2
    server.transport.resume_reading()
    server.transport.resume_reading()
    await settle()
    assert len(server.received) == BUFFER_HIGH_BYTES + 2
    assert client.events == ["made", "pause", "resume"]
    assert client.transport.get_write_buffer_size() == 0


@within(run)
async def test_write_buffer_limits_can_be_set(env: VirtualEnvironment) -> None:
    client, _ = await pair(env)
    transport = client.transport
    transport.set_write_buffer_limits(high=10)
    assert transport.get_write_buffer_limits() == (2, 10)
    transport.set_write_buffer_limits(low=5)
    assert transport.get_write_buffer_limits() == (5, 20)
    transport.set_write_buffer_limits()
    assert transport.get_write_buffer_limits() == (BUFFER_HIGH_BYTES // 4, BUFFER_HIGH_BYTES)
    with pytest.raises(ValueError, match="high"):
        transport.set_write_buffer_limits(high=1, low=2)


@within(run)
async def test_a_paused_reader_that_closes_frees_the_writer(env: VirtualEnvironment) -> None:
    client, server = await pair(env)
    server.transport.pause_reading()
    client.transport.write(bytes(BUFFER_HIGH_BYTES + 1))
    await settle()
    server.transport.close()
    await settle()
    assert client.transport.get_write_buffer_size() == 0
    assert "lost" in client.events


def test_buffered_protocols_are_fed_through_their_buffer() -> None:
    class BufferedReceiver(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(4)
            self.received = b""

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.received += self.buffer[:nbytes]

    async def main(env: VirtualEnvironment) -> bytes:
        accepted: list[BufferedReceiver] = []

        def accept() -> BufferedReceiver:
            accepted.append(BufferedReceiver())
            return accepted[-1]

        await env.loop.create_server(accept, "localhost", 1)
        transport, _ = await env.loop.create_connection(Recorder, "localhost", 1)
        transport.write(b"0123456789")
        await settle()
        return accepted[0].received

    assert run(main) == b"0123456789"


@within(run)
async def test_the_protocol_may_change(env: VirtualEnvironment) -> None:
    client, server = await pair(env)
    upgraded_recorder = Recorder()
    server.transport.set_protocol(upgraded_recorder)
    client.transport.write(b"x")
    await settle()
    assert (server.received, upgraded_recorder.received) == (b"", b"x")


# Faults


@within(run)
async def test_a_reset_connection_is_lost_at_both_ends_with_what_was_under_way(
    env: VirtualEnvironment,
) -> None:
    client, server = await pair(env)
    client.transport.write(b"lost")
    env.net.connections[0].reset()
    await settle()
    assert server.received == b""
    assert client.events == server.events == ["made", "ConnectionResetError"]
    assert env.net.connections == ()


@within(run)
async def test_a_stalled_connection_delivers_nothing_until_it_goes_on(
    env: VirtualEnvironment,
) -> None:
    client, server = await pair(env)
    connection = env.net.connections[0]
    connection.stall()
    client.transport.write(b"there")
    server.transport.write(b"back")
    client.transport.write_eof()
    await asyncio.sleep(3_600)
    assert (server.received, client.received) == (b"", b"")
    assert server.events == ["made"]
    connection.resume()
    await settle()
    assert (server.received, client.received) == (b"there", b"back")
    assert server.events == ["made", "eof", "lost"]


def test_latencies_of_one_connection_do_not_shift_those_of_another() -> None:
    async def arrival(env: VirtualEnvironment, *, is_busy: bool) -> float:
        await env.loop.create_server(Recorder, "localhost", 1)
        transport, _ = await env.loop.create_connection(Recorder, "localhost", 1)
        second_transport, _ = await env.loop.create_connection(Recorder, "localhost", 1)
        if is_busy:
            transport.write(b"x")
        sent_at_s = env.loop.time()
        second_transport.write(b"y")
        server = env.net.connections[1].server.get_protocol()
        assert isinstance(server, Recorder)
        await settle()
        return round(server.received_at - sent_at_s, 6)

    idle_arrivals = run(lambda env: arrival(env, is_busy=False))
    assert idle_arrivals == run(lambda env: arrival(env, is_busy=True))


# ``net``: Listening addresses in memory.


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
    first_server = await env.loop.create_server(asyncio.Protocol, "localhost", 0)
    await env.loop.create_server(asyncio.Protocol, "localhost", first_server.address[1] + 1)
    second_server = await env.loop.create_server(asyncio.Protocol, "localhost", 0)
    assert second_server.address[1] == first_server.address[1] + 2


@within(run_virtual, seed=1)
async def test_serve_forever_accepts_until_cancelled(env: VirtualEnvironment) -> None:
    server = await env.loop.create_server(asyncio.Protocol, "localhost", 9092)
    await server.start_serving()
    assert server.get_loop() is env.loop
    serving_task = env.tasks.spawn(server.serve_forever(), name="serve")
    await env.loop.create_connection(asyncio.Protocol, "localhost", 9092)
    serving_task.cancel()
    await asyncio.sleep(1)
    assert not server.is_serving()
