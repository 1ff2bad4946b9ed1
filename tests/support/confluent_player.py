"""librdkafka, through confluent-kafka, as an application of a story: a stock client that commits
again by itself when no answer comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from txnsim.errors import ClientError
from txnsim.scenario.players.base import (
    DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    Part,
    Player,
)
from txnsim.types import TopicPartition

PATIENCE_SECONDS: Final = 30
ATTEMPTS_MAX: Final = 20
"""Of an end of a transaction that may be asked for again, as its error says."""


class ConfluentPlayer(Player):
    """A transactional ``confluent_kafka.Producer``."""

    name = "confluent-kafka"

    def __init__(self, part: Part) -> None:
        self._part = part
        self._producer: Any = None
        self._delivered: asyncio.Future[int] | None = None

    async def begin(self) -> None:
        """Get an identity, unless it has one, and begin a transaction."""
        if self._producer is None:
            part = self._part
            self._producer = Producer(
                {
                    "bootstrap.servers": part.bootstrap,
                    "client.id": part.client_id,
                    "transactional.id": part.transactional_id,
                    "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                    "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                    "linger.ms": 0,
                }
            )
            await self._patiently(lambda: self._producer.init_transactions(PATIENCE_SECONDS))
        await asyncio.to_thread(self._producer.begin_transaction)

    async def send(self, value: str, place: TopicPartition) -> None:
        """Send a record."""
        loop = asyncio.get_running_loop()
        delivered = self._delivered = loop.create_future()

        def tell(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            loop.call_soon_threadsafe(settle, error, -1 if offset is None else offset)

        def settle(error: KafkaError | None, offset: int) -> None:
            if delivered.done():
                return
            if error is None:
                delivered.set_result(offset)
            else:
                delivered.set_exception(ClientError(f"confluent-kafka: {error}"))

        self._producer.produce(
            place.topic, value.encode(), partition=place.partition, on_delivery=tell
        )

    async def await_ack(self) -> int:
        """Wait until the last record is acknowledged; returns its offset."""
        assert self._delivered is not None
        while not self._delivered.done():
            await asyncio.to_thread(self._producer.poll, 0.05)
            await asyncio.sleep(0)
        return await self._delivered

    async def commit(self) -> None:
        """Commit the transaction."""
        await self._patiently(lambda: self._producer.commit_transaction(PATIENCE_SECONDS))

    async def abort(self) -> None:
        """Abort the transaction."""
        await self._patiently(lambda: self._producer.abort_transaction(PATIENCE_SECONDS))

    async def close(self) -> None:
        """Leave: librdkafka does when nobody holds the producer."""
        self._producer = None

    async def _patiently(self, ask: Callable[[], object]) -> None:
        """Ask again while the error says that this may help."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                await asyncio.to_thread(ask)
            except KafkaException as error:
                told = error.args[0]
                if attempt == ATTEMPTS_MAX or not told.retriable():
                    raise ClientError(f"confluent-kafka: {told}") from error
            else:
                return
