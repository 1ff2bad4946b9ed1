"""Consume, transform, produce with confluent-kafka: ``python -m tests.soak.chain BOOTSTRAP GROUP
INPUT OUTPUT NUMBER``.

Each record of INPUT that is committed is copied to OUTPUT, to the same partition, its position in
the same transaction. A line on standard output for each transaction: how many records were copied,
and up to where in each partition.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.soak.librdkafka_producers import abort, commit, initialise, settings
from tests.soak.producing import TransactionOutcome, Watchdog, stop_at_end_of_input

POLL_S = 0.2
BATCH = 200
IDLE_S = 60.0
"""After this time without a record the consumer is replaced. If a broker died during its
OffsetFetch, librdkafka stays in the group and fetches nothing any more (confluent-kafka-go #623).
"""


def main(bootstrap: str, group: str, source: str, sink: str, number: str) -> None:
    """Copy records from source to sink in transactions until standard input ends."""
    stop_event, watchdog = stop_at_end_of_input(), Watchdog()
    while not stop_event.is_set():
        watchdog.step()
        producer = Producer(settings(bootstrap, f"soak-chain-{number}"))
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 10_000,
                "fetch.wait.max.ms": 50,
                "log_level": 2,
            }
        )
        try:
            consumer.subscribe([source])
            goes_on, last_s = initialise(producer), time.monotonic()
            while goes_on and not stop_event.is_set() and time.monotonic() - last_s < IDLE_S:
                watchdog.step()
                records = [
                    message
                    for message in consumer.consume(BATCH, POLL_S)
                    if message.error() is None
                ]
                if records:
                    goes_on, last_s = (
                        _copy_records(producer, consumer, records, sink),
                        time.monotonic(),
                    )
        finally:
            producer.purge()
            consumer.close()


def _copy_records(producer: Any, consumer: Any, records: list[Any], sink: str) -> bool:
    """Copy records in one transaction. Returns whether the consumer goes on from its position; if
    not, it goes back to the group's committed offsets.
    """
    delivery_errors: list[Any] = []
    try:
        producer.begin_transaction()
        for record in records:
            producer.produce(
                sink,
                record.value(),
                partition=record.partition(),
                on_delivery=lambda error, _: (
                    delivery_errors.append(error) if error is not None else None
                ),
            )
        ends = {(record.topic(), record.partition()): record.offset() + 1 for record in records}
        topic_partitions = [
            TopicPartition(*partition_key, offset) for partition_key, offset in ends.items()
        ]
        producer.send_offsets_to_transaction(
            topic_partitions, consumer.consumer_group_metadata(), 30.0
        )
        producer.flush()
    except KafkaException:
        abort(producer)
        return False
    if delivery_errors:
        abort(producer)
        return False
    outcome, goes_on = commit(producer)
    if outcome is TransactionOutcome.COMMITTED:
        positions_text = " ".join(
            f"{partition}:{offset}" for (_, partition), offset in ends.items()
        )
        sys.stdout.write(f"{len(records)} {positions_text}\n")
        sys.stdout.flush()
    return goes_on and outcome is TransactionOutcome.COMMITTED


if __name__ == "__main__":
    main(*sys.argv[1:])
