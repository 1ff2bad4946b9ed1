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
    """Run all producers in threads, and wait for them."""
    driver = Driver(bootstrap)
    producer_count = int(producers)
    with ThreadPoolExecutor(producer_count) as executor:
        futures = [
            executor.submit(
                _produce, driver, topic, producer_number, int(partitions), int(transactions)
            )
            for producer_number in range(producer_count)
        ]
        for future in futures:
            future.result()


def _produce(
    driver: Driver, topic: str, producer_number: int, partition_count: int, transaction_count: int
) -> None:
    with driver.producer(f"{topic}-{producer_number}") as producer:
        producer.init()
        for transaction_number in range(transaction_count):
            partition = (producer_number + transaction_number) % partition_count
            producer.begin()
            producer.send(
                topic,
                [
                    Record(b"x" * 100, partition),
                    Record(b"x" * 100, (partition + 5) % partition_count),
                ],
            )
            if transaction_number % 10 == 9:
                producer.abort()
            else:
                producer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
