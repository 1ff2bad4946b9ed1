"""TLS contexts from files and from text: two memory buffers shake hands, or don't."""

from __future__ import annotations

import asyncio
import builtins
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.slow_machine import SLOW_S
from txnsim.errors import ConfigError
from txnsim.runtime import real_world
from txnsim.runtime.real_world import (
    RealClock,
    free_ports,
    new_event_loop,
    real_environment,
    run,
    tcp_socket,
)
from txnsim.runtime.tls import client_context, server_context
from txnsim.runtime.trace import TraceLevel
from txnsim.security.options import ClientAuth, ClientTls, TlsFiles, TlsPem
from txnsim.server.security_demo import Authority, KeyPair
from txnsim.types import BrokerId

HOST = "127.0.0.1"


class Pki:
    """A certificate authority, and certificates of a broker and a client."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory, now_ms=round(time.time() * 1_000))
        self.authority = authority.certificate
        self.broker = authority.issue("broker", hosts=(HOST,))
        self.client = authority.issue("client")

    def files(self) -> TlsFiles:
        return TlsFiles(
            certificate=str(self.broker.certificate),
            key=str(self.broker.key),
            authority=str(self.authority),
        )

    def pem(self) -> TlsPem:
        return TlsPem(authority=self.authority.read_text(), **pem_texts(self.broker))

    def trust(self, **broker_fields: object) -> ClientTls:
        return msgspec.structs.replace(
            ClientTls(authority=self.authority.read_text()), **broker_fields
        )


def pem_texts(pair: KeyPair) -> dict[str, Any]:
    return {"certificate": pair.certificate.read_text(), "key": pair.key.read_text()}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def handshake(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = HOST
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both TLS ends after a handshake in memory."""
    server_buffer, client_buffer = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(server_buffer, client_buffer, server_side=True),
        client.wrap_bio(client_buffer, server_buffer, server_hostname=host),
    )
    for _ in range(4):
        for tls_end in ends:
            try:
                tls_end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


@pytest.mark.parametrize("kind", ["files", "pem"])
def test_a_certificate_of_the_client_is_asked_for_and_handed_on(pki: Pki, kind: str) -> None:
    context = server_context(getattr(pki, kind)(), ClientAuth.REQUIRED)
    server, _ = handshake(context, client_context(pki.trust(**pem_texts(pki.client))))
    certificate = server.getpeercert()
    assert certificate is not None
    assert certificate["subject"] == (
        (("organizationName", "txnsim"),),
        (("commonName", "client"),),
    )


def test_without_one_there_is_no_entry(pki: Pki) -> None:
    context = server_context(pki.pem(), ClientAuth.REQUIRED)
    with pytest.raises(ssl.SSLError):
        handshake(context, client_context(pki.trust()))
    server, _ = handshake(server_context(pki.pem(), ClientAuth.NONE), client_context(pki.trust()))
    assert server.getpeercert() is None


def test_the_name_in_the_certificate_counts_only_where_it_is_asked_for(pki: Pki) -> None:
    context = server_context(pki.pem(), ClientAuth.NONE)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, client_context(pki.trust()), "elsewhere")
    handshake(context, client_context(pki.trust(checks_host=False)), "elsewhere")


def test_an_authority_that_is_not_trusted_is_refused(pki: Pki) -> None:
    context = server_context(pki.pem(), ClientAuth.NONE)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, client_context(ClientTls()))


def test_versions_can_be_chosen(pki: Pki) -> None:
    tls_1_2 = ("TLSv1.2",)
    old_context = server_context(
        msgspec.structs.replace(pki.pem(), versions=tls_1_2), ClientAuth.NONE
    )
    server, _ = handshake(old_context, client_context(pki.trust()))
    assert server.version() == "TLSv1.2"
    both_versions = ("TLSv1.3", "TLSv1.2")
    server, _ = handshake(
        server_context(pki.pem(), ClientAuth.NONE),
        client_context(pki.trust(versions=both_versions)),
    )
    assert server.version() == "TLSv1.3"


def test_a_key_may_be_locked(pki: Pki) -> None:
    from cryptography.hazmat.primitives import serialization as pem

    key = pem.load_pem_private_key(pki.broker.key.read_bytes(), None)
    locked = key.private_bytes(
        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"secret")
    ).decode()
    tls = msgspec.structs.replace(pki.pem(), key=locked, key_password="secret")
    handshake(server_context(tls, ClientAuth.NONE), client_context(pki.trust()))
    with pytest.raises(ConfigError, match="of the keystore"):
        server_context(msgspec.structs.replace(tls, key_password=None), ClientAuth.NONE)


