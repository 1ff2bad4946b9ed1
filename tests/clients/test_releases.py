"""The transactional checks of every client against other releases (``serve --as-version``).

A client takes the versions that a broker advertises, so each of these runs is another protocol: up
to 3.9 without transactions v2, in 2.8 without verification and without the administration of
transactions, in 4.5 beside request headers that no released client knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.clients.checklist import TransactionChecks
from tests.clients.conftest import Server
from tests.clients.drivers.aiokafka import Driver as Aiokafka
from tests.clients.drivers.confluent_kafka import Driver as ConfluentKafka
from tests.clients.drivers.kafka_python import Driver as KafkaPython
from tests.support.txnsim_server import TxnsimServer

pytestmark = [pytest.mark.clients, pytest.mark.costly]

LEVELS: Final = {"2.8": 0, "3.6": 0, "3.7": 0, "3.8": 0, "3.9": 0, "4.0": 2, "4.5": 2}
"""Release -> level of ``transaction.version`` of a new cluster."""


@pytest.fixture(scope="module")
def server_of_release() -> Iterator[Callable[[str], Server]]:
    """Starts the server that emulates a release, once for each release."""
    running_servers: dict[str, tuple[TxnsimServer, Server]] = {}

    def server_at(release: str) -> Server:
        if release not in running_servers:
            process = TxnsimServer(
                transaction_version=LEVELS[release],
                arguments=("--http", "0", "--as-version", release),
            )
            process.start()
            running_servers[release] = (process, Server(process))
        return running_servers[release][1]

    yield server_at
    for process, _server in running_servers.values():
        process.stop()


@pytest.fixture(params=list(LEVELS))
def server(
    request: pytest.FixtureRequest, server_of_release: Callable[[str], Server]
) -> Iterator[Server]:
    """The server of the test's release; it has met no bug of its own when the test is over."""
    running_server = server_of_release(request.param)
    yield running_server
    assert not running_server.complaints()


class TestAiokafka(TransactionChecks):
    driver = Aiokafka


class TestConfluentKafka(TransactionChecks):
    driver = ConfluentKafka


class TestKafkaPython(TransactionChecks):
    driver = KafkaPython
