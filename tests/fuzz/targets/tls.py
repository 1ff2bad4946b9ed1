"""TLS handshakes: a real client's bytes with some of them changed, cut off anywhere, or anything
else where a handshake should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.fuzz.target import Target, Violation
from txnsim.runtime.network import TlsGates
from txnsim.runtime.tls import server_context
from txnsim.security.options import ClientAuth, TlsFiles
from txnsim.server.security_demo import Authority

_FLIGHTS_MAX: Final = 6
_TURNS: Final = 12
_CHANGE: Final = 3
"""Bytes of a change: where, and by which bits."""
_HELLO: Final = b"in clear"


class _Transport(asyncio.Transport):
    """Keeps what the server writes."""

    _start_tls_compatible = True

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False
        self._protocol: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def _force_close(self, _error: BaseException | None) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def feed(self, fuzz_bytes: bytes) -> None:
        """Give bytes of the client to the present protocol."""
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(fuzz_bytes)
            return
        while fuzz_bytes:
            buffer = memoryview(protocol.get_buffer(len(fuzz_bytes)))
            nbytes = min(len(buffer), len(fuzz_bytes))
            buffer[:nbytes] = fuzz_bytes[:nbytes]
            protocol.buffer_updated(nbytes)
            fuzz_bytes = fuzz_bytes[nbytes:]


class _Application(asyncio.Protocol):
    """The protocol that takes over after the handshake."""

    def __init__(self) -> None:
        self.received = bytearray()

    def data_received(self, fuzz_bytes: bytes) -> None:
        self.received += fuzz_bytes


class _TlsListener:
    """A listener's TLS over transports in memory."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="txnsim-fuzz-"))
        pair = Authority(folder, now_ms=1_700_000_000_000).issue("b", hosts=("localhost",))
        files = TlsFiles(certificate=str(pair.certificate), key=str(pair.key))
        self.context = server_context(files, ClientAuth.NONE)
        self.loop = asyncio.new_event_loop()
        self.failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self.applications: list[_Application] = []
        self.gates = TlsGates(self.loop, self.context, self._protocol)

    def _protocol(self) -> asyncio.Protocol:
        self.applications.append(_Application())
        return self.applications[-1]


@cache
def _door() -> _TlsListener:
    return _TlsListener()


def _seeds() -> Iterator[bytes]:
    yield b"\0"
    for stop in (10, 100, 250, 300, 400):
        yield b"\1" + stop.to_bytes(2, "big")
    yield b"\2" + (5).to_bytes(2, "big") + b"\x01"
    yield b"\3" + bytes.fromhex("16030100050100000100")
    yield b"\3\0\0\0\x0c\0\x12\0\0\0\0\0\1\xff\xff\0\0"


def _play(fuzz_bytes: bytes) -> None:
    door = _door()
    door.applications.clear()
    kind, payload = (fuzz_bytes[0] % 4 if fuzz_bytes else 0), fuzz_bytes[1:]
    transport = _Transport()
    gate = door.gates()
    transport.set_protocol(gate)
    gate.connection_made(transport)
    if kind == 3:
        _feed(door, transport, payload)
        is_whole = False
    else:
        is_whole = _shake(door, transport, kind, payload)
    protocol: Any = transport.get_protocol()
    protocol.connection_lost(None)
    _turn(door)
    if door.failures:
        context, error = door.failures[0], door.failures[0].get("exception")
        door.failures.clear()
        raise error if isinstance(error, Exception) else Violation(repr(context))
    if is_whole and not (door.applications and door.applications[0].received == _HELLO):
        raise Violation("a sound handshake leads nowhere")


def _shake(door: _TlsListener, transport: _Transport, kind: int, payload: bytes) -> bool:
    """Play a client's side of a damaged handshake; return whether the damage left it valid."""
    stop = int.from_bytes(payload[:2], "big") if kind == 1 else None
    changes = payload[2 * (kind == 1) :] if kind else b""
    incoming_buffer, outgoing_buffer = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    client = context.wrap_bio(incoming_buffer, outgoing_buffer, server_hostname="localhost")
    sent_bytes = 0
    for _ in range(_FLIGHTS_MAX):
        is_done = False
        with contextlib.suppress(ssl.SSLWantReadError):
            try:
                client.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                raise
            except ssl.SSLError:
                return False
        if is_done:
            client.write(_HELLO)
        flight = _change_flight(outgoing_buffer.read(), sent_bytes, changes)
        if stop is not None:
            flight = flight[: max(0, stop - sent_bytes)]
        sent_bytes += len(flight)
        _feed(door, transport, flight)
        if is_done:
            return stop is None and not changes
        incoming_buffer.write(bytes(transport.written))
        transport.written.clear()
    return False


def _change_flight(flight: bytes, sent_before: int, changes: bytes) -> bytes:
    changed_flight = bytearray(flight)
    for index in range(0, len(changes) - _CHANGE + 1, _CHANGE):
        position = int.from_bytes(changes[index : index + 2], "big") - sent_before
        if 0 <= position < len(changed_flight):
            changed_flight[position] ^= changes[index + 2]
    return bytes(changed_flight)


def _feed(door: _TlsListener, transport: _Transport, fuzz_bytes: bytes) -> None:
    _turn(door)
    if fuzz_bytes and not transport.is_closed:
        transport.feed(fuzz_bytes)
    _turn(door)


def _turn(door: _TlsListener) -> None:
    async def turns() -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    door.loop.run_until_complete(turns())


TARGETS: Final = {"tls": Target(play=_play, seeds=_seeds, length_max=512)}
