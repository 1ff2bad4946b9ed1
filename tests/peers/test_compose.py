"""The command in the place of ``docker``: its output, its actions, its refusals."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.peers.compose import main

STARTED = "2026-01-01T00:00:00+00:00"
_NODES = ["broker/1/log/t-0", "broker/2/log/t-1"]


def _trace_line(kind: str, time_us: int, node_id: int, error: str) -> dict[str, Any]:
    return {"k": kind, "t": time_us, "n": node_id, "d": {"error": error}}


_TRACE = (
    {"k": "run", "nodes": _NODES},
    _trace_line("log.reject", 1_000_000, 0, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    _trace_line("log.reject", 3_000_000, 0, "INVALID_PRODUCER_EPOCH"),
    _trace_line("log.append", 3_000_000, 0, "NONE"),
    _trace_line("log.reject", 3_000_000, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    {"k": "end", "events": 4},
)


class _Trace(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write("".join(f"{json.dumps(line)}\n" for line in _TRACE).encode())

    def log_message(self, *_words: object) -> None:
        """Says nothing."""


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with HTTPServer(("127.0.0.1", 0), _Trace) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("TXNSIM_PEER_HTTP", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("TXNSIM_PEER_STARTED", STARTED)
        yield
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("broker", "since", "expected"),
    [
        ("kafka-1", "2026-01-01T00:00:02Z", ["INVALID_PRODUCER_EPOCH"]),
        ("kafka-1", STARTED, ["OutOfOrderSequenceException", "INVALID_PRODUCER_EPOCH"]),
        ("kafka-2", "2026-01-01T00:00:02Z", ["OutOfOrderSequenceException"]),
        ("kafka-2", "2026-01-01T00:00:04Z", []),
    ],
)
@pytest.mark.usefixtures("control")
def test_a_broker_s_log_tells_what_it_has_refused_since(
    capsys: pytest.CaptureFixture[str], broker: str, since: str, expected: list[str]
) -> None:
    assert main(["compose", "logs", "--since", since, broker]) == 0
    assert [
        printed_line.partition(":")[0] for printed_line in capsys.readouterr().out.splitlines()
    ] == expected


def test_containers_are_up_already_and_stay_until_their_caller_ends_them() -> None:
    assert main(["compose", "--profile", "zookeeper", "down", "--volumes"]) == 0
    assert main(["compose", "up", "-d", "--wait"]) == 0


def test_what_is_not_offered_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TXNSIM_PEER_HTTP", raising=False)
    assert main(["run", "kafka"]) == 1
    assert main(["compose", "stop", "kafka-1"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "not offered here: docker run kafka",
        "these brokers can't be stopped and started",
    ]
