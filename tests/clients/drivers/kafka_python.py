"""kafka-python: pure Python, a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic as PythonNewTopic
from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd
from kafka.errors import InvalidProducerEpochError, ProducerFencedError, TopicAlreadyExistsError

from tests.clients.drivers.base import PATIENCE_S, Record, Seen

QUICK: Final = {"retry_backoff_ms": 5, "reconnect_backoff_ms": 5}
CODECS: Final = {"gzip": has_gzip, "snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
"""Each but gzip needs a package that kafka-python does not bring along."""


class Driver:
    """The library, pointed at ``bootstrap``."""

    can_null_headers = False
    codecs = ("none", *(name for name, is_there in CODECS.items() if is_there()))

    def __init__(self, bootstrap: str) -> None:
        self.settings = {"bootstrap_servers": bootstrap.split(","), **QUICK}

    def create_topic(self, name: str, partitions: int) -> None:
        """See ``base.Driver``."""
        topic = PythonNewTopic(name, num_partitions=partitions, replication_factor=3)
        admin = KafkaAdminClient(**self.settings)
        try:
            admin.create_topics([topic])
        finally:
            admin.close()

    def leaders(self, topic: str) -> list[int]:
        """See ``base.Driver``."""
        admin = KafkaAdminClient(**self.settings)
        try:
            (described,) = admin.describe_topics([topic])
        finally:
            admin.close()
        by_index = {each["partition_index"]: each["leader_id"] for each in described["partitions"]}
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
        consumer = KafkaConsumer(
            **self.settings,
            enable_auto_commit=False,
            fetch_max_wait_ms=10,
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        try:
            indexes = range(len(self.leaders(topic)))
            return _until_ends(consumer, [TopicPartition(topic, index) for index in indexes])
        finally:
            consumer.close()

    def is_fenced(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return isinstance(error, ProducerFencedError)

    def is_old_epoch(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return isinstance(error, InvalidProducerEpochError)

    def is_topic_exists(self, error: Exception) -> bool:
        """See ``base.Driver``."""
        return isinstance(error, TopicAlreadyExistsError)


class DriverProducer:
    """See ``base.DriverProducer``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = KafkaProducer(**settings)

    def __enter__(self) -> DriverProducer:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._producer.close(timeout=None if error is None else 1)

    def init(self) -> None:
        """See ``base.DriverProducer``."""
        self._producer.init_transactions()

    def begin(self) -> None:
        """See ``base.DriverProducer``."""
        self._producer.begin_transaction()

    def send(self, topic: str, records: Iterable[Record]) -> list[int]:
        """See ``base.DriverProducer``."""
        sent = [
            self._producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        return [future.get(timeout=PATIENCE_S).offset for future in sent]

    def commit(self) -> None:
        """See ``base.DriverProducer``."""
        self._producer.commit_transaction()

    def abort(self) -> None:
        """See ``base.DriverProducer``."""
        self._producer.abort_transaction()


def _until_ends(consumer: Any, partitions: list[Any]) -> list[Seen]:
    """Read until the consumer's positions have reached the ends that it was told at first."""
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    seen: list[Seen] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        assert time.monotonic() < deadline_s, f"the ends {ends} were not reached"
        for records in consumer.poll(timeout_ms=100).values():
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
    return seen
