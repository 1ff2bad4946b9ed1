"""aiokafka: asyncio, in a loop on a thread of its own, so that its background tasks always run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.errors import KafkaConnectionError, ProducerFenced, TopicAlreadyExistsError, for_code

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

T = TypeVar("T")

QUICK: Final = {"retry_backoff_ms": 5}
REFUSAL: Final = "SaslAuthenticationFailed"


class Driver:
    """The library, pointed at ``bootstrap``; the loop is the process's."""

    can_null_headers = True
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    fences_generations = False
    mechanisms = tuple(USERS)

    def __init__(self, bootstrap: str, login: Login | None = None) -> None:
        self.settings: dict[str, Any] = {"bootstrap_servers": bootstrap, **QUICK}
        self._replicas = min(3, bootstrap.count(",") + 1)
        if login is not None:
            self.settings |= _login_settings(login)

    def create_topic(self, name: str, partitions: int) -> None:
        run(self._create_topic(name, partitions))

    async def _create_topic(self, name: str, partitions: int) -> None:
        topic = AioNewTopic(name, num_partitions=partitions, replication_factor=self._replicas)
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
        return run(self._leaders(topic))

    async def _leaders(self, topic: str) -> list[int]:
        admin = AIOKafkaAdminClient(**self.settings)
        await admin.start()
        try:
            (description,) = await admin.describe_topics([topic])
        finally:
            await admin.close()
        by_index = {
            partition["partition"]: partition["leader"] for partition in description["partitions"]
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
        return run(self._positions(group, topic, partitions))

    async def _positions(self, group: str, topic: str, partitions: int) -> list[int]:
        admin = AIOKafkaAdminClient(**self.settings)
        await admin.start()
        try:
            positions = await admin.list_consumer_group_offsets(group)
        finally:
            await admin.close()
        by_index = {
            partition.partition: position.offset
            for partition, position in positions.items()
            if partition.topic == topic
        }
        return [by_index.get(partition_index, 0) for partition_index in range(partitions)]

    def read(self, topic: str, *, committed: bool) -> list[ConsumedRecord]:
        return run(self._read(topic, committed=committed))

    async def _read(self, topic: str, *, committed: bool) -> list[ConsumedRecord]:
        partition_indexes = range(len(await self._leaders(topic)))
        consumer = AIOKafkaConsumer(
            **self.settings,
            enable_auto_commit=False,
            fetch_max_wait_ms=10,
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        await consumer.start()
        try:
            return await _until_ends(
                consumer,
                [TopicPartition(topic, partition_index) for partition_index in partition_indexes],
            )
        finally:
            await consumer.stop()

    def is_fenced(self, error: Exception) -> bool:
        return isinstance(error, ProducerFenced)

    def is_old_epoch(self, error: Exception) -> bool:
        return self.is_fenced(error)

    def is_left_behind(self, error: Exception) -> bool:
        """See ``base.Driver``. Always False: the library sends no generation."""
        return False

    def login_error(self) -> Exception | None:
        return run(self._login_error())

    async def _login_error(self) -> Exception | None:
        producer = AIOKafkaProducer(**self.settings)
        with capture_log("aiokafka") as lines:
            try:
                await producer.start()
            except KafkaConnectionError as error:  # of any address; the log says why
                error.add_note(next((line for line in lines if REFUSAL in line), "no reason"))
                return error  # type: ignore[no-any-return]
            finally:
                await producer.stop()
        return None

    def is_login_refused(self, error: Exception | None) -> bool:
        return REFUSAL in "".join(getattr(error, "__notes__", ()))

    def is_topic_exists(self, error: Exception) -> bool:
        return isinstance(error, TopicAlreadyExistsError)


class DriverProducer(ManagedResource):
    """See ``base.DriverProducer``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._producer: Any = None
        self._is_transactional = settings["transactional_id"] is not None

    def __enter__(self) -> DriverProducer:
        if not self._is_transactional:
            run(self._start())
        return self

    def _on_exit(self, _error: BaseException | None) -> None:
        if self._producer is not None:
            run(self._producer.stop())

    def init(self) -> None:
        """See ``base.DriverProducer``. This library asks for its producer id when it starts."""
        run(self._start())

    async def _start(self) -> None:
        self._producer = AIOKafkaProducer(**self._settings)
        await self._producer.start()

    def begin(self) -> None:
        run(self._producer.begin_transaction())

    def send(self, topic: str, records: Iterable[Record]) -> list[int]:
        return run(self._send(topic, records))

    async def _send(self, topic: str, records: Iterable[Record]) -> list[int]:
        futures = [
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
        return [answer.offset for answer in await asyncio.gather(*futures)]

    def send_offsets(
        self, positions: Mapping[int, int], member: Member, group_metadata: Any
    ) -> None:
        """See ``base.DriverProducer``. This library sends the group's name alone."""
        offsets = {
            TopicPartition(member.topic, offset_index): offset
            for offset_index, offset in positions.items()
        }
        run(self._producer.send_offsets_to_transaction(offsets, group_metadata))

    def commit(self) -> None:
        run(self._producer.commit_transaction())

    def abort(self) -> None:
        run(self._producer.abort_transaction())


async def _until_ends(consumer: Any, partitions: list[Any]) -> list[ConsumedRecord]:
    """Read until the consumer's positions have reached the ends that it was told at first."""
    consumer.assign(partitions)
    await consumer.seek_to_beginning()
    ends = await consumer.end_offsets(partitions)
    consumed_records: list[ConsumedRecord] = []
    while True:
        positions = [await consumer.position(partition) for partition in partitions]
        if all(
            position >= ends[partition]
            for position, partition in zip(positions, partitions, strict=True)
        ):
            return consumed_records
        for records in (await consumer.getmany(timeout_ms=20)).values():
            consumed_records += map(consumed_record, records)


class DriverMember(ManagedResource):
    """See ``base.DriverMember``. Whoever has polled keeps its partitions until its turn has ended,
    because positions that come too late would not be refused.
    """

    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        self.topic = topic
        self._settings = settings
        self._listener = _Listener()
        self._consumer: Any = None
        self._starting: Any = None

    def __enter__(self) -> DriverMember:
        run(self._start())
        return self

    async def _start(self) -> None:
        self._consumer = AIOKafkaConsumer(**self._settings)
        self._consumer.subscribe([self.topic], listener=self._listener)
        # It comes back only when the group is complete, which may wait for another member's turn.
        self._starting = asyncio.create_task(self._consumer.start())

    def _on_exit(self, _error: BaseException | None) -> None:
        self.end_turn()
        run(self._stop())

    async def _stop(self) -> None:
        self._starting.cancel()
        await asyncio.wait([self._starting])
        await self._consumer.stop()

    def poll(self, record_count: int) -> list[ConsumedRecord]:
        return run(self._poll(record_count))

    async def _poll(self, record_count: int) -> list[ConsumedRecord]:
        await asyncio.wait([self._starting], timeout=POLL_MS / 1000)
        if not self._starting.done():
            return []
        self._starting.result()
        await self._listener.turn.acquire()
        batches = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=record_count)
        consumed_records = [
            consumed_record(record) for records in batches.values() for record in records
        ]
        if not consumed_records:
            self._listener.turn.release()
        return consumed_records

    def metadata(self) -> Any:
        return self._settings["group_id"]

    def assigned_partitions(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def is_asked_to_yield(self) -> bool:
        return self._listener.is_waiting

    def end_turn(self) -> None:
        run(self._listener.end_turn())

    def rewind(self) -> None:
        run(self._rewind())

    async def _rewind(self) -> None:
        for partition in self._consumer.assignment():
            self._consumer.seek(partition, await self._consumer.committed(partition) or 0)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Lets the group revoke partitions only between two turns of the member."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.is_waiting = False

    async def end_turn(self) -> None:
        """Allow the group to revoke partitions."""
        if self.turn.locked():
            self.turn.release()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Wait for the end of the turn."""
        self.is_waiting = True
        async with self.turn:
            self.is_waiting = False

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Do nothing."""


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        self._login = login

    async def token(self) -> str:
        return self._login.token()


def _login_settings(login: Login) -> dict[str, Any]:
    settings = {"security_protocol": login.protocol, "ssl_context": login.context()}
    if login.mechanism is None:
        return settings
    settings["sasl_mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return {**settings, "sasl_oauth_token_provider": _TokenProvider(login)}
    return {
        **settings,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
    }


# The loop

_loop = asyncio.new_event_loop()
_thread = threading.Thread(target=_loop.run_forever, name="aiokafka", daemon=True)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it in the library's loop and wait."""
    if not _thread.is_alive():
        _thread.start()
    bounded_coroutine = asyncio.wait_for(coroutine, PATIENCE_S)
    return asyncio.run_coroutine_threadsafe(bounded_coroutine, _loop).result()
