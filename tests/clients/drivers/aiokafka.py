"""aiokafka: asyncio, in a loop on a thread of its own, so that its background tasks always run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.errors import ProducerFenced, TopicAlreadyExistsError, for_code

from tests.clients.drivers.base import PATIENCE_S, Record, Seen

T = TypeVar("T")

QUICK: Final = {"retry_backoff_ms": 5}


class Driver:
    """The library, pointed at ``bootstrap``; the loop is the process's."""

    can_null_headers = True
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str) -> None:
        self.settings = {"bootstrap_servers": bootstrap, **QUICK}

    def create_topic(self, name: str, partitions: int) -> None:
        """See ``base.Driver``."""
        run(self._create_topic(name, partitions))

    async def _create_topic(self, name: str, partitions: int) -> None:
        topic = AioNewTopic(name, num_partitions=partitions, replication_factor=3)
        admin = AIOKafkaAdminClient(**self.settings)
        await admin.start()
        try:
            answer = await admin.create_topics([topic])
        finally:
            await admin.close()
        # This library hands over the answer and leaves it to the caller to look.
        for _name, code, message in answer.topic_errors:
            if code:
                raise for_code(code)(message)

    def leaders(self, topic: str) -> list[int]:
        """See ``base.Driver``."""
        return run(self._leaders(topic))

    async def _leaders(self, topic: str) -> list[int]:
        admin = AIOKafkaAdminClient(**self.settings)
        await admin.start()
        try:
            (described,) = await admin.describe_topics([topic])
        finally:
            await admin.close()
        by_index = {each["partition"]: each["leader"] for each in described["partitions"]}
        return [by_index[index] for index in sorted(by_index)]

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        compression: str = "none",
    ) -> DriverProducer:
        """See ``base.Driver``."""
        return DriverProducer(
            {
                **self.settings,
                "enable_idempotence": True,
                "transactional_id": transactional_id,
                "transaction_timeout_ms": timeout_ms,
                "compression_type": None if compression == "none" else compression,
                "max_request_size": 2_000_000,
            }
        )

    def read(self, topic: str, *, committed: bool) -> list[Seen]:
        """See ``base.Driver``."""
        return run(self._read(topic, committed=committed))

    async def _read(self, topic: str, *, committed: bool) -> list[Seen]:
        indexes = range(len(await self._leaders(topic)))
        consumer = AIOKafkaConsumer(
            **self.settings,
            enable_auto_commit=False,
            fetch_max_wait_ms=10,
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        await consumer.start()
        try:
            return await _until_ends(consumer, [TopicPartition(topic, index) for index in indexes])
        finally:
            await consumer.stop()

    def is_fenced(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return isinstance(error, ProducerFenced)

    def is_old_epoch(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return self.is_fenced(error)

    def is_topic_exists(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return isinstance(error, TopicAlreadyExistsError)


class DriverProducer:
    """See ``base.DriverProducer``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._producer: Any = None
        self._is_transactional = settings["transactional_id"] is not None

    def __enter__(self) -> DriverProducer:
        if not self._is_transactional:
            run(self._start())
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._producer is not None:
            run(self._producer.stop())

    def init(self) -> None:
        """See ``base.DriverProducer``. This library asks for its producer id when it starts."""
        run(self._start())

    async def _start(self) -> None:
        self._producer = AIOKafkaProducer(**self._settings)
        await self._producer.start()

    def begin(self) -> None:
        """See ``base.DriverProducer``."""
        run(self._producer.begin_transaction())

    def send(self, topic: str, records: Iterable[Record]) -> list[int]:
        """See ``base.DriverProducer``."""
        return run(self._send(topic, records))

    async def _send(self, topic: str, records: Iterable[Record]) -> list[int]:
        sent = [
            await self._producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        return [answer.offset for answer in await asyncio.gather(*sent)]

    def commit(self) -> None:
        """See ``base.DriverProducer``."""
        run(self._producer.commit_transaction())

    def abort(self) -> None:
        """See ``base.DriverProducer``."""
        run(self._producer.abort_transaction())


async def _until_ends(consumer: Any, partitions: list[Any]) -> list[Seen]:
    """Read until the consumer's positions have reached the ends that it was told at first."""
    consumer.assign(partitions)
    await consumer.seek_to_beginning()
    ends = await consumer.end_offsets(partitions)
    seen: list[Seen] = []
    while True:
        positions = [await consumer.position(partition) for partition in partitions]
        if all(at >= ends[each] for at, each in zip(positions, partitions, strict=True)):
            return seen
        for records in (await consumer.getmany(timeout_ms=20)).values():
            seen += [
                Seen(
                    record.partition,
                    record.offset,
                    record.key,
                    record.value,
                    tuple(record.headers),
                    record.timestamp,
                )
                for record in records
            ]


# The loop

_loop = asyncio.new_event_loop()
_thread = threading.Thread(target=_loop.run_forever, name="aiokafka", daemon=True)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it in the library's loop and wait."""
    if not _thread.is_alive():
        _thread.start()
    bounded = asyncio.wait_for(coroutine, PATIENCE_S)
    return asyncio.run_coroutine_threadsafe(bounded, _loop).result()
