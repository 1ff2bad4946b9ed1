"""SIGTERM ends a server within five seconds of a processor, also after absurd requests."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.attacks.groups import join, subscription
from tests.attacks.sending import send_quietly
from tests.support.txnsim_server import TxnsimServer
from txnsim.http._events import LISTENERS_MAX

END_S_MAX: Final = 5.0
ABSURD: Final[Mapping[str, tuple[tuple[str, bytes], ...]]] = {
    "a subscription to 40,000,000 names": (("range", subscription(40_000_000)),),
    "19,000 protocols, a hundred times": tuple((f"{number}", b"") for number in range(19_000)),
}
"""Protocols of a JoinGroup."""


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("absurdity", ABSURD)
def test_a_server_ends_at_once_though_absurd_joins_are_under_way(absurdity: str) -> None:
    frame = join("c", ABSURD[absurdity])
    frame_bytes = frame if len(frame) > 1 << 20 else frame * 100
    before_s = _ended_children_s()
    server = TxnsimServer(brokers=1, arguments=("--ready-coordinators",))
    server.start()
    host, port = server.bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10.0) as connection:
        sent_bytes = send_quietly(connection, frame_bytes)
        time.sleep(0.2)
        until_s = _running_s(server.pid)
        server.stop()
    assert sent_bytes > 1 << 20, "it was under way"
    assert _ended_children_s() - before_s - until_s <= END_S_MAX


@pytest.mark.slow
@pytest.mark.costly
def test_a_server_ends_at_once_though_64_listeners_read_nothing() -> None:
    before_s = _ended_children_s()
    server = TxnsimServer(brokers=1, arguments=("--http", "0", "--trace", "full"))
    server.start()
    assert server.http is not None
    host, port = server.http.removeprefix("http://").rsplit(":", 1)
    request = b"GET /api/v1/events?from=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        listeners = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=60.0))
            for _ in range(64)
        ]
        for listener in listeners:
            listener.sendall(request)
        statuses = Counter(listener.recv(len(b"HTTP/1.1 200"))[-3:] for listener in listeners)
        until_s = _running_s(server.pid)
        server.stop()
    assert statuses == {b"200": LISTENERS_MAX, b"503": 64 - LISTENERS_MAX}
    assert _ended_children_s() - before_s - until_s <= END_S_MAX


def _running_s(process_id: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ended_children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
