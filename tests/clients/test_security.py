"""Python's clients with every way to log in, against ``serve --security demo``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiokafka
import pytest
from aiokafka.errors import TopicAuthorizationFailedError

from tests.clients.drivers import aiokafka as aio
from tests.clients.drivers import confluent_kafka, kafka_python
from tests.clients.drivers.base import Driver
from tests.clients.drivers.logins import TLS_USER, USERS, Login, by_certificate, by_password
from tests.clients.python.lab import SecuredListeners
from tests.clients.python.secured import SCRAM, refuse_password, transact
from tests.support.slow_machine import SLOW_S
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.clients

LIBRARIES: Final[dict[str, type[Driver]]] = {
    "aiokafka": aio.Driver,
    "confluent-kafka": confluent_kafka.Driver,
    "kafka-python": kafka_python.Driver,
}


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredListeners]:
    """One broker with the topic ``public-news``."""
    topic = ("--topic", "public-news:1")
    with TxnsimServer(brokers=1, arguments=("--security", "demo", *topic)) as server:
        security = server.ready["security"]
        addresses = security["bootstrap"]
        yield SecuredListeners(addresses["SASL_SSL"], addresses["SSL"], Path(security["directory"]))


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> type[Driver]:
    """One client library."""
    return LIBRARIES[request.param]


@pytest.mark.parametrize("way", [*USERS, TLS_USER])
def test_a_client_transacts(secured: SecuredListeners, library: type[Driver], way: str) -> None:
    directory = secured.directory
    login = by_certificate(directory) if way == TLS_USER else by_password(directory, way)
    transact(library, secured, login, library.__module__.rpartition(".")[2])


@pytest.mark.costly
def test_a_client_hears_that_its_password_is_wrong(
    secured: SecuredListeners, library: type[Driver]
) -> None:
    refuse_password(library, secured)


def _aiokafka_settings(secured: SecuredListeners, user_name: str) -> dict[str, Any]:
    login: Login = by_password(secured.directory, SCRAM, user_name)
    return aio.Driver(secured.sasl, login).settings


async def test_aiokafka_reads_what_a_guest_may_and_nothing_else(secured: SecuredListeners) -> None:
    async with (
        asyncio.timeout(SLOW_S),
        aiokafka.AIOKafkaProducer(**_aiokafka_settings(secured, "scram-user")) as producer,
    ):
        await producer.send_and_wait("public-news", b"news")
    guest = _aiokafka_settings(secured, "guest")
    consumer = aiokafka.AIOKafkaConsumer(
        "public-news", group_id="public-readers", auto_offset_reset="earliest", **guest
    )
    async with asyncio.timeout(SLOW_S), consumer:
        assert (await consumer.getone()).value == b"news"
    async with asyncio.timeout(SLOW_S):
        producer = aiokafka.AIOKafkaProducer(**guest)
        await producer.start()
        try:
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait("public-news", b"mine")
        finally:
            await producer.stop()
