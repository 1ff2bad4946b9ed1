"""confluent-kafka: librdkafka behind Python."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ConfluentNewTopic

from tests.clients.drivers.base import PATIENCE_S, Record, Seen

QUICK: Final = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 50, "reconnect.backoff.ms": 5}
GROUP: Final = "group-that-no-coordinator-knows"
"""librdkafka insists on a group id, even for assigned consumers."""


class Driver:
    """The library, pointed at ``bootstrap``."""

    can_null_headers = True
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str) -> None:
        self.settings: dict[str, Any] = {"bootstrap.servers": bootstrap, **QUICK}
        self._admin = AdminClient(self.settings)

    def create_topic(self, name: str, partitions: int) -> None:
        """See ``base.Driver``."""
        topic = ConfluentNewTopic(name, num_partitions=partitions, replication_factor=3)
        self._admin.create_topics([topic])[name].result(PATIENCE_S)

    def leaders(self, topic: str) -> list[int]:
        """See ``base.Driver``."""
        found = self._admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return [found[index].leader for index in sorted(found)]

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        compression: str = "none",
    ) -> DriverProducer:
        """See ``base.Driver``."""
        settings = {
            **self.settings,
            "linger.ms": 0,
            "enable.idempotence": True,
            "compression.type": compression,
        }
        if transactional_id is not None:
            settings |= {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
            }
        return DriverProducer(settings)

    def read(self, topic: str, *, committed: bool) -> list[Seen]:
        """See ``base.Driver``."""
        consumer = self.consumer(committed=committed)
        try:
            # Asked for first: librdkafka looks for offsets only 500 ms after it missed a leader.
            waiting = set(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in waiting])
            return _until_ends(consumer, waiting)
        finally:
            consumer.close()

    def consumer(self, *, committed: bool, **more: Any) -> Consumer:
        """A consumer for assigned partitions."""
        return Consumer(
            {
                **self.settings,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                **more,
            }
        )

    def is_fenced(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return _code(error) == KafkaError._FENCED and bool(error.args[0].fatal())

    def is_old_epoch(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return self.is_fenced(error)

    def is_topic_exists(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return _code(error) == KafkaError.TOPIC_ALREADY_EXISTS


class DriverProducer:
    """See ``base.DriverProducer``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = Producer(settings)

    def __enter__(self) -> DriverProducer:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        # Destroyed, not closed: `close` and `flush` raise what has fenced a producer once more.
        self._producer.purge()
        del self._producer

    def init(self) -> None:
        """See ``base.DriverProducer``."""
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        """See ``base.DriverProducer``."""
        self._producer.begin_transaction()

    def send(self, topic: str, records: Iterable[Record]) -> list[int]:
        """See ``base.DriverProducer``."""
        answers: dict[int, KafkaError | int] = {}
        count = 0
        for count, record in enumerate(records, start=1):

            def answered(error: KafkaError | None, message: Message, at: int = count) -> None:
                offset = message.offset()
                answers[at] = error or (-1 if offset is None else offset)

            stamped: dict[str, Any] = (
                {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            )
            self._producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=answered,
                **stamped,
            )
        deadline_s = time.monotonic() + PATIENCE_S
        while len(answers) < count:
            # Not `flush`: it raises what has fenced a producer while it hands over the answers.
            self._producer.poll(0.1)
            assert time.monotonic() < deadline_s, f"{len(answers)} of {count} records answered"
        offsets = []
        for at in range(1, count + 1):
            answer = answers[at]
            if isinstance(answer, KafkaError):
                raise KafkaException(answer)
            offsets.append(answer)
        return offsets

    def commit(self) -> None:
        """See ``base.DriverProducer``."""
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        """See ``base.DriverProducer``."""
        self._producer.abort_transaction(PATIENCE_S)


def _code(error: Exception) -> int | None:
    if not isinstance(error, KafkaException):
        return None
    return int(error.args[0].code())


def _until_ends(consumer: Consumer, waiting: set[int]) -> list[Seen]:
    """Read until every partition has said that its end is reached."""
    seen: list[Seen] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while waiting:
        message = consumer.poll(1.0)
        assert time.monotonic() < deadline_s, f"the ends of {waiting} were not reached"
        if message is None:
            continue
        error = message.error()
        if error is None:
            seen.append(_seen(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            waiting.discard(message.partition())
        else:
            raise KafkaException(error)
    return seen


def _seen(message: Message) -> Seen:
    _kind, timestamp_ms = message.timestamp()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers = message.headers() or []  # pairs: a dict is only what its producers may give
    return Seen(
        partition,
        offset,
        message.key(),
        message.value(),
        tuple(headers),  # type: ignore[arg-type]
        timestamp_ms,
    )
