"""The checks of every client, through confluent-kafka over TCP, and what librdkafka alone does."""

from __future__ import annotations

import logging
import time
import traceback
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its __init__ has them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.clients.checklist import ProducerChecks, TransactionChecks
from tests.clients.conftest import Server
from tests.clients.drivers.base import PATIENCE_S, Record
from tests.clients.drivers.confluent_kafka import Driver
from tests.support.txnsim_server import TxnsimServer
from txnsim.replica.read_replicas import RACK_SELECTOR
from txnsim.runtime.virtual.net import HOST
from txnsim.testing import SimulatedKafka
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.trace.trace_file import Recording

pytestmark = pytest.mark.clients


class RecordingLogger(logging.Logger):
    """Keeps what librdkafka logs."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lines: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        """Keep the line."""
        self.lines.append(record.getMessage())


def test_it_reaches_nobody_from_a_run_in_virtual_time() -> None:
    """The run's addresses exist only in memory; real listeners get no connection."""
    log = RecordingLogger("librdkafka")

    async def main(kafka: AsyncSimulatedKafka) -> None:
        options = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "a", "debug": "broker"}
        producer = Producer(options, logger=log)
        try:
            producer.init_transactions(2)
        finally:
            producer.poll(0)

    with pytest.raises(KafkaException) as error_info:
        run_virtual(main)
    assert any(f"Failed to resolve '{HOST}:" in line for line in log.lines)
    assert [line for line in log.lines if "ipv4#" in line or "ipv6#" in line] == []
    assert "confluent-kafka opens sockets of its own" in "".join(
        traceback.format_exception(error_info.value)
    )


class TestTransactions(TransactionChecks):
    driver = Driver


class TestProducers(ProducerChecks):
    driver = Driver


class TestAssignedConsumer:
    """librdkafka insists on a group id; FindCoordinator for groups is answered
    COORDINATOR_NOT_AVAILABLE, as by a broker whose __consumer_offsets is not ready.
    """

    driver = Driver

    def test_it_reads_quietly_and_closes_at_once(self, client: Driver, name: str) -> None:
        client.create_topic(name, 1)
        logger = RecordingLogger(name)
        errors: list[KafkaError] = []
        consumer = client.consumer(committed=True, logger=logger, error_cb=errors.append)
        try:
            consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
            with client.producer(name) as producer:
                producer.init()
                for record_number in range(20):
                    producer.begin()
                    producer.send(name, [Record(b"%d" % record_number)])
                    producer.commit()
            values: list[Any] = []
            deadline_s = time.monotonic() + PATIENCE_S
            # Longer than librdkafka's interval between two questions for the coordinator, 500 ms.
            quiet_until_s = time.monotonic() + 1.2
            while len(values) < 20 or time.monotonic() < quiet_until_s:
                assert time.monotonic() < deadline_s
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    values.append(message.value())
        finally:
            started_s = time.monotonic()
            consumer.close()
            closing_s = time.monotonic() - started_s
        assert values == [b"%d" % record_number for record_number in range(20)]
        assert closing_s < 5.0
        assert errors == []
        assert logger.lines == []

    def test_it_finds_offsets_by_bound_and_by_time(self, client: Driver, name: str) -> None:
        client.create_topic(name, 1)
        start_ms = time.time_ns() // 1_000_000 - 100_000
        records = [
            Record(b"%d" % record_number, timestamp_ms=start_ms + record_number * 1_000)
            for record_number in range(10)
        ]
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            for record in records[:9]:
                producer.send(name, [record])
            producer.commit()
            producer.begin()
            producer.send(name, records[9:])
            for committed, end in ((False, 11), (True, 10)):
                consumer = client.consumer(committed=committed)
                try:
                    partition = TopicPartition(name, 0)
                    bounds = consumer.get_watermark_offsets(partition, timeout=PATIENCE_S)
                    queried_partition = TopicPartition(name, 0, start_ms + 4_500)
                    (answered_partition,) = consumer.offsets_for_times(
                        [queried_partition], timeout=PATIENCE_S
                    )
                finally:
                    consumer.close()
                assert bounds == (0, end)
                assert (answered_partition.error, answered_partition.offset) == (None, 5)
            producer.abort()

    def test_it_seeks_and_starts_at_the_end(self, client: Driver, name: str) -> None:
        client.create_topic(name, 1)
        consumer = client.consumer(committed=False)
        try:
            consumer.list_topics(name, timeout=PATIENCE_S)
            with client.producer() as producer:
                producer.send(name, [Record(b"%d" % record_number) for record_number in range(5)])
                consumer.assign([TopicPartition(name, 0, OFFSET_END)])
                assert _next(consumer) is None  # the end
                producer.send(name, [Record(b"new")])
            assert _next(consumer) == b"new"
            consumer.seek(TopicPartition(name, 0, 3))
            while (value := _next(consumer)) is None:
                pass
            assert value == b"3"
        finally:
            consumer.close()


