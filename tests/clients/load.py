"""Fifty producers beside each other, each with its own transactional id, through librdkafka.

``python -m tests.clients.load BOOTSTRAP TOPIC PARTITIONS PRODUCERS TRANSACTIONS`` runs so many
transactions per producer, every tenth is aborted, and fails with what went wrong.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from tests.clients.drivers.base import Record
from tests.clients.drivers.confluent_kafka import Driver


def main(bootstrap: str, topic: str, partitions: str, producers: str, transactions: str) -> None:
    """Run them all and wait."""
    driver = Driver(bootstrap)
    count = int(producers)
    with ThreadPoolExecutor(count) as pool:
        runs = [
            pool.submit(_produce, driver, topic, number, int(partitions), int(transactions))
            for number in range(count)
        ]
        for run in runs:
            run.result()


def _produce(driver: Driver, topic: str, number: int, partitions: int, transactions: int) -> None:
    with driver.producer(f"{topic}-{number}") as producer:
        producer.init()
        for turn in range(transactions):
            partition = (number + turn) % partitions
            producer.begin()
            producer.send(
                topic,
                [Record(b"x" * 100, partition), Record(b"x" * 100, (partition + 5) % partitions)],
            )
            if turn % 10 == 9:
                producer.abort()
            else:
                producer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
