"""kafka-python: pure Python, a thread of its own."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic as PythonNewTopic
from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    KafkaTimeoutError,
    ProducerFencedError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
)
from kafka.net.inet import KafkaNetSocket
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.structs import OffsetAndMetadata

from tests.clients.drivers.base import (
    MEMBER_SETTINGS,
    PATIENCE_S,
    POLL_MS,
    ConsumedRecord,
    Record,
    consumed_record,
    producer_settings,
)
from tests.clients.drivers.base import DriverMember as Member
from tests.clients.drivers.logins import OAUTHBEARER, USERS, Login, capture_log
from tests.support.lifetime import ManagedResource

DIRECT: Final = "direct"
QUICK: Final = {
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "proxy_url": f"{DIRECT}://",  # no proxy: see _Direct
}
LOGIN_TIMEOUT_MS: Final = 1_000
"""So long it tries again to log in before it gives up."""
REFUSAL: Final = "SaslAuthenticationFailed"
CODECS: Final = {"gzip": has_gzip, "snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
"""Each but gzip needs a package that kafka-python does not bring along."""


class _Socket(socket.socket):
    def __del__(self) -> None:
        self.close()


class _DirectSockets(KafkaNetSocket):  # type: ignore[misc]
    """Sockets that close themselves. A client that is closed while it connects forgets its socket,
    and Python would warn of it in another test.
    """

    SCHEMES = (DIRECT,)

    def socket(self, *arguments: int) -> _Socket:
        return _Socket(*arguments)


class Driver:
    """The library, pointed at ``bootstrap``."""

    can_null_headers = False
    codecs = (
        "none",
        *(codec_name for codec_name, is_available in CODECS.items() if is_available()),
    )
    fences_generations = True
    mechanisms = tuple(USERS)

    def __init__(self, bootstrap: str, login: Login | None = None) -> None:
        self.settings: dict[str, Any] = {"bootstrap_servers": bootstrap.split(","), **QUICK}
        self._replicas = min(3, bootstrap.count(",") + 1)
        if login is not None:
            self.settings |= _login_settings(login)

    def create_topic(self, name: str, partitions: int) -> None:
        topic = PythonNewTopic(name, num_partitions=partitions, replication_factor=self._replicas)
        admin = KafkaAdminClient(**self.settings)
        try:
            admin.create_topics([topic])
        finally:
            admin.close()

    def leaders(self, topic: str) -> list[int]:
        admin = KafkaAdminClient(**self.settings)
        try:
            (description,) = admin.describe_topics([topic])
        finally:
            admin.close()
        by_index = {
            partition["partition_index"]: partition["leader_id"]
            for partition in description["partitions"]
        }
        return [by_index[index] for index in sorted(by_index)]

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        compression: str = "none",
        is_idempotent: bool = True,
    ) -> DriverProducer:
        settings = producer_settings(
            transactional_id, timeout_ms, compression, is_idempotent=is_idempotent
        )
        return DriverProducer({**self.settings, **settings})

    def member(self, group: str, topic: str) -> DriverMember:
        return DriverMember(topic, {**self.settings, **MEMBER_SETTINGS, "group_id": group})

    def positions(self, group: str, topic: str, partitions: int) -> list[int]:
        admin = KafkaAdminClient(**self.settings)
        try:
            positions = admin.list_group_offsets(group)[group]
        finally:
            admin.close()
        offsets = {
            partition.partition: position.offset
            for partition, position in positions.items()
            if partition.topic == topic
        }
        return [offsets.get(partition_index, 0) for partition_index in range(partitions)]

    def read(self, topic: str, *, committed: bool) -> list[ConsumedRecord]:
        consumer = KafkaConsumer(
            **self.settings,
            enable_auto_commit=False,
            fetch_max_wait_ms=10,
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        try:
            partition_indexes = range(len(self.leaders(topic)))
            return _until_ends(
                consumer,
                [TopicPartition(topic, partition_index) for partition_index in partition_indexes],
            )
        finally:
            consumer.close()

    def is_fenced(self, error: Exception) -> bool:
        return isinstance(error, ProducerFencedError)

    def is_old_epoch(self, error: Exception) -> bool:
        return isinstance(error, InvalidProducerEpochError)

    def is_left_behind(self, error: Exception) -> bool:
        return isinstance(error, CommitFailedError | IllegalGenerationError | UnknownMemberIdError)

    def login_error(self) -> Exception | None:
        """See ``base.Driver``. This library forgets an answer that it reads together with the end
        of the connection, so that it may take several connections until it hears why.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            with capture_log("kafka") as lines:
                try:
                    KafkaAdminClient(**self.settings, bootstrap_timeout_ms=LOGIN_TIMEOUT_MS).close()
                except KafkaTimeoutError as error:  # of any address; the log says why
                    error.add_note(next((line for line in lines if REFUSAL in line), "no reason"))
                    if self.is_login_refused(error) or time.monotonic() > deadline_s:
                        return error  # type: ignore[no-any-return]
                else:
                    return None

    def is_login_refused(self, error: Exception | None) -> bool:
        return REFUSAL in "".join(getattr(error, "__notes__", ()))

    def is_topic_exists(self, error: Exception) -> bool:
        return isinstance(error, TopicAlreadyExistsError)


class DriverProducer(ManagedResource):
    """See ``base.DriverProducer``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = KafkaProducer(**settings)

    def _on_exit(self, error: BaseException | None) -> None:
        self._producer.close(timeout=None if error is None else 1)

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, records: Iterable[Record]) -> list[int]:
        futures = [
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
        return [future.get(timeout=PATIENCE_S).offset for future in futures]

    def send_offsets(
        self, positions: Mapping[int, int], member: Member, group_metadata: Any
    ) -> None:
        offsets = {
            TopicPartition(member.topic, offset_index): OffsetAndMetadata(offset, "", -1)
            for offset_index, offset in positions.items()
        }
        self._producer.send_offsets_to_transaction(offsets, group_metadata)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()


def _until_ends(consumer: Any, partitions: list[Any]) -> list[ConsumedRecord]:
    """Read until the consumer's positions have reached the ends that it was told at first."""
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    consumed_records: list[ConsumedRecord] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        assert time.monotonic() < deadline_s, f"the ends {ends} were not reached"
        for records in consumer.poll(timeout_ms=100).values():
            consumed_records += map(consumed_record, records)
    return consumed_records


class DriverMember(ManagedResource):
    """See ``base.DriverMember``."""

    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        self.topic = topic
        self._consumer = KafkaConsumer(topic, **settings)

    def _on_exit(self, _error: BaseException | None) -> None:
        self._consumer.close()

    def poll(self, record_count: int) -> list[ConsumedRecord]:
        batches = self._consumer.poll(timeout_ms=POLL_MS, max_records=record_count)
        return [consumed_record(record) for records in batches.values() for record in records]

    def metadata(self) -> Any:
        return self._consumer.group_metadata()

    def assigned_partitions(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def is_asked_to_yield(self) -> bool:
        return False

    def end_turn(self) -> None:
        """See ``base.DriverMember``."""

    def rewind(self) -> None:
        for partition in self._consumer.assignment():
            self._consumer.seek(partition, self._consumer.committed(partition) or 0)


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        self._login = login

    def token(self) -> str:
        return self._login.token()


def _login_settings(login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "security_protocol": login.protocol,
        "ssl_cafile": login.authority,
    }
    if login.mechanism is None:
        return {**settings, "ssl_certfile": login.certificate, "ssl_keyfile": login.key}
    settings["sasl_mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return {**settings, "sasl_oauth_token_provider": _TokenProvider(login)}
    return {
        **settings,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
    }