class TestPlainProducers:
    driver = Driver

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_acks_without_idempotence(
        self, client: Driver, name: str, server: Server, acks: str
    ) -> None:
        client.create_topic(name, 1)
        producer = Producer({**client.settings, "acks": acks, "enable.idempotence": False})
        for record_number in range(10):
            producer.produce(name, value=b"%d" % record_number, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        producer.close()
        deadline_s = time.monotonic() + PATIENCE_S
        while len(records := client.read(name, committed=False)) < 10:  # acks=0 is not answered
            assert time.monotonic() < deadline_s
        assert [record.value for record in records] == [
            b"%d" % record_number for record_number in range(10)
        ]


def _next(consumer: Any) -> Any:
    """The next value, or None at the end of the partition."""
    message = consumer.poll(PATIENCE_S)
    assert message is not None, "neither a record nor the end"
    error = message.error()
    if error is not None:
        assert error.code() == KafkaError._PARTITION_EOF, error
        return None
    return message.value()


class TestShareConsumers:
    """librdkafka's share consumer: two members, acknowledgements, transactions."""

    driver = Driver

    def test_members_get_each_record_once(self, client: Driver, server: Server, name: str) -> None:
        client.create_topic(name, 3)
        _configure(server, name, "share.auto.offset.reset", "earliest")
        with client.producer() as producer:
            producer.send(name, [Record(b"%d" % record_number) for record_number in range(30)])
        members = [_share_member(server, name) for _ in range(2)]
        try:
            values: list[bytes] = []
            deadline_s = time.monotonic() + PATIENCE_S
            while len(values) < 30:
                assert time.monotonic() < deadline_s, values
                for member in members:
                    values += [_value(message) for message in member.poll(0.2)]
            for member in members:
                values += [_value(message) for message in member.poll(1.0)]
        finally:
            for member in members:
                member.close()
        assert sorted(values, key=int) == [b"%d" % record_number for record_number in range(30)]

    def test_what_is_released_comes_again_and_what_is_rejected_does_not(
        self, client: Driver, server: Server, name: str
    ) -> None:
        client.create_topic(name, 1)
        _configure(server, name, "share.auto.offset.reset", "earliest")
        with client.producer() as producer:
            producer.send(name, [Record(b"%d" % record_number) for record_number in range(3)])
        member = _share_member(server, name, **{"share.acknowledgement.mode": "explicit"})
        verdicts = {
            b"0": [AcknowledgeType.ACCEPT],
            b"1": [AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT],
            b"2": [AcknowledgeType.REJECT],
        }
        deliveries: list[bytes] = []
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while any(verdicts.values()):
                assert time.monotonic() < deadline_s, deliveries
                for message in member.poll(0.2):
                    deliveries.append(_value(message))
                    member.acknowledge(message, verdicts[_value(message)].pop(0))
                member.commit_sync(5.0)
        finally:
            member.close()
        assert deliveries == [b"0", b"1", b"2", b"1"]

    def test_a_committed_reader_waits_for_an_open_transaction_and_skips_an_aborted_one(
        self, client: Driver, server: Server, name: str
    ) -> None:
        client.create_topic(name, 1)
        _configure(server, name, "share.auto.offset.reset", "earliest")
        _configure(server, name, "share.isolation.level", "read_committed")
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            producer.send(name, [Record(b"aborted")])
            producer.abort()
            producer.begin()
            producer.send(name, [Record(b"committed")])
            member = _share_member(server, name)
            try:
                quiet_until_s = time.monotonic() + 3.0
                while time.monotonic() < quiet_until_s:
                    assert [_value(message) for message in member.poll(0.2)] == []
                producer.commit()
                values: list[bytes] = []
                deadline_s = time.monotonic() + PATIENCE_S
                while not values:
                    assert time.monotonic() < deadline_s
                    values = [_value(message) for message in member.poll(0.2)]
            finally:
                member.close()
        assert values == [b"committed"]


def _value(message: Message) -> bytes:
    return message.value() or b""


def _share_member(server: Server, group_id: str, **settings: Any) -> ShareConsumer:
    """A member of the share group ``group_id``, which reads the topic of that name."""
    member = ShareConsumer(
        {"bootstrap.servers": server.bootstrap, "group.id": group_id, **settings}
    )
    member.subscribe([group_id])
    return member


def _configure(server: Server, group_id: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    (outcome_future,) = admin.incremental_alter_configs([resource]).values()
    outcome_future.result(PATIENCE_S)


def test_a_cluster_made_anew_knows_no_producer_of_before() -> None:
    """docs/troubleshooting.md, INVALID_PRODUCER_ID_MAPPING: the library says that an abort mends
    it, and it does.
    """
    with TxnsimServer(brokers=1, arguments=("--topic", "orders")) as server:
        bootstrap = server.bootstrap
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shop"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("orders", b"before")
        producer.commit_transaction(PATIENCE_S)
    port = bootstrap.rpartition(":")[2]
    with TxnsimServer(brokers=1, arguments=("--topic", "orders", "--port", port)):
        producer.begin_transaction()
        producer.produce("orders", b"lost")
        with pytest.raises(KafkaException) as error_info:
            producer.commit_transaction(PATIENCE_S)
        error = error_info.value.args[0]
        assert error.code() == KafkaError.INVALID_PRODUCER_ID_MAPPING
        assert (error.txn_requires_abort(), error.fatal()) == (True, False)
        producer.abort_transaction(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("orders", b"after")
        producer.commit_transaction(PATIENCE_S)


def test_a_consumer_reads_from_the_follower_in_its_rack() -> None:
    """The leader names a follower, and the consumer then fetches from the follower (KIP-392)."""
    settings = {"replica.selector.class": RACK_SELECTOR}
    with SimulatedKafka(
        racks=("a", "b", "c"), topics={"near": 1}, settings=settings, trace="full"
    ) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "app"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("near", b"value")
        producer.commit_transaction()
        leader = kafka.leaders.of("near")
        follower = next(broker for broker in (1, 2, 3) if broker != leader)
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "g",
                "client.id": "near-reader",
                "client.rack": "abc"[follower - 1],
            }
        )
        consumer.assign([TopicPartition("near", 0, OFFSET_BEGINNING)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.value() == b"value"
        consumer.close()
        recording = Recording.from_lines("trace", kafka.trace.export().splitlines())
    asked_brokers = [
        recording.nodes[event.n]
        for event in recording.events
        if event.k == "msg.recv"
        and isinstance(event.d, dict)
        and (event.d.get("api"), event.d["peer"]) == ("Fetch", "client/near-reader")
    ]
    assert list(dict.fromkeys(asked_brokers)) == [f"broker/{leader}", f"broker/{follower}"]
