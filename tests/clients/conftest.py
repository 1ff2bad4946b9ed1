"""One server per level of ``transaction.version`` for all clients, started when first asked for."""

from __future__ import annotations

import itertools
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

from tests.clients.python.lab import Lab
from tests.support.txnsim_server import TxnsimServer

pytest.register_assert_rewrite("tests.clients.checklist", "tests.clients.neighbours")

TIMEOUT_MS: Final = 30_000
PAST_TIMEOUT_MS: Final = TIMEOUT_MS + 10_001
"""Timed-out transactions are looked for every ten seconds."""

NEWEST: Final = 2

QUICK_GROUPS: Final = """\
settings:
  group_initial_rebalance_delay_ms: 0
  group_consumer_heartbeat_interval_ms: 200
  group_consumer_min_heartbeat_interval_ms: 200
"""
"""A new classic group waits for nobody, and members of the consumer protocol ask often: a rebalance
takes as many heartbeats as ever, each of them sooner.
"""

_numbers = itertools.count(1)


class Server:
    """A running ``txnsim serve``, with the two things that checks ask of it beside its brokers."""

    def __init__(self, process: TxnsimServer) -> None:
        self._process = process
        self.bootstrap = process.bootstrap

    def advance(self, ms: int) -> None:
        """Move the cluster clock."""
        request = urllib.request.Request(
            f"{self._process.http}/api/v1/clock",
            data=json.dumps({"advance_ms": ms}).encode(),
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 200

    def complaints(self) -> str:
        """What the server printed lately, if a traceback is in it."""
        log_text = self._process.log_tail()
        return log_text if "Traceback" in log_text or "failed by a bug" in log_text else ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Levels and codecs come from the class of the checks."""
    cls: Any = metafunc.cls
    if "level" in metafunc.fixturenames:
        transaction_versions = getattr(cls, "levels", (NEWEST,))
        metafunc.parametrize(
            "level",
            [_level_param(transaction_version) for transaction_version in transaction_versions],
        )
    if "codec" in metafunc.fixturenames:
        metafunc.parametrize("codec", cls.driver.codecs)


def _level_param(transaction_version: int) -> ParameterSet:
    # A client says at level 1 what it says at 0.
    marks = (pytest.mark.costly,) if transaction_version == 1 else ()
    return pytest.param(transaction_version, id=f"tv{transaction_version}", marks=marks)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Server]]:
    """Starts the server of a level of ``transaction.version``, once for each level."""
    config = tmp_path_factory.mktemp("clients") / "cluster.yaml"
    config.write_text(QUICK_GROUPS)
    arguments = ("--http", "0", "--config", str(config))
    running_servers: dict[int, tuple[TxnsimServer, Server]] = {}

    def server_at(transaction_version: int) -> Server:
        if transaction_version not in running_servers:
            process = TxnsimServer(transaction_version=transaction_version, arguments=arguments)
            process.start()
            running_servers[transaction_version] = (process, Server(process))
        return running_servers[transaction_version][1]

    yield server_at
    for process, _server in running_servers.values():
        process.stop()


@pytest.fixture
def server(servers: Callable[[int], Server], level: int) -> Iterator[Server]:
    """The server of the test's level; it has met no bug of its own when the test is over."""
    running_server = servers(level)
    yield running_server
    assert not running_server.complaints()


@pytest.fixture
def client(request: pytest.FixtureRequest, server: Server) -> Any:
    """The driver of the test's class, pointed at the server."""
    return request.cls.driver(server.bootstrap)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topics and transactional ids that no other test uses."""
    return f"{request.cls.driver.__module__.rpartition('.')[2]}-{next(_numbers)}"


@pytest.fixture
def lab(client: Any, server: Server, name: str) -> Lab:
    """The bench of the client matrix; time is advanced instead of waited for."""
    return Lab(
        client,
        bootstrap=server.bootstrap,
        name=name,
        timeout_ms=TIMEOUT_MS,
        pass_time=lambda: server.advance(PAST_TIMEOUT_MS),
    )
