"""confluent-kafka: librdkafka behind Python."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ConfluentNewTopic

from tests.clients.drivers.base import PATIENCE_S, POLL_MS, ConsumedRecord, Record
from tests.clients.drivers.base import DriverMember as Member
from tests.clients.drivers.logins import FAR_FUTURE_S, OAUTHBEARER, USERS, Login
from tests.support.lifetime import ManagedResource

QUICK: Final = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 50, "reconnect.backoff.ms": 5}
CLASSIC: Final = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}
"""Of the classic protocol: in the new one the group's coordinator decides."""
GROUP: Final = "group-that-no-coordinator-knows"
"""librdkafka insists on a group id, even for assigned consumers."""


class Driver:
    """The library, pointed at ``bootstrap``."""

    can_null_headers = True
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    fences_generations = True
    mechanisms = tuple(USERS)

    def __init__(self, bootstrap: str, login: Login | None = None) -> None:
        self.settings: dict[str, Any] = {"bootstrap.servers": bootstrap, **QUICK}
        self._replicas = min(3, bootstrap.count(",") + 1)
        if login is not None:
            self.settings |= _login_settings(login)
        self._admin = AdminClient(self.settings)

    def create_topic(self, topic_name: str, partitions: int) -> None:
        topic = ConfluentNewTopic(
            topic_name, num_partitions=partitions, replication_factor=self._replicas
        )
        self._admin.create_topics([topic])[topic_name].result(PATIENCE_S)

    def leaders(self, topic: str) -> list[int]:
        partitions = self._admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return [partitions[partition_index].leader for partition_index in sorted(partitions)]

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        compression: str = "none",
        is_idempotent: bool = True,
    ) -> DriverProducer:
        settings = {
            **self.settings,
            "linger.ms": 0,
            "acks": "all",
            "enable.idempotence": is_idempotent,
            "compression.type": compression,
        }
        if transactional_id is not None:
            settings |= {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
            }
        return DriverProducer(settings)

    def member(self, group: str, topic: str, **group_settings: Any) -> DriverMember:
        """See ``base.Driver``; with more settings, or others."""
        return DriverMember(
            topic,
            {
                **self.settings,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **(group_settings or CLASSIC),
            },
        )

    def positions(self, group: str, topic: str, partitions: int) -> list[int]:
        topic_partitions = [
            TopicPartition(topic, partition_index) for partition_index in range(partitions)
        ]
        request = ConsumerGroupTopicPartitions(group, topic_partitions)
        answer = self._admin.list_consumer_group_offsets([request])[group].result(PATIENCE_S)
        offsets = {position.partition: position.offset for position in answer.topic_partitions}
        return [max(offsets[partition_index], 0) for partition_index in range(partitions)]

    def set_positions(self, group: str, topic: str, positions: Sequence[int]) -> None:
        """Commit these positions, by partition, for a group without members."""
        topic_partitions = [
            TopicPartition(topic, topic_partition_index, offset)
            for topic_partition_index, offset in enumerate(positions)
        ]
        request = ConsumerGroupTopicPartitions(group, topic_partitions)
        self._admin.alter_consumer_group_offsets([request])[group].result(PATIENCE_S)

    def read(self, topic: str, *, committed: bool) -> list[ConsumedRecord]:
        consumer = self.consumer(committed=committed)
        try:
            # Asked for first: librdkafka looks for offsets only 500 ms after it missed a leader.
            pending_partitions = set(
                consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
            )
            consumer.assign(
                [
                    TopicPartition(topic, pending_partition_index, OFFSET_BEGINNING)
                    for pending_partition_index in pending_partitions
                ]
            )
            return _until_ends(consumer, pending_partitions)
        finally:
            consumer.close()

    def consumer(self, *, committed: bool, **overrides: Any) -> Consumer:
        """A consumer for assigned partitions."""
        return Consumer(
            {
                **self.settings,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                **overrides,
            }
        )

    def is_fenced(self, error: Exception) -> bool:
        return _code(error) == KafkaError._FENCED and bool(error.args[0].fatal())

    def is_old_epoch(self, error: Exception) -> bool:
        return self.is_fenced(error)

    def is_left_behind(self, error: Exception) -> bool:
        codes = (
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.UNKNOWN_MEMBER_ID,
            KafkaError.STALE_MEMBER_EPOCH,
        )
        return _code(error) in codes and bool(error.args[0].txn_requires_abort())

    def login_error(self) -> Exception | None:
        """See ``base.Driver``. This library tells it aside, and tries again on its own."""
        errors: list[KafkaError] = []
        producer = Producer({**self.settings, "error_cb": errors.append, "log_level": 0})
        deadline_s = time.monotonic() + PATIENCE_S
        while not errors and time.monotonic() < deadline_s:
            producer.poll(0.1)
        return KafkaException(errors[0]) if errors else None

    def is_login_refused(self, error: Exception | None) -> bool:
        return error is not None and _code(error) == KafkaError._AUTHENTICATION

    def is_topic_exists(self, error: Exception) -> bool:
        return _code(error) == KafkaError.TOPIC_ALREADY_EXISTS


