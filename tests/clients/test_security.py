"""Python's clients with every way to log in, against ``serve --security demo``."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.security import unsecured_token
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.clients

FAR_FUTURE_S: Final = 4_000_000_000
USERS: Final = {
    "PLAIN": "plain-user",
    "SCRAM-SHA-256": "scram-user",
    "SCRAM-SHA-512": "scram-user",
    "OAUTHBEARER": "oauth-user",
}
MUTUAL: Final = "certificate"
WAYS: Final = (*USERS, MUTUAL)
TIMEOUT_S: Final = 20


class Demo:
    """A running demo, and its settings for each client."""

    def __init__(self, server: TxnsimServer) -> None:
        told = server.ready["security"]
        self.bootstrap: dict[str, str] = told["bootstrap"]
        self.directory = Path(told["directory"])

    def file(self, name: str) -> str:
        return str(self.directory / name)

    def context(self, *, with_certificate: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.file("ca.pem"))
        if with_certificate:
            context.load_cert_chain(self.file("tls-user.pem"), self.file("tls-user.key"))
        return context


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """One broker with the topics ``orders`` and ``public-news``."""
    topics = ("--topic", "orders:1", "--topic", "public-news:1")
    with TxnsimServer(brokers=1, arguments=("--security", "demo", *topics)) as server:
        yield Demo(server)


def _token() -> str:
    return unsecured_token({"sub": USERS["OAUTHBEARER"], "exp": FAR_FUTURE_S, "iat": 1})


# confluent-kafka (librdkafka)


def _librdkafka(demo: Demo, way: str, password: str | None = None) -> dict[str, Any]:
    listener = "SSL" if way == MUTUAL else "SASL_SSL"
    settings: dict[str, Any] = {
        "bootstrap.servers": demo.bootstrap[listener],
        "security.protocol": listener,
        "ssl.ca.location": demo.file("ca.pem"),
    }
    if way == MUTUAL:
        return {
            **settings,
            "ssl.certificate.location": demo.file("tls-user.pem"),
            "ssl.key.location": demo.file("tls-user.key"),
        }
    settings["sasl.mechanism"] = way
    if way == "OAUTHBEARER":
        return {**settings, "oauth_cb": lambda _config: (_token(), FAR_FUTURE_S)}
    user = USERS[way]
    return {
        **settings,
        "sasl.username": user,
        "sasl.password": password or f"{user}-secret",
    }


@pytest.mark.parametrize("way", WAYS)
def test_confluent_kafka_transacts(demo: Demo, way: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is missing")
    producer = confluent_kafka.Producer(
        {**_librdkafka(demo, way), "transactional.id": f"confluent-{way}"}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    delivered: list[Any] = []
    producer.produce("orders", b"v", on_delivery=lambda error, _message: delivered.append(error))
    producer.commit_transaction(TIMEOUT_S)
    assert delivered == [None]


def test_confluent_kafka_hears_that_its_password_is_wrong(demo: Demo) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is missing")
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            **_librdkafka(demo, "SCRAM-SHA-256", password="wrong"),
            "error_cb": lambda error: errors.append(error.code()),
            "log_level": 0,
        }
    )
    for _ in range(100):
        producer.poll(0.1)
        if confluent_kafka.KafkaError._AUTHENTICATION in errors:
            return
    pytest.fail(f"never heard of it: {errors}")


# aiokafka


def _aiokafka(demo: Demo, way: str) -> dict[str, Any]:
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return _token()

    settings: dict[str, Any] = {
        "bootstrap_servers": demo.bootstrap["SSL" if way == MUTUAL else "SASL_SSL"],
        "security_protocol": "SSL" if way == MUTUAL else "SASL_SSL",
        "ssl_context": demo.context(with_certificate=way == MUTUAL),
    }
    if way == MUTUAL:
        return settings
    settings["sasl_mechanism"] = way
    if way == "OAUTHBEARER":
        return {**settings, "sasl_oauth_token_provider": Tokens()}
    user = USERS[way]
    return {**settings, "sasl_plain_username": user, "sasl_plain_password": f"{user}-secret"}


@pytest.mark.parametrize("way", WAYS)
async def test_aiokafka_transacts(demo: Demo, way: str) -> None:
    aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is missing")
    producer = aiokafka.AIOKafkaProducer(**_aiokafka(demo, way), transactional_id=f"aio-{way}")
    async with asyncio.timeout(TIMEOUT_S), producer, producer.transaction():
        sent = await producer.send_and_wait("orders", b"v")
    assert sent.offset >= 0


async def test_aiokafka_reads_what_a_guest_may_and_nothing_else(demo: Demo) -> None:
    aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is missing")
    settings = _aiokafka(demo, "SCRAM-SHA-256")
    async with (
        asyncio.timeout(TIMEOUT_S),
        aiokafka.AIOKafkaProducer(**settings) as producer,
    ):
        await producer.send_and_wait("public-news", b"news")
    guest = {**settings, "sasl_plain_username": "guest", "sasl_plain_password": "guest-secret"}
    consumer = aiokafka.AIOKafkaConsumer(
        "public-news", group_id="public-readers", auto_offset_reset="earliest", **guest
    )
    async with asyncio.timeout(TIMEOUT_S), consumer:
        assert (await consumer.getone()).value == b"news"
    async with asyncio.timeout(TIMEOUT_S):
        producer = aiokafka.AIOKafkaProducer(**guest)
        await producer.start()
        try:
            with pytest.raises(aiokafka.errors.TopicAuthorizationFailedError):
                await producer.send_and_wait("public-news", b"mine")
        finally:
            await producer.stop()


# kafka-python


def _kafka_python(demo: Demo, way: str, provider: Callable[[], Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": demo.bootstrap["SSL" if way == MUTUAL else "SASL_SSL"],
        "security_protocol": "SSL" if way == MUTUAL else "SASL_SSL",
        "ssl_cafile": demo.file("ca.pem"),
    }
    if way == MUTUAL:
        return {
            **settings,
            "ssl_certfile": demo.file("tls-user.pem"),
            "ssl_keyfile": demo.file("tls-user.key"),
        }
    settings["sasl_mechanism"] = way
    if way == "OAUTHBEARER":
        return {**settings, "sasl_oauth_token_provider": provider()}
    user = USERS[way]
    return {**settings, "sasl_plain_username": user, "sasl_plain_password": f"{user}-secret"}


@pytest.mark.parametrize("way", WAYS)
def test_kafka_python_transacts(demo: Demo, way: str) -> None:
    kafka = pytest.importorskip("kafka", reason="kafka-python is missing")
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return _token()

    producer = kafka.KafkaProducer(
        **_kafka_python(demo, way, Tokens), transactional_id=f"kafka-python-{way}"
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        sent = producer.send("orders", b"v").get(TIMEOUT_S)
        producer.commit_transaction()
        assert sent.offset >= 0
    finally:
        producer.close()
