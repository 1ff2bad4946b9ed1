"""What feeds the application and what reads its output, entering both into the ledger.

Neither is a Java client, so that the application does not judge itself.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.streams.ledger import Ledger
from tests.support.lifetime import ManagedResource

FED_WORDS: Final = tuple(f"word-{number:02}" for number in range(12))
_PATIENCE_S: Final = 30.0
_POLL_S: Final = 0.05
_FEED_EVERY_S: Final = 0.06
_CLIENT: Final = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "log_level": 0,  # brokers that die are no news here
}


class Feeder:
    """Writes inputs: random words, spread over all partitions of the input topic."""

    def __init__(
        self,
        bootstrap: str,
        *,
        topic: str,
        partitions: int,
        ledger: Ledger,
        random_source: random.Random,
    ) -> None:
        self._producer = Producer(
            {
                **_CLIENT,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
            }
        )
        self._topic = topic
        self._partitions = partitions
        self._ledger = ledger
        self._chance = random_source
        self._refused: list[KafkaError] = []

    def feed(self, round_count: int) -> None:
        """So many words for each partition; done when they are acknowledged.

        Raises:
            KafkaException: The cluster did not take them.
        """
        for _ in range(round_count):
            for partition in range(self._partitions):
                word = self._chance.choice(FED_WORDS)
                self._ledger.feed(word)
                self._producer.produce(
                    self._topic, word, partition=partition, on_delivery=self._note_delivery
                )
        unacknowledged = self._producer.flush(_PATIENCE_S)
        if unacknowledged or self._refused:
            failure = (
                self._refused[0] if self._refused else f"{unacknowledged} without acknowledgement"
            )
            raise KafkaException(failure)

    def feeding(self) -> FeedThread:
        """Go on feeding while a block runs."""
        return FeedThread(self)

    def _note_delivery(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._refused.append(error)


class FeedThread(ManagedResource):
    """Feeds from a thread of its own while the block runs, so that every transaction has both:
    words that are passed on and counts that are written.
    """

    def __init__(self, feeder: Feeder) -> None:
        self._feeder = feeder
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feeder")

    def __enter__(self) -> FeedThread:
        self._thread.start()
        return self

    def _on_exit(self, error: BaseException | None) -> None:
        self._is_over.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._is_over.wait(_FEED_EVERY_S):
                self._feeder.feed(1)
        except BaseException as failure:  # noqa: BLE001 - told at the end of the block
            self._failure = failure


class Reader:
    """Follows the committed records of the output topic and enters them into the ledger."""

    def __init__(self, bootstrap: str, *, topic: str, partitions: int, ledger: Ledger) -> None:
        self._consumer = Consumer(
            {
                **_CLIENT,
                "bootstrap.servers": bootstrap,
                "group.id": "reader-without-positions",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._consumer.assign(
            [
                TopicPartition(topic, partition_index, OFFSET_BEGINNING)
                for partition_index in range(partitions)
            ]
        )
        self._ledger = ledger
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="reader")
        self._thread.start()

    def await_all(self, patience_s: float) -> bool:
        """Wait until every input has its output; False where some have none in time.

        Raises:
            BaseException: What ended the reader.
        """
        deadline_s = time.monotonic() + patience_s
        while self._ledger.missing():
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)
        return True

    def close(self) -> None:
        """Stop reading."""
        self._is_over.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                for message in self._consumer.consume(100, timeout=_POLL_S):
                    self._enter_output(message)
        except BaseException as failure:  # noqa: BLE001 - told to whoever waits for this thread
            self._failure = failure

    def _enter_output(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            if not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise KafkaException(error)
            return
        position = f"{message.topic()}-{message.partition()} at {message.offset()}"
        self._ledger.see(message.key().decode(), int(message.value()), position)


def create_topics(bootstrap: str, topics: tuple[str, ...], partitions: int) -> None:
    """Topics whose leaders are spread over all brokers; replicas as is usual there."""
    admin = AdminClient({**_CLIENT, "bootstrap.servers": bootstrap})
    new_topics = [NewTopic(topic_name, num_partitions=partitions) for topic_name in topics]
    for creation_future in admin.create_topics(new_topics).values():
        creation_future.result(_PATIENCE_S)