def test_what_is_no_certificate_is_refused(pki: Pki) -> None:
    with pytest.raises(ConfigError, match="TLS files nowhere, nothing"):
        server_context(TlsFiles(certificate="nowhere", key="nothing"), ClientAuth.NONE)
    with pytest.raises(ConfigError, match="of the keystore"):
        server_context(TlsPem(certificate="a", key="b"), ClientAuth.NONE)
    with pytest.raises(ConfigError, match="of the client"):
        client_context(ClientTls(authority="a"))
    own_files = TlsFiles(certificate=str(pki.broker.certificate), key=str(pki.broker.key))
    handshake(server_context(own_files, ClientAuth.NONE), client_context(pki.trust()))
    bare_files = TlsPem(**pem_texts(pki.broker))
    handshake(server_context(bare_files, ClientAuth.NONE), client_context(pki.trust()))


# The real world: system clocks and event loops.


async def test_cluster_time_is_wall_time() -> None:
    wall_before_ms = time.time_ns() // 1_000_000
    cluster_now_ms = RealClock(asyncio.get_running_loop()).now_ms()
    assert wall_before_ms <= cluster_now_ms <= time.time_ns() // 1_000_000


async def test_the_monotonic_clock_starts_anywhere_so_that_clocks_can_not_be_mixed() -> None:
    loop = asyncio.get_running_loop()
    starts = {RealClock(loop).monotonic_ms() for _ in range(8)}
    assert len(starts) == 8


async def test_timers_fire_on_a_real_loop() -> None:
    clock = RealClock(asyncio.get_running_loop())
    fired_future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    deadline_ms = clock.now_ms() + 20
    clock.call_at(deadline_ms, lambda: fired_future.set_result(clock.now_ms()))
    assert await asyncio.wait_for(fired_future, SLOW_S) >= deadline_ms


async def test_the_environment_is_whole() -> None:
    env = real_environment(seed=7, trace_level=TraceLevel.FULL)

    async def echo(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        return command

    env.network.register(BrokerId(1), echo)
    reply_future = env.network.ask(BrokerId(1), BrokerId(1), 27, 1, "x", timeout_ms=10_000)
    assert await reply_future == "x"
    assert env.rng.stream("a").random() == real_environment(seed=7).rng.stream("a").random()
    assert [event.k for event in env.tracer.events()] == ["msg.send", "msg.recv"] * 2
    await env.tasks.close()


def test_run_answers_and_raises_what_main_does() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    async def fail() -> None:
        raise ValueError("broken")

    assert run(answer()) == 7
    with pytest.raises(ValueError, match="broken"):
        run(fail())


def test_uvloop_is_taken_where_it_is_and_asyncio_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uvloop = pytest.importorskip("uvloop", reason="no uvloop on this platform")
    loop = new_event_loop()
    assert isinstance(loop, uvloop.Loop)
    loop.close()

    original_function: Callable[..., object] = builtins.__import__

    def without_uvloop(name: str, *args: object, **options: object) -> object:
        if name == "uvloop":
            raise ImportError(name)
        return original_function(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_uvloop)
    loop = real_world.new_event_loop()
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()


def test_peers_timers_and_sockets_work_on_uvloop_too() -> None:
    async def main() -> list[object]:
        env = real_environment(latency_ms_of=lambda _source, _target: 1.0)
        gate_future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def handler(
            _key: int, _version: int, _command: object, _source_broker_id: BrokerId
        ) -> object:
            return await gate_future

        env.network.register(BrokerId(1), handler)
        reply_future = env.network.ask(BrokerId(2), BrokerId(1), 27, 1, "x", timeout_ms=10_000)
        env.clock.call_at(
            env.clock.now_ms() + 3_600_000, lambda: gate_future.set_result("advanced")
        )
        env.clock.advance(3_600_000)
        listener = await env.network.listen("127.0.0.1", 0, asyncio.Protocol)
        transport = await env.network.connect(*listener.address, asyncio.Protocol)
        transport.close()
        await listener.close()
        answer = await reply_future
        await env.tasks.close()
        return [answer]

    assert run(main()) == ["advanced"]


def test_free_ports_are_those_that_no_system_gives_away(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(10_000 <= port < 32_768 for port in ports)
    (taken_port,) = free_ports(1)
    with tcp_socket("127.0.0.1", taken_port) as busy_socket:
        busy_socket.listen()
        monkeypatch.setattr(real_world, "_PORT_RANGE", range(taken_port, taken_port + 1))
        with pytest.raises(OSError, match="1 free ports are wanted"):
            free_ports(1)