class DriverProducer(ManagedResource):
    """See ``base.DriverProducer``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = Producer(settings)

    def _on_exit(self, _error: BaseException | None) -> None:
        # Destroyed, not closed: `close` and `flush` raise what has fenced a producer once more.
        self._producer.purge()
        del self._producer

    def init(self) -> None:
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, records: Iterable[Record]) -> list[int]:
        answers: dict[int, KafkaError | int] = {}
        pending_count = 0
        for pending_count, record in enumerate(records, start=1):

            def note_answer(
                error: KafkaError | None, message: Message, number: int = pending_count
            ) -> None:
                offset = message.offset()
                answers[number] = error or (-1 if offset is None else offset)

            timestamp_option: dict[str, Any] = (
                {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            )
            self._producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=note_answer,
                **timestamp_option,
            )
        deadline_s = time.monotonic() + PATIENCE_S
        while len(answers) < pending_count:
            # Not `flush`: it raises what has fenced a producer while it hands over the answers.
            self._producer.poll(0.1)
            assert time.monotonic() < deadline_s, (
                f"{len(answers)} of {pending_count} records answered"
            )
        offsets = []
        for record_number in range(1, pending_count + 1):
            answer = answers[record_number]
            if isinstance(answer, KafkaError):
                raise KafkaException(answer)
            offsets.append(answer)
        return offsets

    def send_offsets(
        self, positions: Mapping[int, int], member: Member, group_metadata: Any
    ) -> None:
        offsets = [
            TopicPartition(member.topic, offset_index, offset)
            for offset_index, offset in positions.items()
        ]
        self._producer.send_offsets_to_transaction(offsets, group_metadata, PATIENCE_S)

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)


class DriverMember(ManagedResource):
    """See ``base.DriverMember``."""

    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        self.topic = topic
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def _on_exit(self, _error: BaseException | None) -> None:
        self._consumer.close()

    def poll(self, record_count: int) -> list[ConsumedRecord]:
        consumed_records = []
        for message in self._consumer.consume(record_count, timeout=POLL_MS / 1000):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            consumed_records.append(_consumed_record(message))
        return consumed_records

    def metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()

    def assigned_partitions(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def is_asked_to_yield(self) -> bool:
        return False

    def end_turn(self) -> None:
        """See ``base.DriverMember``."""

    def rewind(self) -> None:
        for topic_partition in self._consumer.committed(self._consumer.assignment(), PATIENCE_S):
            topic_partition.offset = max(topic_partition.offset, 0)
            self._consumer.seek(topic_partition)


def _login_settings(login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "security.protocol": login.protocol,
        "ssl.ca.location": login.authority,
    }
    if login.mechanism is None:
        return {
            **settings,
            "ssl.certificate.location": login.certificate,
            "ssl.key.location": login.key,
        }
    settings["sasl.mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return {**settings, "oauth_cb": lambda _config: (login.token(), FAR_FUTURE_S)}
    return {**settings, "sasl.username": login.user, "sasl.password": login.password}


def _code(error: Exception) -> int | None:
    if not isinstance(error, KafkaException):
        return None
    return int(error.args[0].code())


def _until_ends(consumer: Consumer, pending_partitions: set[int]) -> list[ConsumedRecord]:
    """Read until every partition has said that its end is reached."""
    consumed_records: list[ConsumedRecord] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while pending_partitions:
        message = consumer.poll(1.0)
        assert time.monotonic() < deadline_s, f"the ends of {pending_partitions} were not reached"
        if message is None:
            continue
        error = message.error()
        if error is None:
            consumed_records.append(_consumed_record(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            pending_partitions.discard(message.partition())
        else:
            raise KafkaException(error)
    return consumed_records


def _consumed_record(message: Message) -> ConsumedRecord:
    _kind, timestamp_ms = message.timestamp()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers = message.headers() or []  # pairs: a dict is only what its producers may give
    return ConsumedRecord(
        partition,
        offset,
        message.key(),
        message.value(),
        tuple(headers),  # type: ignore[arg-type]
        timestamp_ms,
    )
