"""Producers of confluent-kafka: ``python -m tests.soak.librdkafka_producers`` and ``Work``'s
arguments.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.soak.producing import (
    ABORT_EVERY,
    TIMEOUT_MS,
    ProducerWork,
    TransactionOutcome,
    stop_at_end_of_input,
    tell,
)


def main(arguments: list[str]) -> None:
    """Run transactions of many producers until standard input ends."""
    work, stop_event = ProducerWork.from_arguments(arguments), stop_at_end_of_input()
    threads = [
        threading.Thread(target=_produce, args=(work, f"librdkafka-{producer_index}", stop_event))
        for producer_index in range(work.producers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def settings(bootstrap: str, transactional_id: str) -> dict[str, Any]:
    """Return the settings of a transactional producer."""
    return {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TIMEOUT_MS,
        "linger.ms": 0,
        "retry.backoff.ms": 20,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 2,
    }


def _produce(work: ProducerWork, name: str, stop_event: threading.Event) -> None:
    number = 0
    while not stop_event.is_set():
        producer = Producer(settings(work.bootstrap, f"soak-{name}"))
        goes_on = initialise(producer)
        while goes_on and not stop_event.is_set():
            began_s = time.monotonic()
            outcome, goes_on = _transaction(producer, work, name, number)
            tell(name, number, outcome)
            number += 1
            stop_event.wait(max(0.0, work.pause_s - (time.monotonic() - began_s)))
        producer.purge()


def initialise(producer: Any) -> bool:
    """Initialise the producer. Returns whether the coordinator has answered."""
    try:
        producer.init_transactions(30.0)
    except KafkaException:
        return False
    return True


def _transaction(
    producer: Any, work: ProducerWork, name: str, number: int
) -> tuple[TransactionOutcome, bool]:
    """Play one transaction. Returns its outcome, and whether the producer can go on."""
    delivery_errors: list[Any] = []
    try:
        producer.begin_transaction()
        for partition, value in work.records(name, number):
            producer.produce(
                work.topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: (
                    delivery_errors.append(error) if error is not None else None
                ),
            )
        producer.flush()
    except KafkaException:
        return TransactionOutcome.ABORTED, abort(producer)
    if delivery_errors or number % ABORT_EVERY == ABORT_EVERY - 1:
        return TransactionOutcome.ABORTED, abort(producer)
    return commit(producer)


def commit(producer: Any) -> tuple[TransactionOutcome, bool]:
    """Commit. Returns the outcome, and whether the producer can go on."""
    for _ in range(5):
        try:
            producer.commit_transaction(30.0)
        except KafkaException as error:
            reason = error.args[0]
            if reason.retriable():
                continue
            return TransactionOutcome.UNKNOWN, reason.txn_requires_abort() and abort(producer)
        return TransactionOutcome.COMMITTED, True
    return TransactionOutcome.UNKNOWN, False


def abort(producer: Any) -> bool:
    """Abort. Returns whether the producer can go on."""
    for _ in range(5):
        try:
            producer.abort_transaction(30.0)
        except KafkaException as error:
            if error.args[0].retriable():
                continue
            return False
        return True
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
