"""Connections that begin a login or a request and never end it, and logins over and over."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.attacks.sending import read_answers, request, send_quietly
from tests.attacks.target import Attack, AttackTarget
from tests.attacks.unknown_clients import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.attacks.unknown_clients import SERVE as WITH_SASL
from txnsim.server.security_demo import Authority

HALF_OPEN: Final = 300
HERD: Final = 1_500
NO_RECORD: Final = b"\xff" * 5
LOGINS: Final = 1_000
TLS_LOGINS: Final = 60
HELD_S: Final = 3.0
ONE_BROKER: Final = ("--brokers", "1")
TLS_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)
"""The beginning of a ClientHello of 512 bytes."""


def tls_listener(folder: Path) -> tuple[str, ...]:
    """A listener with TLS beside the plain one, whose certificate is made for it."""
    pair = Authority(folder, now_ms=int(time.time() * 1000)).issue("broker", hosts=("127.0.0.1",))
    store_folder = folder / "store.pem"
    store_folder.write_bytes(Path(pair.key).read_bytes() + Path(pair.certificate).read_bytes())
    properties_file = folder / "tls.properties"
    properties_file.write_text(
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={store_folder}\n"
    )
    return "--config", str(properties_file)


def half_open_tls(target: AttackTarget) -> int:
    """300 connections that send the beginning of a ClientHello and wait; 300 that send noise."""
    return _hold(target, "SSL", TLS_HELLO) + _hold(target, "SSL", bytes(range(256)) * 200)


def half_open_handshakes(target: AttackTarget) -> int:
    """300 connections with a whole ClientHello, that read nothing."""
    return _hold(target, "SSL", _client_hello())


def tls_herd(target: AttackTarget) -> int:
    """1,500 connections whose ClientHello lacks its last byte; then the last bytes come at once."""
    hello, address = _client_hello(), _address(target, "SSL")
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(HERD):
            connection = stack.enter_context(socket.create_connection(address, timeout=30.0))
            connection.sendall(hello[:-1])
            connections.append(connection)
        time.sleep(HELD_S)
        for connection in connections:
            connection.sendall(hello[-1:])
            # The handshake is refused at once, so that what is kept is what waiting ones kept.
            connection.sendall(NO_RECORD)
        time.sleep(HELD_S)
    return HERD * len(hello)


def _client_hello() -> bytes:
    incoming_buffer, outgoing_buffer = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = context.wrap_bio(incoming_buffer, outgoing_buffer, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing_buffer.read()


def tls_logins(target: AttackTarget) -> int:
    """60 whole TLS handshakes, ten at a time, each hung up at once."""
    host, port = _address(target, "SSL")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def log_in(_number: int) -> str | None:
        with (
            socket.create_connection((host, port), timeout=30.0) as plain_socket,
            context.wrap_socket(plain_socket) as encrypted_socket,
        ):
            return encrypted_socket.version()

    with ThreadPoolExecutor(10) as client_pool:
        versions = set(client_pool.map(log_in, range(TLS_LOGINS)))
    assert versions == {"TLSv1.3"}, versions
    return TLS_LOGINS * 1_000


def half_open_sasl(target: AttackTarget) -> int:
    """300 connections that choose a mechanism, begin a token of 500 kB, and wait."""
    handshake = request(SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
    token = request(SASL_AUTHENTICATE, 2, auth_bytes=b"n,,n=x,r=" + b"y" * 500_000)
    return _hold(target, "SASL", handshake + token[:100_000])


def wrong_logins(target: AttackTarget) -> int:
    """1,000 logins of users that are not there, each over a connection of its own."""
    handshake = request(SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
    sent_bytes = 0
    for login_number in range(LOGINS):
        first_message = f"n,,n=user{login_number},r=nonce".encode()
        frame_bytes = handshake + request(SASL_AUTHENTICATE, 2, auth_bytes=first_message)
        with (
            contextlib.suppress(OSError),
            socket.create_connection(_address(target, "SASL"), timeout=60.0) as connection,
        ):
            sent_bytes += send_quietly(connection, frame_bytes)
            read_answers(connection, 2)
    return sent_bytes


def half_open_requests(target: AttackTarget) -> int:
    """300 requests at the control port of which a header comes every second, three times."""
    host, port = target.http.removeprefix("http://").rsplit(":", 1)
    head = b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\n"
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=30.0))
            for _ in range(HALF_OPEN)
        ]
        sent_bytes = sum(send_quietly(connection, head) for connection in connections)
        for round_number in range(3):
            time.sleep(1.0)
            line = b"X-%d: %s\r\n" % (round_number, b"x" * 10_000)
            sent_bytes += sum(send_quietly(connection, line) for connection in connections)
    return sent_bytes


def _address(target: AttackTarget, listener: str) -> tuple[str, int]:
    host, port = target.ready["security"]["bootstrap"][listener].split(",")[0].rsplit(":", 1)
    return host, int(port)


def _hold(target: AttackTarget, listener: str, beginning: bytes) -> int:
    """Open connections, send the beginning of something on each, and wait a while."""
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(_address(target, listener), timeout=30.0))
            for _ in range(HALF_OPEN)
        ]
        sent_bytes = sum(send_quietly(connection, beginning) for connection in connections)
        time.sleep(HELD_S)
    return sent_bytes


ATTACKS: Final = (
    Attack("half-open-tls", half_open_tls, serve=ONE_BROKER, prepare=tls_listener),
    Attack("half-open-handshakes", half_open_handshakes, serve=ONE_BROKER, prepare=tls_listener),
    Attack("tls-herd", tls_herd, serve=ONE_BROKER, prepare=tls_listener),
    Attack("tls-logins", tls_logins, serve=ONE_BROKER, prepare=tls_listener),
    Attack("half-open-sasl", half_open_sasl, serve=WITH_SASL),
    Attack("wrong-logins", wrong_logins, serve=WITH_SASL),
    Attack("half-open-requests", half_open_requests),
)
