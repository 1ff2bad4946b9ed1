"""Where a request at the control port ends, as RFC 9112 says.

Programs in between (a proxy, a mesh) may read a request's end from something else than the port
does, and then one of them sees a request that the other one takes for a body. So what could be read
in two ways is refused, the connection is closed, and nothing behind it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Final

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.support.clusters import real_cluster
from txnsim.http import server as http_server
from txnsim.http.server import ControlServer

TOPICS_PATH: Final = b"/api/v1/topics"
BODY: Final = b'{"name": "framed"}'
SMUGGLED: Final = (
    b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n"
    b'{"name": "smuggled"}'
)
CHUNKS: Final = b'12\r\n{"name": "framed"}\r\n0\r\n\r\n'
PATIENCE_S: Final = 30.0


def head(*lines: bytes, version: bytes = b"1.1", line_end: bytes = b"\r\n") -> bytes:
    """The head of a POST of a topic."""
    first_line = b"POST " + TOPICS_PATH + b" HTTP/" + version
    return line_end.join((first_line, b"Host: localhost", *lines, b"", b""))


CHUNKED: Final = b"Transfer-Encoding: chunked"
REFUSED: Final = {
    "both lengths, no chunk": head(b"Content-Length: 5", CHUNKED) + b"0\r\n\r\n",
    "both lengths, chunked first": head(CHUNKED, b"Content-Length: 18") + BODY,
    "two lengths": head(b"Content-Length: 0", b"Content-Length: 18") + BODY,
    "two lengths in a line": head(b"Content-Length: 0, 18") + BODY,
    "a length with a sign": head(b"Content-Length: +18") + BODY,
    "a negative length": head(b"Content-Length: -1") + BODY,
    "a hexadecimal length": head(b"Content-Length: 0x12") + BODY,
    "a length with an underscore": head(b"Content-Length: 1_8") + BODY,
    "a length in other digits": head("Content-Length: ¹⁸".encode()) + BODY,
    "a length of 30 digits": head(b"Content-Length: " + b"1" * 30) + BODY,
    "no length after the name": head(b"Content-Length:") + BODY,
    "a space before the colon": head(b"Content-Length : 18") + BODY,
    "a tab before the colon": head(b"Transfer-Encoding\t: chunked") + CHUNKS,
    "a header without a colon": head(b"Content-Length 18") + BODY,
    "a header without a name": head(b": 18") + BODY,
    "two encodings": head(CHUNKED, CHUNKED) + CHUNKS,
    "two encodings in a line": head(b"Transfer-Encoding: chunked, chunked") + CHUNKS,
    "chunked is not the last": head(b"Transfer-Encoding: chunked, identity") + CHUNKS,
    "compressed chunks": head(b"Transfer-Encoding: gzip, chunked") + CHUNKS,
    "identity": head(b"Transfer-Encoding: identity") + BODY,
    "an unknown encoding": head(b"Transfer-Encoding: xchunked") + CHUNKS,
    "chunked with a control character": head(b"Transfer-Encoding: \x0bchunked") + CHUNKS,
    "chunked in HTTP/1.0": head(CHUNKED, version=b"1.0") + CHUNKS,
    "a fold in front": b"POST " + TOPICS_PATH + b" HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a NUL in a value": head(b"X: a\0b", b"Content-Length: 18") + BODY,
    "a bare CR in a value": head(b"X: a\rContent-Length: 0", b"Content-Length: 18") + BODY,
    "a bare CR as an end": head(b"Content-Length: 18", line_end=b"\r") + BODY,
    "no host": b"POST " + TOPICS_PATH + b" HTTP/1.1\r\nContent-Length: 18\r\n\r\n" + BODY,
    "two hosts": head(b"Host: localhost", b"Content-Length: 18") + BODY,
    "an empty chunk size": head(CHUNKED) + b"\r\n" + CHUNKS,
    "a chunk size with a sign": head(CHUNKED) + b"+12\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size with 0x": head(CHUNKED) + b"0x12\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size with an underscore": head(CHUNKED) + b"1_2\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size of 30 digits": head(CHUNKED) + b"1" * 30 + b"\r\n" + BODY,
    "a chunk without its end": head(CHUNKED) + b"12\r\n" + BODY + b"XX0\r\n\r\n",
    "a chunk longer than its size": head(CHUNKED) + b"2\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a version of the future": head(b"Content-Length: 18", version=b"2.0") + BODY,
    "a version of one digit": head(b"Content-Length: 18", version=b"1") + BODY,
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"POST " + TOPICS_PATH + b"\r\n\r\n",
}
"""What is refused, each with another request behind it."""
TAKEN: Final = {
    "a length": head(b"Content-Length: 18") + BODY,
    "a length twice the same": head(b"Content-Length: 18", b"Content-Length: 18") + BODY,
    "chunks": head(CHUNKED) + CHUNKS,
    "chunks in capitals": head(b"TRANSFER-ENCODING: Chunked") + CHUNKS,
    "chunks with extensions": head(CHUNKED) + CHUNKS.replace(b"12\r", b'12;a=b;c="d"\r'),
    "chunks with a trailer": head(CHUNKED) + CHUNKS[:-2] + b"Content-Length: 5\r\n\r\n",
    "40,000 chunks": head(CHUNKED) + b"1\r\n \r\n" * 40_000 + CHUNKS,
    "a long body": head(b"Content-Length: 300018") + b" " * 300_000 + BODY,
    "a folded value": head(b"X: a\r\n b", b"Content-Length: 18") + BODY,
    "bare LFs": head(b"Content-Length: 18", line_end=b"\n") + BODY,
}
"""What has one meaning; a trailer never changes it (RFC 9112, 6.5.1)."""


@pytest.fixture
async def port() -> AsyncIterator[tuple[str, int]]:
    async with (
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0) as server,
    ):
        host, _, port_text = server.url.removeprefix("http://").rpartition(":")
        yield host, int(port_text)


async def answers_to(port: tuple[str, int], request: bytes) -> bytes:
    """All that the port answers until it closes the connection, or resets it as more came."""
    answers = b""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(*port)
        writer.write(request)
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(1 << 16):
                answers += chunk
        writer.close()
    return answers


async def topics(port: tuple[str, int]) -> bytes:
    request = b"GET " + TOPICS_PATH + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    return await answers_to(port, request)


def statuses(answers: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d+) ", answers)


async def test_what_has_two_ends_is_refused_and_nothing_behind_it_is_read(
    port: tuple[str, int],
) -> None:
    complaints = []
    for name, request in REFUSED.items():
        answers = await answers_to(port, request + SMUGGLED)
        listed_topics = await topics(port)
        if len(statuses(answers)) != 1 or not statuses(answers)[0].startswith((b"4", b"5")):
            complaints.append(f"{name}: {answers[:300]!r}")
        if b"smuggled" in listed_topics or b"framed" in listed_topics:
            complaints.append(f"{name}: was carried out")
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("name", TAKEN)
async def test_what_has_one_end_is_taken_with_what_follows(
    port: tuple[str, int], name: str
) -> None:
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answers = await answers_to(port, TAKEN[name] + SMUGGLED + last)
    assert statuses(answers) == [b"201", b"201", b"200"]


async def test_a_chunk_extension_without_an_end_is_refused_in_little_memory(
    port: tuple[str, int],
) -> None:
    answers = await answers_to(port, head(CHUNKED) + b"12;" + b"x" * 1_000_000)
    assert statuses(answers)[0].startswith(b"4")


@pytest.mark.parametrize("line", [b"X: y", b"Connection: close"])
async def test_behind_a_last_request_nothing_is_carried_out(
    port: tuple[str, int], line: bytes
) -> None:
    version = b"1.1" if line.startswith(b"Connection") else b"1.0"
    last = head(b"Content-Length: 18", line, version=version) + BODY
    assert statuses(await answers_to(port, last + SMUGGLED)) == [b"201"]
    assert b"smuggled" not in await topics(port)


async def test_behind_a_request_that_waits_little_is_read(port: tuple[str, int]) -> None:
    """Requests that a client has sent ahead stay in its socket until their turn."""
    rule = b'{"id": "idle", "point": "client.request", "action": {"do": "hold"}}'
    arm = head(b"Content-Length: %d" % len(rule)).replace(TOPICS_PATH, b"/api/v1/faults") + rule
    wait = b"GET /api/v1/faults/idle/wait?timeout_ms=300000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    ahead = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000_000
    reader, writer = await asyncio.open_connection(*port)
    writer.write(arm)
    assert b" 201 " in await reader.readline()
    writer.transport.set_write_buffer_limits(high=0)
    writer.write(wait + ahead)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.drain(), 2.0)
    writer.transport.abort()


async def test_framing_does_not_depend_on_what_else_is_installed(port: tuple[str, int]) -> None:
    """uvicorn would use httptools and websockets if they are installed; these parse differently."""
    assert port
    assert issubclass(http_server.HTTP_PROTOCOL, H11Protocol)
    assert http_server.WEBSOCKET_PROTOCOL == "none"
    upgrade = head(b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 18")
    close = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert statuses(await answers_to(port, upgrade + BODY + close)) == [b"201", b"200"]
