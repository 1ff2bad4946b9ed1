"""The settings that ``serve --security demo`` prints for Python's clients: pasted as they are, a
record is sent with them. Those of other languages: ``tests/real/test_printed_settings.py``.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Producer

from tests.support.printed_settings import TOPIC, printed_settings
from tests.support.slow_machine import SLOW_S

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def settings_by_library() -> Iterator[dict[str, str]]:
    """The settings that ``txnsim serve`` prints, by client library."""
    with printed_settings() as settings:
        yield settings


def _keyword_arguments(text: str) -> dict[str, Any]:
    """The keyword arguments in the text of a call."""
    arguments: dict[str, Any] = eval(f"dict({text})", {"ssl": ssl})
    return arguments


def test_librdkafka(settings_by_library: dict[str, str]) -> None:
    producer = Producer(
        dict(entry_text.split("=", 1) for entry_text in settings_by_library["librdkafka"].split())
    )
    failures: list[Any] = []
    producer.produce(TOPIC, b"record", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(SLOW_S) == 0
    assert failures == [None]


def test_kafka_python(settings_by_library: dict[str, str]) -> None:
    producer = kafka.KafkaProducer(**_keyword_arguments(settings_by_library["kafka-python"]))
    try:
        assert producer.send(TOPIC, b"record").get(SLOW_S).offset >= 0
    finally:
        producer.close(SLOW_S)


async def test_aiokafka(settings_by_library: dict[str, str]) -> None:
    async with (
        asyncio.timeout(SLOW_S),
        aiokafka.AIOKafkaProducer(
            **_keyword_arguments(settings_by_library["aiokafka"])
        ) as producer,
    ):
        assert (await producer.send_and_wait(TOPIC, b"record")).offset >= 0
