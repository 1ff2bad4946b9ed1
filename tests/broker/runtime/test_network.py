"""Sockets and links, real and virtual."""

from __future__ import annotations

import asyncio
import mmap
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple, cast

import pytest

from tests.support.images import B1, B2
from tests.support.slow_machine import SLOW_S
from tests.support.within_environment import within
from txnsim.errors import PeerTimeoutError
from txnsim.runtime._link_cuts import LinkCut, LinkCuts, Pipe
from txnsim.runtime.environment import Network
from txnsim.runtime.network import HANDSHAKES_PER_TURN, HelloWatch, TlsGates, reset
from txnsim.runtime.peer_call import PeerCall
from txnsim.runtime.real_world import new_event_loop, real_environment
from txnsim.runtime.tasks import LoopTasks, Pending, Unpacker
from txnsim.runtime.tls import server_context
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.security.options import ClientAuth, TlsFiles
from txnsim.server.security_demo import Authority
from txnsim.types import BrokerId

# Sockets for clients, real and virtual.


def real_network() -> Network:
    return real_environment().network


async def test_clients_connect_over_real_sockets() -> None:
    network = real_network()
    received_future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    class Server(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            received_future.set_result(data)

    listener = await network.listen("127.0.0.1", 0, Server)
    host, port = listener.address
    assert port != 0
    transport = await network.connect(host, port, asyncio.Protocol)
    transport.write(b"hello")
    assert await received_future == b"hello"
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
    class ResettingProtocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            reset(transport)

    server = await asyncio.get_running_loop().create_server(ResettingProtocol, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()


LOOPS: Final = {"asyncio": asyncio.new_event_loop, "ours": new_event_loop}
NO_TLS: Final = bytes.fromhex("0000000a0012000000000001ffff")
"""ApiVersions in clear."""


class ListeningEnd:
    """A listener that sends back every byte, with the certificates of its clients."""

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
        """Begin to listen on a free port."""
        self.listener = await self._environment.network.listen(
            "127.0.0.1", 0, lambda: Echo(self.made), tls=self._tls
        )

    def context(self, *, with_certificate: bool) -> ssl.SSLContext:
        """The TLS context of a client."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if with_certificate:
            context.load_cert_chain(self.client.certificate, self.client.key)
        return context

    async def connect(
        self, context: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as a client."""
        return await asyncio.open_connection(*self.listener.address, ssl=context)


class Echo(asyncio.Protocol):
    """A protocol that sends back every byte."""

    def __init__(self, transports: list[asyncio.BaseTransport]) -> None:
        self._made = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)

    def data_received(self, data: bytes) -> None:
        # A cast, not a check: uvloop's transports are none of asyncio's classes.
        cast(asyncio.Transport, self._made[-1]).write(data)


Story = Callable[[ListeningEnd], Awaitable[None]]
Play = Callable[[Story], None]


@pytest.fixture(params=LOOPS)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Runs a story on the real or on the virtual event loop."""

    async def main(story: Story) -> None:
        endpoint = ListeningEnd(tmp_path)
        async with asyncio.timeout(SLOW_S):
            await endpoint.open()
            await story(endpoint)
            await endpoint.listener.close()

    def run_story(story: Story) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main(story))

    return run_story


async def echoes(endpoint: ListeningEnd) -> None:
    reader, writer = await endpoint.connect(endpoint.context(with_certificate=True))
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.close()
    await writer.wait_closed()


def test_who_has_what_is_asked_for_comes_through(play: Play) -> None:
    async def story(endpoint: ListeningEnd) -> None:
        await echoes(endpoint)
        (server_transport,) = endpoint.made
        assert server_transport.get_extra_info("peercert")

    play(story)


def test_a_client_without_a_certificate_gets_an_alert(play: Play) -> None:
    async def story(endpoint: ListeningEnd) -> None:
        # In TLS 1.3 a client learns after its own handshake what the server thinks of it.
        reader, writer = await endpoint.connect(endpoint.context(with_certificate=False))
        with pytest.raises(ssl.SSLError, match="certificate required"):
            await reader.read(1)
        writer.transport.abort()
        older_context = endpoint.context(with_certificate=False)
        older_context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="alert handshake failure"):
            await endpoint.connect(older_context)
        assert endpoint.made == []
        await echoes(endpoint)

    play(story)


def test_only_a_client_without_tls_is_cut_off(play: Play) -> None:
    async def story(endpoint: ListeningEnd) -> None:
        reader, writer = await endpoint.connect(endpoint.context(with_certificate=True))
        stranger_reader, its_writer = await endpoint.connect(None)
        its_writer.write(NO_TLS)
        assert await stranger_reader.read() == b""
        its_writer.close()
        writer.write(b"still")
        assert await reader.readexactly(5) == b"still"
        writer.close()
        await writer.wait_closed()

    play(story)


def test_who_goes_away_in_the_middle_is_forgotten(play: Play) -> None:
    async def story(endpoint: ListeningEnd) -> None:
        for sent_bytes in (b"", b"\x16\x03\x01"):
            _, writer = await endpoint.connect(None)
            writer.write(sent_bytes)
            writer.close()
            await writer.wait_closed()
        await echoes(endpoint)

    play(story)


def test_a_handshake_that_goes_on_ends_with_its_listener(play: Play) -> None:
    async def story(endpoint: ListeningEnd) -> None:
        reader, writer = await endpoint.connect(None)
        writer.write(b"\x16\x03\x01")
        await echoes(endpoint)
        await endpoint.listener.close()
        assert await reader.read() == b""
        writer.close()

    play(story)


def client_hello() -> bytes:
    """A ClientHello in one record."""
    outgoing_bio = ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
        ssl.MemoryBIO(), outgoing_bio, server_hostname="localhost"
    )
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing_bio.read()


def in_records(hello: bytes, size: int) -> bytes:
    """The same message in records of so many bytes."""
    message = hello[5:]
    return b"".join(
        hello[:3] + len(part).to_bytes(2, "big") + part
        for part in (message[start : start + size] for start in range(0, len(message), size))
    )


@pytest.mark.parametrize("size", [1, 3, 4, 5, 100, 1 << 14])
def test_a_hello_can_be_judged_with_its_last_byte(size: int) -> None:
    hello_watch, early_bytes = HelloWatch(), bytearray()
    hello = in_records(client_hello(), size)
    for byte in hello[:-1]:
        early_bytes.append(byte)
        assert not hello_watch.can_be_judged(early_bytes)
    assert hello_watch.can_be_judged(early_bytes + hello[-1:])
    assert not HelloWatch().can_be_judged(bytearray(hello[:-1]))
    assert HelloWatch().can_be_judged(bytearray(hello + b"more"))


@pytest.mark.parametrize(
    "first_bytes",
    [
        "00",  # no TLS
        "1602010001",  # another version
        "1603010000",  # an empty record
        "160301ffff",  # a record that is too large
        "16030100040200000a",  # another message
        "160301000401ffffff",  # a ClientHello of 16 MB
        "160301000401000010" + "15030100020101",  # an alert in the middle
    ],
)
def test_what_becomes_no_hello_can_be_judged_at_once(first_bytes: str) -> None:
    assert HelloWatch().can_be_judged(bytearray.fromhex(first_bytes))


def test_a_client_without_its_whole_hello_has_no_tls_object_and_a_herd_has_its_pace(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_counts: list[int] = []
    begin_handshakes = TlsGates._begin_handshakes

    def count_begun(gates: TlsGates) -> None:
        ready_count = len(gates._ready_gates)
        begin_handshakes(gates)
        begun_counts.append(ready_count - len(gates._ready_gates))

    monkeypatch.setattr(TlsGates, "_begin_handshakes", count_begun)

    async def story(endpoint: ListeningEnd) -> None:
        hello = client_hello()
        herd = [await endpoint.connect(None) for _ in range(3 * HANDSHAKES_PER_TURN)]
        for _, writer in herd:
            writer.write(hello[:-1])
        await echoes(endpoint)
        assert begun_counts == [1]
        for _, writer in herd:
            writer.write(hello[-1:])
        for reader, writer in herd:
            assert await reader.read(1) == b"\x16", "the server's part of the handshake"
            writer.close()
        assert sum(begun_counts) == 1 + len(herd)
        assert max(begun_counts) <= HANDSHAKES_PER_TURN

    play(story)


# One piece of work at a time, in one room, beside the loop where there are threads.


class Work(NamedTuple):
    room_bytes: int


@pytest.mark.parametrize("in_thread", [True, False])
async def test_work_is_done_in_one_room(in_thread: bool) -> None:
    unpacker = Unpacker(unpacks_in_thread=in_thread)
    buffers: list[mmap.mmap] = []
    threads: set[int] = set()

    def do(work: Work, buffer: mmap.mmap) -> int:
        buffers.append(buffer)
        threads.add(threading.get_ident())
        return len(buffer) - work.room_bytes

    async def ask(size: int) -> int:
        await unpacker.enter()
        try:
            return await unpacker.unpack(do, Work(size))
        finally:
            unpacker.leave()

    assert await asyncio.gather(ask(10_000), ask(10_000), ask(5_000)) == [0, 0, 5_000]
    assert buffers[0] is buffers[1] is buffers[2]
    assert await ask(20_000) == 0
    assert (threads == {threading.get_ident()}) is not in_thread
    unpacker.close()
    unpacker.close()


async def test_one_waits_for_the_other() -> None:
    unpacker = Unpacker(unpacks_in_thread=True)
    loop = asyncio.get_running_loop()
    begin_event, let_go_event = asyncio.Event(), threading.Event()
    order: list[str] = []

    def wait_in_room(_: Work, __: mmap.mmap) -> None:
        loop.call_soon_threadsafe(begin_event.set)
        let_go_event.wait()
        order.append("first")

    def second(_: Work, __: mmap.mmap) -> None:
        order.append("second")

    await unpacker.enter()
    leaving_task = asyncio.get_running_loop().create_task(unpacker.unpack(wait_in_room, Work(1)))
    await begin_event.wait()
    leaving_task.cancel()  # its client has gone; the thread works on
    unpacker.leave()
    await unpacker.enter()
    unpack_task = asyncio.get_running_loop().create_task(unpacker.unpack(second, Work(1)))
    await asyncio.sleep(0)
    let_go_event.set()
    await unpack_task
    assert order == ["first", "second"]
    unpacker.leave()
    unpacker.close()


async def test_an_error_reaches_the_caller() -> None:
    unpacker = Unpacker(unpacks_in_thread=True)

    def do(_: Work, __: mmap.mmap) -> None:
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        await unpacker.unpack(do, Work(1))
    unpacker.close()


# Which links are cut, what waits on them, and who is told of a heal.


def test_a_link_is_cut_in_one_direction_until_it_heals() -> None:
    cuts = LinkCuts()
    assert not cuts
    cuts.cut((B1, B2), LinkCut.BLACK_HOLE)
    assert cuts
    assert (cuts.kind_of_cut((B1, B2)), cuts.kind_of_cut((B2, B1))) == (LinkCut.BLACK_HOLE, None)
    cuts.cut((B1, B2), LinkCut.REFUSED)
    assert cuts.kind_of_cut((B1, B2)) is LinkCut.REFUSED
    assert cuts.heal((B1, B2)) == []
    assert not cuts


def test_what_waited_is_handed_back_once_and_in_order() -> None:
    cuts = LinkCuts()
    notices: list[str] = []
    cuts.cut((B1, B2), LinkCut.BLACK_HOLE)
    cuts.hold((B1, B2), lambda: notices.append("first"))
    cuts.hold((B1, B2), lambda: notices.append("second"))
    for go_on in cuts.heal((B1, B2)):
        go_on()
    assert notices == ["first", "second"]
    assert cuts.heal((B1, B2)) == []


def test_watchers_are_called() -> None:
    cuts = LinkCuts()
    healed_links: list[object] = []
    leave = cuts.watch(lambda *link: healed_links.append(link))
    cuts.notify_watchers((B1, B2))
    assert healed_links == [(B1, B2)]
    leave()
    cuts.notify_watchers((B2, B1))
    assert healed_links == [(B1, B2)]


def test_a_quick_message_does_not_overtake_a_slow_one() -> None:
    arrived: list[tuple[str, int]] = []

    async def main(env: VirtualEnvironment) -> None:
        start_ms = env.clock.monotonic_ms()
        pipe = Pipe(env.clock)
        sent_message_future = env.loop.create_future()
        for name, latency_ms in (("slow", 30.0), ("quick", 5.0)):
            pipe.send(
                latency_ms,
                lambda name=name: arrived.append((name, env.clock.monotonic_ms() - start_ms)),
            )
        pipe.send(40.0, lambda: sent_message_future.set_result(None))
        await sent_message_future

    run_virtual(main, seed=1)
    assert arrived == [("slow", 30), ("quick", 30)]


# One request between brokers: its caller waits for the answer, or does not.


def make() -> PeerCall:
    tasks = LoopTasks(asyncio.get_running_loop())
    pending: dict[int, PeerCall] = {}
    call = pending[7] = PeerCall(
        link=(BrokerId(1), BrokerId(2)), api_key=27, api_version=1, command="x",
        correlation_id=7, asked_ns=0, timeout_ms=5, answer=Pending(tasks), pending=pending,
    )  # fmt: skip
    return call


async def test_the_first_answer_counts() -> None:
    call = make()
    was_awaited = call.is_awaited
    call.succeed("reply")
    call.fail(PeerTimeoutError("late"))
    assert (was_awaited, call.is_awaited) == (True, False)
    assert call.answer.result() == "reply"
    assert str(call) == "request 7 of API 27 v1, broker 1 -> 2"


async def test_who_has_given_up_hears_nothing_more() -> None:
    call = make()
    call.fail(PeerTimeoutError("late"))
    call.succeed("reply")
    with pytest.raises(PeerTimeoutError, match="late"):
        call.answer.result()


async def test_the_end_of_an_unheard_call_is_not_reported() -> None:
    call = make()
    call.send_event = 3
    copied_call = call.copy_without_answer(is_copy=True)
    assert (copied_call.is_copy, copied_call.is_awaited, copied_call.send_event) == (True, False, 3)
    copied_call.succeed("of the copy")
    copied_call.fail(PeerTimeoutError("of the copy"))
    assert call.is_awaited
    assert not call.copy_without_answer().is_copy
    call.succeed("reply")
    assert call.answer.result() == "reply"
