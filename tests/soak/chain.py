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

from tests.soak.librdkafka_producers import aborted, commit, initialised, settings
from tests.soak.producing import Outcome, Watchdog, stop_at_end_of_input

POLL_S = 0.2
BATCH = 200
IDLE_S = 60.0
"""Without a record for so long the consumer is made anew. Where a broker died with its OffsetFetch,
librdkafka stays in the group and fetches nothing any more (confluent-kafka-go #623).
"""


def main(bootstrap: str, group: str, source: str, sink: str, number: str) -> None:
    """Until standard input ends."""
    stopped, watchdog = stop_at_end_of_input(), Watchdog()
    while not stopped.is_set():
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
            goes_on, last_s = initialised(producer), time.monotonic()
            while goes_on and not stopped.is_set() and time.monotonic() - last_s < IDLE_S:
                watchdog.step()
                records = [each for each in consumer.consume(BATCH, POLL_S) if each.error() is None]
                if records:
                    goes_on, last_s = _copied(producer, consumer, records, sink), time.monotonic()
        finally:
            producer.purge()
            consumer.close()


def _copied(producer: Any, consumer: Any, records: list[Any], sink: str) -> bool:
    """Copy them in one transaction; whether to go on from here, else from the group's positions."""
    lost: list[Any] = []
    try:
        producer.begin_transaction()
        for record in records:
            producer.produce(
                sink,
                record.value(),
                partition=record.partition(),
                on_delivery=lambda error, _: lost.append(error) if error is not None else None,
            )
        ends = {(each.topic(), each.partition()): each.offset() + 1 for each in records}
        positions = [TopicPartition(*at, offset) for at, offset in ends.items()]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30.0)
        producer.flush()
    except KafkaException:
        aborted(producer)
        return False
    if lost:
        aborted(producer)
        return False
    outcome, goes_on = commit(producer)
    if outcome is Outcome.COMMITTED:
        told = " ".join(f"{partition}:{offset}" for (_, partition), offset in ends.items())
        sys.stdout.write(f"{len(records)} {told}\n")
        sys.stdout.flush()
    return goes_on and outcome is Outcome.COMMITTED


if __name__ == "__main__":
    main(*sys.argv[1:])
