"""``txnsim proxy`` over TCP: TLS ends there, SASL passes it, slow readers cost bounded memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException

from benchmarks.proxy import (
    BATCH_BYTES,
    BlockingConnection,
    create_topic,
    encode_fetch_frame,
    encode_produce_frame,
)
from tests.clients.drivers import aiokafka as aio
from tests.clients.drivers import confluent_kafka, kafka_python
from tests.clients.drivers.base import Driver
from tests.clients.drivers.logins import by_certificate, by_password
from tests.clients.python.lab import SecuredListeners
from tests.clients.python.secured import SCRAM, refuse_password, transact
from tests.support.txnsim_proxy import TxnsimProxy
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.clients

LIBRARIES: Final[dict[str, type[Driver]]] = {
    "aiokafka": aio.Driver,
    "confluent-kafka": confluent_kafka.Driver,
    "kafka-python": kafka_python.Driver,
}


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredListeners]:
    """A broker that asks for SASL, and the proxy in front of it, whose TLS is its own."""
    with TxnsimServer(brokers=1, arguments=("--security", "demo")) as server:
        security = server.ready["security"]
        directory = Path(security["directory"])
        config = directory / "admin.properties"
        files = ("--certificate", str(directory / "broker.pem"))
        key = ("--key", str(directory / "broker.key"))
        command = ("--command-config", str(config))
        with TxnsimProxy(security["bootstrap"]["SASL_SSL"], *files, *key, *command) as proxy:
            yield SecuredListeners(proxy.bootstrap, proxy.bootstrap, directory)


@pytest.mark.costly
@pytest.mark.parametrize("library_name", LIBRARIES)
def test_a_client_s_own_password_passes_a_proxy_that_ends_tls(
    secured: SecuredListeners, library_name: str
) -> None:
    login = by_password(secured.directory, SCRAM)
    transact(LIBRARIES[library_name], secured, login, f"through-{library_name}")


def test_a_wrong_password_is_the_broker_s_affair(secured: SecuredListeners) -> None:
    refuse_password(LIBRARIES["confluent-kafka"], secured)


def test_a_client_s_certificate_does_not_pass(secured: SecuredListeners) -> None:
    """The proxy does not pass the certificate on, so the broker requires SASL."""
    driver = confluent_kafka.Driver(secured.tls, by_certificate(secured.directory))
    error = driver.login_error()
    assert isinstance(error, KafkaException)
    # Let in by TLS and sent away by the broker, or the news that this was the only one.
    ends = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    assert error.args[0].code() in ends, repr(error)


MEGABYTES: Final = 9
READERS: Final = 3
REQUESTS: Final = 6
"""Of each: Fetches of 8 MB that are under way at once."""
STEADY_S: Final = 1.0
PATIENCE_S: Final = 15.0


@pytest.mark.costly
@pytest.mark.parametrize(
    ("version", "bound_mb"),
    # Answers of 12 pass as they come. Those of 17 may name a leader's address: they are collected.
    [(12, 24), (17, 24 + READERS * 2 * 8)],
)
def test_readers_that_do_not_read_cost_bounded_memory(version: int, bound_mb: int) -> None:
    with (
        TxnsimServer(brokers=1) as server,
        TxnsimProxy(server.bootstrap) as proxy,
    ):
        topic_id = asyncio.run(create_topic(proxy.bootstrap))
        writer = BlockingConnection(proxy.bootstrap)
        for _ in range(MEGABYTES):
            writer.socket.sendall(encode_produce_frame(bytes(BATCH_BYTES - 200)))
            writer.read_answer()
        memory_before_kb = proxy.memory_kb
        readers = [BlockingConnection(proxy.bootstrap) for _ in range(READERS)]
        for reader in readers:
            for _ in range(REQUESTS):
                reader.socket.sendall(
                    encode_fetch_frame(version, 0, topic_id if version > 12 else None)
                )
        grown_mb = (_steady(lambda: proxy.memory_kb) - memory_before_kb) / 1_024
        sizes = [reader.read_answer() for reader in readers for _ in range(REQUESTS)]
        for connection in (writer, *readers):
            connection.socket.close()
    assert min(sizes) > 7_000_000, "what waited was sent whole"
    assert grown_mb < bound_mb, f"{READERS * REQUESTS * 8} MB were asked for"


def _steady(measure_kb: Callable[[], int]) -> int:
    """The highest value, once it has stood for a while."""
    end_s = time.monotonic() + PATIENCE_S
    highest_memory_kb, steady_since_s = measure_kb(), time.monotonic()
    while time.monotonic() < min(end_s, steady_since_s + STEADY_S):
        time.sleep(0.05)
        if (current_kb := measure_kb()) > highest_memory_kb + 256:
            highest_memory_kb, steady_since_s = current_kb, time.monotonic()
    return highest_memory_kb
