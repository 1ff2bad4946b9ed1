"""The reader of a soak: gets every committed record, and deletes what everybody has read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.clients.streams.control import ControlError, ControlPort, PartitionBounds
from tests.soak.ledger import SoakLedger
from tests.support.lifetime import ManagedResource
from txnsim.client.raw.connection import NoAnswer, RawConnection

BATCH: Final = 1_000
POLL_S: Final = 0.2
DELETE_EVERY_S: Final = 5.0
DELETE_RECORDS: Final = 21
DELETE_RECORDS_VERSION: Final = 2

_LASTING: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
"""Errors of a reader whose position is outside the log: it has lost records."""


class SoakReader(ManagedResource):
    """Reads topics from their beginning with read_committed, and counts the records in ledgers.

    Args:
        bootstrap: The cluster; brokers 1, 2 and so on.
        control: Its control port, which tells who leads.
        ledgers: By topic.
        partitions: Of each of them.
        copied: Where a chain is that reads some of them too: nothing is deleted before it has it.
    """

    def __init__(
        self,
        bootstrap: str,
        control: ControlPort,
        ledgers: Mapping[str, SoakLedger],
        *,
        partitions: int,
        copied_offsets: Mapping[tuple[str, int], int],
    ) -> None:
        self._ledgers = ledgers
        self._copied = copied_offsets
        self._control = control
        self._addresses = bootstrap.split(",")
        self._partitions = [
            (topic, partition_index) for topic in ledgers for partition_index in range(partitions)
        ]
        self._positions = dict.fromkeys(self._partitions, 0)
        """Partition -> the offset after the last record read."""
        self._read_up_to = dict(self._positions)
        """The same, or the offset after the following markers once the consumer has reached
        the end.
        """
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "soak-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 16_384,
                "log_level": 2,
            }
        )
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._noting_failures(work), daemon=True)
            for work in (self._read, self._delete)
        ]
        self.failures: list[str] = []
        self.deletes_refused = 0

    def __enter__(self) -> SoakReader:
        self._consumer.assign(
            [
                TopicPartition(topic, partition_index, 0)
                for topic, partition_index in self._partitions
            ]
        )
        for thread in self._threads:
            thread.start()
        return self

    def _on_exit(self, exc: BaseException | None) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()

    def drain(
        self,
        within_s: float,
        *,
        read_ends: Callable[[], list[PartitionBounds]],
        is_through: Callable[[], bool],
    ) -> list[str]:
        """Wait until every partition is read to its end. Returns what is missing if that takes too
        long.

        Args:
            within_s: How long it may take.
            ends: Asks for the ends of all partitions.
            is_through: Whether whoever else reads is through.
        """
        deadline_s = time.monotonic() + within_s
        missing: list[str] = []
        while time.monotonic() < deadline_s:
            missing = self._missing(read_ends())
            if not missing and is_through():
                return []
            time.sleep(0.5)
        return [*missing[:5], *([] if is_through() else ["the chain has not copied everything"])]

    def _missing(self, ends: list[PartitionBounds]) -> list[str]:
        gaps = []
        for end in ends:
            key = (end.topic, end.partition)
            if key not in self._read_up_to:
                continue
            place_name = f"{end.topic}-{end.partition}"
            if end.last_stable < end.high_watermark:
                gaps.append(f"{place_name}: open since {end.last_stable} of {end.high_watermark}")
            elif self._read_up_to[key] < end.high_watermark:
                gaps.append(
                    f"{place_name}: read up to {self._read_up_to[key]} of {end.high_watermark}"
                )
        return gaps

    def _noting_failures(self, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a thread's end is told by who started it
                self.failures.append(f"reader: {error!r}")

        return run

    def _read(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.consume(BATCH, POLL_S):
                error = message.error()
                topic, partition = message.topic(), message.partition()
                offset, record_value = message.offset(), message.value()
                if error is None:
                    # Each record has all of them; only errors may not.
                    assert topic is not None
                    assert partition is not None
                    assert offset is not None
                    assert record_value is not None
                    self._ledgers[topic].read(record_value)
                    key = (topic, partition)
                    self._positions[key] = self._read_up_to[key] = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    assert topic is not None
                    assert partition is not None
                    assert offset is not None
                    self._read_up_to[topic, partition] = offset
                elif error.code() in _LASTING:
                    self.failures.append(f"reader: {topic}: {error.str()}")
                    return

    def _delete(self) -> None:
        """Delete the records that were read, by raw requests: librdkafka's own admin client has
        crashed here.
        """
        while not self._stopped.wait(DELETE_EVERY_S):
            by_leader: dict[int, dict[str, list[dict[str, int]]]] = {}
            try:
                for led_partition in self._control.partitions():
                    key = (led_partition.topic, led_partition.partition)
                    delete_up_to = min(self._positions.get(key, 0), self._copied.get(key, 1 << 62))
                    if delete_up_to > 0 and led_partition.leader > 0:
                        topics = by_leader.setdefault(led_partition.leader, {})
                        partition_deletion = {
                            "partition_index": led_partition.partition,
                            "offset": delete_up_to,
                        }
                        topics.setdefault(led_partition.topic, []).append(partition_deletion)
                for leader, topics in by_leader.items():
                    self._delete_at(leader, topics)
            except (OSError, ControlError):
                self.deletes_refused += 1  # a leader that has died: the next time

    def _delete_at(self, leader: int, topics: Mapping[str, list[dict[str, int]]]) -> None:
        topic_values = [
            {"name": topic_name, "partitions": partitions}
            for topic_name, partitions in topics.items()
        ]
        with RawConnection(self._addresses[leader - 1], client_id="soak-janitor") as connection:
            answer = connection.ask(
                DELETE_RECORDS, DELETE_RECORDS_VERSION, topics=topic_values, timeout=10_000
            )
        if isinstance(answer, NoAnswer):
            self.deletes_refused += 1
