"""Consumer groups of real clients: consume, transform, produce, with positions in the transaction.

Workers take over from one another, in the middle of a transaction, too; every input leads to one
output. Kafka's counterpart: GroupCoordinatorIntegrationTest, and KIP-447 for what fences whom.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from typing import Any, Final

import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaTopicPartition

from tests.clients.conftest import Server
from tests.clients.drivers import confluent_kafka as confluent

pytestmark = pytest.mark.clients

PARTITIONS: Final = 4
INPUTS: Final = 60
PATIENCE_S: Final = 40
PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "range": {
        "partition.assignment.strategy": "range",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 300,
    },
    "cooperative": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 300,
    },
    "consumer": {"group.protocol": "consumer"},
}

_numbers = itertools.count(1)


class Pipeline:
    """An input topic that is full, an output topic that is empty, a group."""

    def __init__(self, server: Server) -> None:
        self.bootstrap = server.bootstrap
        number = next(_numbers)
        self.source, self.sink, self.group = (
            f"{what}-{number}" for what in ("source", "sink", "group")
        )
        driver = confluent.Driver(server.bootstrap)
        for topic in (self.source, self.sink):
            driver.create_topic(topic, PARTITIONS)
        self.inputs = 0
        self.feed()

    def feed(self) -> None:
        """More inputs, on all partitions."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for index in range(self.inputs, self.inputs + INPUTS):
            producer.produce(self.source, f"{index}".encode(), partition=index % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        self.inputs += INPUTS

    def outputs(self) -> Counter[bytes]:
        """What committed transactions have written."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.group}-reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.subscribe([self.sink])
        found: Counter[bytes] = Counter()
        ended: set[int | None] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found[message.value() or b""] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        consumer.close()
        return found

    @property
    def wanted(self) -> Counter[bytes]:
        """Every input, once."""
        return Counter(f"{index}".encode() for index in range(self.inputs))


class Worker:
    """librdkafka: takes inputs, writes outputs and positions in one transaction."""

    def __init__(self, pipeline: Pipeline, name: str, protocol: str) -> None:
        self.pipeline = pipeline
        self.consumer = Consumer(
            {
                "bootstrap.servers": pipeline.bootstrap,
                "group.id": pipeline.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **PROTOCOLS[protocol],
            }
        )
        self.consumer.subscribe([pipeline.source])
        self.producer = Producer(
            {
                "bootstrap.servers": pipeline.bootstrap,
                "transactional.id": f"{pipeline.group}-{name}",
                **confluent.QUICK,
            }
        )
        self.producer.init_transactions(PATIENCE_S)

    def step(self) -> int:
        """One transaction; how many inputs it took, 0 where there were none or it was aborted."""
        messages = [each for each in self.consumer.consume(5, timeout=0.2) if each.error() is None]
        if not messages:
            return 0
        self.producer.begin_transaction()
        for message in messages:
            self.producer.produce(
                self.pipeline.sink, message.value(), partition=message.partition() or 0
            )
        try:
            self.commit()
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            self.producer.abort_transaction(PATIENCE_S)
            self.rewind()
            return 0
        return len(messages)

    def commit(self, metadata: Any = None) -> None:
        """Positions, and the end of the transaction."""
        positions = [
            each for each in self.consumer.position(self.consumer.assignment()) if each.offset >= 0
        ]
        group = metadata or self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction(positions, group, PATIENCE_S)
        self.producer.commit_transaction(PATIENCE_S)

    def rewind(self) -> None:
        """Go on where the group's positions are."""
        for each in self.consumer.committed(self.consumer.assignment(), PATIENCE_S):
            each.offset = max(each.offset, 0)
            self.consumer.seek(each)

    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()


def until(done: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, what


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_workers_come_and_go_and_every_input_has_one_output(server: Server, protocol: str) -> None:
    pipeline = Pipeline(server)
    first = Worker(pipeline, "first", protocol)
    until(first.step, "nothing to consume")
    second = Worker(pipeline, "second", protocol)

    def both() -> bool:
        first.step()
        second.step()
        return len(first.consumer.assignment()) == len(second.consumer.assignment()) == 2

    until(both, "the second one gets nothing")
    pipeline.feed()
    assert first.step() or second.step()
    first.close()
    until(lambda: not second.step() and pipeline_is_done(pipeline, second), "inputs are left")
    second.close()
    assert pipeline.outputs() == pipeline.wanted


def pipeline_is_done(pipeline: Pipeline, worker: Worker) -> bool:
    """The group's positions are at the end of all inputs."""
    assignment = worker.consumer.assignment()
    if len(assignment) < PARTITIONS:
        return False
    committed = worker.consumer.committed(assignment, PATIENCE_S)
    return sum(max(each.offset, 0) for each in committed) == pipeline.inputs


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_member_of_an_older_generation_can_not_commit(server: Server, protocol: str) -> None:
    pipeline = Pipeline(server)
    zombie = Worker(pipeline, "zombie", protocol)
    until(lambda: zombie.consumer.consume(1, timeout=0.2), "nothing to consume")
    before = zombie.consumer.consumer_group_metadata()
    other = Worker(pipeline, "other", protocol)

    def rebalanced() -> bool:
        zombie.consumer.consume(1, timeout=0.1)
        other.consumer.consume(1, timeout=0.1)
        return len(zombie.consumer.assignment()) == len(other.consumer.assignment()) == 2

    until(rebalanced, "the group was not rebalanced")
    zombie.producer.begin_transaction()
    zombie.producer.produce(pipeline.sink, b"of a zombie")
    lost = [
        ConfluentTopicPartition(each.topic, each.partition, 1)
        for each in other.consumer.assignment()
    ]
    with pytest.raises(KafkaException) as failure:
        zombie.producer.send_offsets_to_transaction(lost, before, PATIENCE_S)
    assert failure.value.args[0].txn_requires_abort()
    zombie.producer.abort_transaction(PATIENCE_S)
    zombie.close()
    other.close()
    assert pipeline.outputs() == Counter()


def test_classic_members_and_those_of_the_consumer_protocol_share_a_group(server: Server) -> None:
    pipeline = Pipeline(server)
    old = Worker(pipeline, "old", "cooperative")
    until(old.step, "nothing to consume")
    new = Worker(pipeline, "new", "consumer")

    def shared() -> bool:
        old.step()
        new.step()
        return len(old.consumer.assignment()) == len(new.consumer.assignment()) == 2

    until(shared, "the group is not shared")
    new.close()
    until(lambda: not old.step() and pipeline_is_done(pipeline, old), "inputs are left")
    old.close()
    assert pipeline.outputs() == pipeline.wanted


def test_aiokafka_takes_over_where_the_last_transaction_ended(server: Server) -> None:
    pipeline = Pipeline(server)

    async def work(transactions: int) -> int:
        consumer = AIOKafkaConsumer(
            pipeline.source,
            bootstrap_servers=pipeline.bootstrap,
            group_id=pipeline.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=6_000,
        )
        producer = AIOKafkaProducer(
            bootstrap_servers=pipeline.bootstrap, transactional_id=pipeline.group
        )
        await consumer.start()
        await producer.start()
        taken = 0
        try:
            for _ in range(transactions):
                batches = await consumer.getmany(timeout_ms=2_000, max_records=7)
                if not batches:
                    break
                await producer.begin_transaction()
                positions: dict[TopicPartition, int] = {}
                for partition, records in batches.items():
                    for record in records:
                        await producer.send(
                            pipeline.sink, record.value, partition=partition.partition
                        )
                        taken += 1
                    positions[partition] = records[-1].offset + 1
                await producer.send_offsets_to_transaction(positions, pipeline.group)
                await producer.commit_transaction()
        finally:
            await producer.stop()
            await consumer.stop()
        return taken

    first = asyncio.run(work(3))
    assert 0 < first < INPUTS
    assert first + asyncio.run(work(INPUTS)) == INPUTS
    assert pipeline.outputs() == pipeline.wanted


def test_kafka_python_takes_over_where_the_last_transaction_ended(server: Server) -> None:
    pipeline = Pipeline(server)

    def work(transactions: int) -> int:
        consumer = kafka.KafkaConsumer(
            pipeline.source,
            bootstrap_servers=pipeline.bootstrap,
            group_id=pipeline.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=6_000,
        )
        producer = kafka.KafkaProducer(
            bootstrap_servers=pipeline.bootstrap, transactional_id=pipeline.group
        )
        producer.init_transactions()
        taken = idle = done = 0
        while done < transactions and idle < 10:
            batches = consumer.poll(timeout_ms=500, max_records=7)
            if not batches:
                idle += 1
                continue
            producer.begin_transaction()
            positions: dict[KafkaTopicPartition, OffsetAndMetadata] = {}
            for partition, records in batches.items():
                for record in records:
                    producer.send(pipeline.sink, record.value, partition=partition.partition)
                    taken += 1
                positions[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
            producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            producer.commit_transaction()
            done += 1
        producer.close()
        consumer.close()
        return taken

    first = work(3)
    assert 0 < first < INPUTS
    assert first + work(INPUTS) == INPUTS
    assert pipeline.outputs() == pipeline.wanted
