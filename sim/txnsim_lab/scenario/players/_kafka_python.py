"""kafka-python as the player of an application, with short timeouts (extra ``demo``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafka import KafkaProducer
from kafka.errors import KafkaError

from txnsim.errors import ClientError
from txnsim.types import TopicPartition
from txnsim_lab.scenario.players._base import (
    DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    ApplicationPlayer,
    PlayerPart,
)

T = TypeVar("T")

WAIT_SECONDS: Final = 30
"""Limit for operations that normally take milliseconds."""
CLOSE_SECONDS: Final = 1
LINE_CHARACTERS_MAX: Final = 100


class LogCollector(logging.Handler):
    """Collects the client's log, which would otherwise be printed between the lines of the story.
    The client has one logger for the whole process, so stories that are played at the same time get
    each other's lines.
    """

    _listening_collectors: Final[list[LogCollector]] = []
    _logger: Final = logging.getLogger("kafka")

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def open(self) -> None:
        """Starts collecting."""
        self._listening_collectors.append(self)
        self._logger.addHandler(self)
        self._logger.propagate = False

    def close(self) -> None:
        """Stops collecting; may be called at any time."""
        if self in self._listening_collectors:
            self._listening_collectors.remove(self)
            self._logger.removeHandler(self)
            self._logger.propagate = not self._listening_collectors
        super().close()


class KafkaPythonPlayer(ApplicationPlayer):
    """``kafka.KafkaProducer``, called in threads."""

    name = "kafka-python"

    def __init__(self, part: PlayerPart) -> None:
        self._part = part
        self._producer: Any = None
        self._metadata_future: Any = None
        self._log_collector = LogCollector()
        self._log_collector.open()

    async def begin(self) -> None:
        await _in_thread(self._begin_transaction)

    def _begin_transaction(self) -> None:
        if self._producer is None:
            self._start_producer()
        self._producer.begin_transaction()

    def _start_producer(self) -> None:
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
        # The record's delivery timeout is for its delivery alone, not for learning of the topic.
        self._producer.partitions_for(part.topic)

    async def send(self, value: str, partition: TopicPartition) -> None:
        self._metadata_future = await _in_thread(
            lambda: self._producer.send(
                partition.topic, value.encode(), partition=partition.partition
            )
        )

    async def await_ack(self) -> int:
        """Wait until the last record is acknowledged; returns its offset."""
        record_metadata = await _in_thread(lambda: self._metadata_future.get(WAIT_SECONDS))
        return int(record_metadata.offset)

    async def commit(self) -> None:
        await _in_thread(lambda: self._producer.commit_transaction())

    async def abort(self) -> None:
        await _in_thread(lambda: self._producer.abort_transaction())

    async def close(self) -> None:
        try:
            if self._producer is not None:
                await _in_thread(lambda: self._producer.close(CLOSE_SECONDS))
        finally:
            self._log_collector.close()

    def remarks(self) -> tuple[str, ...]:
        """What the client logged, shortened, with the reason."""
        return explain(self._log_collector.records)


def explain(records: list[logging.LogRecord]) -> tuple[str, ...]:
    """A summary of the client's log, with an explanation."""
    if not records:
        return ()
    first_line = records[0].getMessage().splitlines()[0]
    if len(first_line) > LINE_CHARACTERS_MAX:
        first_line = first_line[:LINE_CHARACTERS_MAX] + "…"
    lines = [f"kafka-python logged what happened to it, beginning with: {first_line}"]
    if any("reset_producer_id" in _log_text(record) for record in records):
        lines.append(
            "its traceback through reset_producer_id is its own affair: after a timed-out batch it "
            "wants to reset its producer id, may not as it is transactional, and goes on"
        )
    return tuple(lines)


def _log_text(log_record: logging.LogRecord) -> str:
    formatter = logging.Formatter()
    stack_trace = formatter.formatException(log_record.exc_info) if log_record.exc_info else ""
    return log_record.getMessage() + stack_trace


async def _in_thread(call: Callable[[], T]) -> T:
    """Make a blocking call in a thread of its own, as the cluster runs in this one."""
    try:
        return await asyncio.to_thread(call)
    except KafkaError as error:
        raise ClientError(f"kafka-python: {type(error).__name__}: {error}") from error
