"""How the control port ends though listeners read nothing, and where it tells its trouble."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Final

import pytest
import structlog

from tests.support.clusters import real_cluster
from tests.support.slow_machine import SLOW_S
from txnsim.cli import event_log
from txnsim.cli.event_log import LogFormat, set_up_logs, tell_left_out
from txnsim.http import _port_log
from txnsim.http._port_log import ControlConnection
from txnsim.http.server import ControlServer
from txnsim.runtime.trace import TraceLevel

LISTENERS: Final = 5
SILENT_READER_BYTES: Final = 1 << 10
"""What a reader takes before it reads no more; the sockets' buffers come on top."""


@pytest.fixture(autouse=True)
def json_log() -> Iterator[None]:
    """The log as ``txnsim serve --log-format json`` writes it."""
    config_before = structlog.get_config()
    set_up_logs(log_format=LogFormat.JSON)
    yield
    logging.getLogger("asyncio").removeFilter(event_log._flood_filter)
    structlog.configure(**config_before)


def log_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Lines of the control port; each line of standard error is one of our log."""
    tell_left_out(tells_at_once=True)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [line for line in lines if line["logger"] == "txnsim.http"]


async def test_bad_requests_are_told_in_our_log_and_a_flood_is_some_lines_and_a_count(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    request_count = 50
    async with (
        asyncio.timeout(SLOW_S),
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0) as server,
    ):
        for _ in range(request_count):
            assert b" 400 " in await answer_to(server, b"no request\r\n\r\n")
    lines = log_lines(capsys)
    told_lines = [line for line in lines if "reason" in line]
    left_out = [line.get("left_out", 0) for line in lines]
    assert {(line["event"], line["level"]) for line in told_lines} == {
        ("connection closed: bad request", "warning")
    }
    assert len(told_lines) + sum(map(int, map(str, left_out))) == request_count
    assert len(told_lines) < request_count
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


async def test_a_request_to_upgrade_is_carried_out_and_no_trouble(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        asyncio.timeout(SLOW_S),
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0) as server,
    ):
        for protocol in (b"websocket", b"h2c"):
            request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nUpgrade: %b\r\n" % protocol
            assert b" 200 " in await answer_to(
                server, request + b"Connection: Upgrade, close\r\n\r\n"
            )
    assert log_lines(capsys) == []
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


def test_a_bug_is_told_with_its_place_and_a_request_cut_off_is_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for error in (ValueError("broken"), asyncio.CancelledError()):
        _port_log.PORT_LOGGER.error("Exception in ASGI application\n", exc_info=error)
    (line,) = log_lines(capsys)
    assert line["event"] == "request failed by a bug"
    assert "ValueError: broken" in str(line["exception"])


async def test_the_port_closes_though_its_listeners_read_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with asyncio.timeout(SLOW_S), real_cluster(brokers=1) as sim:
        tracer = sim.environment.tracer
        tracer.level = TraceLevel.BRIEF
        async with ControlServer.of_simulated(sim, port=0) as server:
            host, port = address_of(server)
            connections = [
                await asyncio.open_connection(host, port, limit=SILENT_READER_BYTES)
                for _ in range(LISTENERS)
            ]
            for _, writer in connections:
                writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            state = server._server.server_state
            while sum(is_blocked(connection) for connection in state.connections) < LISTENERS:
                for _ in range(100):
                    tracer.emit("note", "test", data={"text": 1_000 * "x"})
                await asyncio.sleep(0)
        assert not state.connections
        for _, writer in connections:
            writer.close()
    assert log_lines(capsys) == []


def is_blocked(connection: object) -> bool:
    """Whether a connection waits for its reader."""
    assert isinstance(connection, ControlConnection)
    return connection.flow.write_paused


def address_of(server: ControlServer) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return host, int(port)


async def answer_to(server: ControlServer, request: bytes) -> bytes:
    """All that the port answers until it closes the connection."""
    reader, writer = await asyncio.open_connection(*address_of(server))
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer
