"""kafka-python as the producer of a story: a stock client with short timeouts (extra ``demo``)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from sim.errors import InvariantViolation
from sim.scenario.players.base import DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Part

WAIT_SECONDS = 30


class _Remembered(logging.Handler):
    """Keeps what the client logs, instead of printing it into the story."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)


class KafkaPythonPlayer:
    """``kafka.KafkaProducer`` in threads of its own."""

    name = "kafka-python"

    def __init__(self, part: Part) -> None:
        self._part = part
        self._producer: Any = None
        self._sent: Any = None
        self._logged = _Remembered()
        logger = logging.getLogger("kafka")
        logger.addHandler(self._logged)
        logger.propagate = False

    async def begin(self) -> None:
        """Get an identity and begin a transaction."""
        await asyncio.to_thread(self._begin)

    def _begin(self) -> None:
        part = self._part
        self._producer = KafkaProducer(
            bootstrap_servers=part.bootstrap.split(","),
            client_id=part.client_id,
            transactional_id=part.transactional_id,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=10,
            linger_ms=0,
        )
        self._producer.init_transactions()
        self._producer.begin_transaction()

    async def send(self, value: str) -> None:
        """Send a record."""

        def send() -> Any:
            return self._producer.send(
                self._part.topic, value.encode(), partition=self._part.partition
            )

        self._sent = await asyncio.to_thread(send)

    async def await_ack(self) -> None:
        """Wait until the last record is acknowledged."""
        await asyncio.to_thread(self._sent.get, WAIT_SECONDS)

    async def give_up(self) -> None:
        """Wait until the last record's delivery has timed out."""
        try:
            await asyncio.to_thread(self._sent.get, WAIT_SECONDS)
        except KafkaError:
            return
        raise InvariantViolation("the record was acknowledged though its request is held")

    async def abort(self) -> None:
        """Abort the transaction."""
        await asyncio.to_thread(self._producer.abort_transaction)

    async def close(self) -> None:
        """Leave."""
        if self._producer is not None:
            await asyncio.to_thread(self._producer.close, 1)
        logging.getLogger("kafka").removeHandler(self._logged)

    def remarks(self) -> tuple[str, ...]:
        """What the client logged, shortened, and why."""
        if not self._logged.records:
            return ()
        first = self._logged.records[0].getMessage().splitlines()[0][:140]
        lines = [f"kafka-python logged {len(self._logged.records)} warnings, the first: {first}"]
        if any("reset_producer_id" in _text(record) for record in self._logged.records):
            lines.append(
                "its traceback through reset_producer_id is its own: a transactional producer may "
                "not reset its id after a timed-out batch, kafka-python tries to and goes on"
            )
        return tuple(lines)


def _text(record: logging.LogRecord) -> str:
    formatter = logging.Formatter()
    trace = formatter.formatException(record.exc_info) if record.exc_info else ""
    return record.getMessage() + trace
