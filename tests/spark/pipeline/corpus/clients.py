"""Stock clients on the corpus: librdkafka and Kafka's own, whose batches differ from ours, and
members of groups. librdkafka also reads all records, independently of the code that wrote them.
"""

from __future__ import annotations

import time  # noqa: TID251 - waits for processes on the real machine
from collections.abc import Sequence
from functools import partial
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.clients.kafka_tools.runner import Tools
from tests.spark.pipeline.corpus.actors import CODECS, Notebook
from tests.spark.pipeline.corpus.raw_brokers import PATIENCE_S
from tests.spark.pipeline.corpus.truth import FinishedTransaction, Place, ReadRecord, Span

BATCH: Final = 20
"""Records in each transaction of librdkafka."""


def librdkafka_transactions(notebook: Notebook, bootstrap: str) -> None:
    """Write a committed and an aborted transaction per codec with librdkafka, each codec to a
    partition.
    """
    notebook.raw.create_topic("librdkafka", partitions=[(1, 2)] * len(CODECS))
    for codec_index, codec in enumerate(CODECS):
        transactional_id = f"librdkafka-{codec}"
        partition = Place("librdkafka", codec_index)
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "compression.type": codec,
                "linger.ms": 20,
            }
        )
        producer.init_transactions(PATIENCE_S)
        for committed in (True, False):
            producer.begin_transaction()
            offsets: list[int] = []
            note = partial(_note_offset, offsets)
            for record_number in range(BATCH):
                producer.produce(
                    partition.topic,
                    partition=partition.partition,
                    value=b"%d %s" % (record_number, b"rd" * 30),
                    key=b"%d" % (record_number % 3),
                    headers=[("n", b"%d" % record_number)],
                    on_delivery=note,
                )
            producer.flush(PATIENCE_S)
            (producer.commit_transaction if committed else producer.abort_transaction)(PATIENCE_S)
            _note_transaction(notebook, transactional_id, partition, offsets, committed=committed)


def _note_offset(into: list[int], _error: object, message: Message) -> None:
    into.append(_offset(message))


def _note_transaction(
    notebook: Notebook,
    transactional_id: str,
    partition: Place,
    offsets: list[int],
    *,
    committed: bool,
) -> None:
    assert len(offsets) == BATCH, offsets
    description = notebook.raw.until_state(transactional_id, "CompleteCommit", "CompleteAbort")
    span = Span(
        place=partition,
        first_offset=min(offsets),
        last_offset=max(offsets),
        marker_offset=notebook.raw.offset(partition, -1) - 1,
    )
    notebook.finished.append(
        FinishedTransaction(
            transactional_id=transactional_id,
            producer_id=description.producer_id,
            producer_epoch=description.producer_epoch,
            marker_epoch=description.producer_epoch,
            committed=committed,
            level=notebook.level,
            spans=(span,),
        )
    )


def java_batches(notebook: Notebook, tools: Tools) -> None:
    """Write records with Kafka's own producer in each codec."""
    for codec in CODECS:
        topic = f"java-{codec}"
        notebook.raw.create_topic(topic, partitions=[(2, 1)])
        lines = "".join(f"k{n}\t{n} {'java' * 20}\n" for n in range(30))
        output = tools.ask(
            "kafka-console-producer",
            *("--topic", topic, "--compression-codec", codec),
            *("--reader-property", "parse.key=true"),
            stdin=lines,
        )
        assert output.code == 0, output


def group_members(bootstrap: str) -> None:
    """Let a member of a group of either protocol join, read, commit and leave."""
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{protocol}-group",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["librdkafka"])
        try:
            for _ in range(2):
                message = _next_message(consumer)
                consumer.commit(message=message, asynchronous=False)
        finally:
            consumer.close()


def _next_message(consumer: Consumer) -> Message:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            return message
    raise AssertionError("nothing to read")


def read_all(bootstrap: str, partitions: Sequence[Place]) -> dict[Place, list[ReadRecord]]:
    """All records of these partitions by ``read_uncommitted``, and which of them ``read_committed``
    shows.
    """
    all_messages_by_partition = _read(bootstrap, partitions, "read_uncommitted")
    visible_by_partition = _read(bootstrap, partitions, "read_committed")
    offsets_of = {
        partition: {_offset(message) for message in messages}
        for partition, messages in visible_by_partition.items()
    }
    return {
        partition: [
            _as_read(message, committed=_offset(message) in offsets_of[partition])
            for message in messages
        ]
        for partition, messages in all_messages_by_partition.items()
    }


def _read(
    bootstrap: str, partitions: Sequence[Place], isolation: str
) -> dict[Place, list[Message]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        }
    )
    messages_of: dict[Place, list[Message]] = {partition: [] for partition in partitions}
    consumer.assign([TopicPartition(*partition, -2) for partition in partitions])
    ends = set[Place]()
    deadline_s = time.monotonic() + PATIENCE_S
    while len(ends) < len(partitions):
        assert time.monotonic() < deadline_s, f"no end of {set(partitions) - ends}"
        for message in consumer.consume(1_000, 0.2):
            partition = Place(message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None:
                messages_of[partition].append(message)
                ends.discard(partition)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ends.add(partition)
    consumer.close()
    return messages_of


def _as_read(message: Message, *, committed: bool) -> ReadRecord:
    return ReadRecord(
        offset=_offset(message),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=_headers(message),
        committed=committed,
    )


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    rows = message.headers() or []
    assert isinstance(rows, list)
    return tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in rows
    )
