"""Brokers that answer anything but what a broker answers, for those who judge a cluster."""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from txnsim.errors import UnsupportedRequestError
from txnsim.wire import codec
from txnsim.wire.apis import APIS
from txnsim.wire.plain_values import message_from

API_VERSIONS: Final = 18
VERSION_MAX: Final = 25
METADATA: Final = 3
DESCRIBE_CLUSTER: Final = 60
Serve = Callable[[socket.socket, int], None]
"""What is done with a connection; the number is the port of the broker."""


def close(_connection: socket.socket, _port: int) -> None:
    """Close each connection at once."""


def be_silent(connection: socket.socket, _port: int) -> None:
    """Read all requests, and answer none of them."""
    while connection.recv(1 << 16):
        pass


def answer_noise(connection: socket.socket, _port: int) -> None:
    """Answer each request with a frame of random bytes."""
    while connection.recv(1 << 16):
        connection.sendall(struct.pack(">i", 200) + bytes(range(200)))


def claim_much(connection: socket.socket, _port: int) -> None:
    """Answer with a frame whose size field says 2 GiB."""
    if connection.recv(1 << 16):
        connection.sendall(struct.pack(">i", 2**31 - 1) + bytes(1 << 16))


def speak_http(connection: socket.socket, _port: int) -> None:
    """Answer as a web server does."""
    if connection.recv(1 << 16):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def alert_tls(connection: socket.socket, _port: int) -> None:
    """Answer as a TLS listener does: with a fatal alert."""
    if connection.recv(1 << 16):
        connection.sendall(b"\x15\x03\x03\x00\x02\x02\x16")


def answer_others(connection: socket.socket, _port: int) -> None:
    """Answer with correlation ids that no request had."""
    for api_key, version, correlation_id in _requests(connection):
        connection.sendall(_answer(api_key, version, correlation_id + 1_000, {}))


def know_nothing(connection: socket.socket, _port: int) -> None:
    """Answer well-formed and empty, so that the broker has no API."""
    for api_key, version, correlation_id in _requests(connection):
        connection.sendall(_answer(api_key, version, correlation_id, {}))


def have_nothing(connection: socket.socket, port: int) -> None:
    """Answer Metadata with this broker and no topic, and all other requests empty."""
    for api_key, version, correlation_id in _requests(connection):
        connection.sendall(_answer(api_key, version, correlation_id, _facts(api_key, port, ())))


def have_broken_topics(connection: socket.socket, port: int) -> None:
    """Answer Metadata with topics in error, without partitions, and with a missing leader."""
    led_nowhere = {
        "error_code": 0,
        "partition_index": 0,
        "leader_id": 99,
        "leader_epoch": 0,
        "replica_nodes": [99],
        "isr_nodes": [99],
        "offline_replicas": [],
    }
    topics = (
        {"error_code": 0, "name": "orders", "is_internal": False, "partitions": [led_nowhere]},
        {"error_code": 0, "name": "empty", "is_internal": False, "partitions": []},
        {"error_code": 29, "name": "hidden", "is_internal": False, "partitions": []},
    )
    for api_key, version, correlation_id in _requests(connection):
        facts = _facts(api_key, port, topics)
        connection.sendall(_answer(api_key, version, correlation_id, facts))


def answering(*answers: bytes) -> Serve:
    """What answers HTTP requests by given bytes, a connection each, in this order; the last answer
    goes on.
    """
    unsent = list(answers)

    def serve(connection: socket.socket, _port: int) -> None:
        request = b""
        while b"\r\n\r\n" not in request and (chunk := connection.recv(1 << 16)):
            request += chunk
        connection.sendall(unsent.pop(0) if len(unsent) > 1 else unsent[0])

    return serve


def resetting_after(*answers: bytes) -> Serve:
    """What answers HTTP requests likewise and then resets the connection, as a program does that
    closes a socket before it has read the whole request.
    """
    serve_answer = answering(*answers)

    def serve(connection: socket.socket, port: int) -> None:
        serve_answer(connection, port)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return serve


HOSTILE_BROKERS: Final[Mapping[str, Serve]] = {
    serve.__name__.replace("_", " "): serve
    for serve in (
        close,
        be_silent,
        answer_noise,
        claim_much,
        speak_http,
        alert_tls,
        answer_others,
        know_nothing,
        have_nothing,
        have_broken_topics,
    )
}


@contextlib.contextmanager
def hostile_broker(serve: Serve) -> Iterator[str]:
    """Start a hostile broker; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        connections: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connections.append(connection)
                    threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with contextlib.suppress(OSError, EOFError), connection:
                serve(connection, port)

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{port}"
        listener.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _requests(connection: socket.socket) -> Iterator[tuple[int, int, int]]:
    """API, version and correlation id of each request."""
    while True:
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        frame = _exactly(connection, size)
        api_key, version, correlation_id = struct.unpack(">hhi", frame[:8])
        yield api_key, version, correlation_id


def _exactly(connection: socket.socket, size: int) -> bytes:
    received_bytes = bytearray()
    while len(received_bytes) < size:
        chunk = connection.recv(size - len(received_bytes))
        if not chunk:
            raise EOFError
        received_bytes += chunk
    return bytes(received_bytes)


def _facts(api_key: int, port: int, topics: tuple[Mapping[str, Any], ...]) -> Mapping[str, Any]:
    itself = {"host": "127.0.0.1", "port": port}
    if api_key == API_VERSIONS:
        return {"api_keys": [_version_range(key) for key in APIS]}
    if api_key == METADATA:
        return {"brokers": [{"node_id": 1, **itself}], "controller_id": 1, "topics": topics}
    if api_key == DESCRIBE_CLUSTER:
        return {"brokers": [{"broker_id": 1, **itself}], "controller_id": 1}
    return {}


@functools.cache
def _version_range(api_key: int) -> Mapping[str, int]:
    """The row of ApiVersions for an API: the lowest and highest version that we can write."""
    versions = []
    for version in range(VERSION_MAX):
        with contextlib.suppress(UnsupportedRequestError):
            codec.response_class(api_key, version)
            versions.append(version)
    return {"api_key": api_key, "min_version": versions[0], "max_version": versions[-1]}


def _answer(api_key: int, version: int, correlation_id: int, values: Mapping[str, Any]) -> bytes:
    message = message_from(codec.response_class(api_key, version), values)
    return codec.frame_response(api_key, version, correlation_id, codec.encode_body(message))
