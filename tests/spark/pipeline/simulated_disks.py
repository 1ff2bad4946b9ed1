"""Log directories written by a running simulator (``txnsim logs write``), after librdkafka has
produced every kind of transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.slow_machine import SLOW_S
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BROKERS: Final = 2
VALUE_BYTES: Final = 700
"""Size of values: large enough that indexes get entries."""


def write_simulated_disks(directory: Path) -> tuple[Path, ...]:
    """Write the log directories of two brokers: transactions of all codecs that commit, abort and
    stay open, in both versions of the protocol; plain records; a group's offsets in transactions.
    """
    topics = ("--topic", f"codecs:{len(CODECS)}", "--topic", "plain:2")
    with TxnsimServer(brokers=BROKERS, arguments=("--http", "0", *topics)) as server:
        assert server.http is not None
        open_producers = list(_play_transactions(server.bootstrap))
        assert main(["logs", "write", str(directory), "--http", server.http]) == 0
        del open_producers  # a producer that ends would abort
    return tuple(directory / f"broker-{broker}" for broker in range(1, BROKERS + 1))


def _play_transactions(bootstrap: str) -> Iterator[Producer]:
    _send_plain_records(bootstrap)
    for partition, codec in enumerate(CODECS):
        producer = _producer(bootstrap, f"codec-{codec}", codec)
        for number in range(6):
            producer.begin_transaction()
            _send(producer, partition, number)
            if number % 2:
                _send_offsets(bootstrap, producer, number)
            _flush(producer)
            if number == 5:
                break
            _end_transaction(producer, committed=number % 3 != 1)
        yield producer


def _send_plain_records(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for record_number in range(60):
        producer.produce(
            "plain",
            partition=record_number % 2,
            key=None if record_number % 3 else b"k%d" % record_number,
            value=None if record_number % 5 == 1 else b"\x00\xffv\n" * (record_number % 50 * 20),
            headers=[("a", b"1"), ("b", None)] if record_number % 2 else [],
        )
        _flush(producer)


def _producer(bootstrap: str, transactional_id: str, codec: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "compression.type": codec,
            "linger.ms": 5,
        }
    )
    producer.init_transactions(SLOW_S)
    return producer


def _send(producer: Producer, partition: int, number: int) -> None:
    for index in range(8):
        record_value = (b"%d " % number) * (VALUE_BYTES // 2) if index else b""
        producer.produce("codecs", partition=partition, key=b"k%d" % index, value=record_value)


def _send_offsets(bootstrap: str, producer: Producer, number: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "group"})
    try:
        producer.send_offsets_to_transaction(
            [TopicPartition("plain", 0, number)],
            consumer.consumer_group_metadata(),
            SLOW_S,
        )
    finally:
        consumer.close()


def _flush(producer: Producer) -> None:
    unsent_count = producer.flush(SLOW_S)
    if unsent_count:
        raise KafkaException(f"{unsent_count} records were not acknowledged")


def _end_transaction(producer: Producer, *, committed: bool) -> None:
    if committed:
        producer.commit_transaction(SLOW_S)
    else:
        producer.abort_transaction(SLOW_S)
