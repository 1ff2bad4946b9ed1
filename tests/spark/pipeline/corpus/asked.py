"""Answers of the corpus' brokers shortly before they stop: partitions, records, entries of
coordinators, producers, positions, and Kafka's own ``find-hanging``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.clients.kafka_tools.runner import Tools
from tests.clients.kafka_tools.transactions_command import FIND_HANGING_COLUMNS
from tests.spark.pipeline.corpus.clients import read_all
from tests.spark.pipeline.corpus.raw_brokers import GROUP, RawBrokers, as_ms
from tests.spark.pipeline.corpus.stories import active_producers
from tests.spark.pipeline.corpus.truth import (
    ActiveProducer,
    CommittedOffset,
    HangingRow,
    ListedTransaction,
    PartitionTruth,
    Place,
    ReadRecord,
    TopicTruth,
)
from txnsim.errors import ErrorCode

INTERNAL: Final = "__"
SUSPECT_MINUTES: Final = 1


class Layout:
    """Topics, their ids, leaders and replicas, by a Metadata answer."""

    def __init__(self, raw: RawBrokers) -> None:
        self.ids: dict[str, str] = {}
        self.leaders: dict[Place, int] = {}
        self.replicas: dict[Place, tuple[int, ...]] = {}
        for topic in raw.metadata().topics:
            self.ids[topic.name] = str(topic.topic_id)
            for row in topic.partitions:
                partition = Place(topic.name, row.partition_index)
                self.leaders[partition] = row.leader_id
                self.replicas[partition] = tuple(row.replica_nodes)

    @property
    def places(self) -> list[Place]:
        """All partitions of topics that are not internal."""
        return sorted(
            partition for partition in self.leaders if not partition.topic.startswith(INTERNAL)
        )

    def alone_on(self, broker: int) -> list[Place]:
        return [partition for partition in self.places if self.replicas[partition] == (broker,)]


def read_partitions(
    raw: RawBrokers, layout: Layout, bootstrap: str, partitions: Sequence[Place]
) -> dict[Place, PartitionTruth]:
    """Partitions with all their records; no request to them may be under way."""
    read_by_partition: dict[Place, list[ReadRecord]] = read_all(bootstrap, partitions)
    return {
        partition: PartitionTruth(
            place=partition,
            leader=layout.leaders[partition],
            replicas=layout.replicas[partition],
            start=raw.offset(partition, -2),
            end=raw.offset(partition, -1),
            last_stable=raw.offset(partition, -1, committed=True),
            records=tuple(read_by_partition[partition]),
        )
        for partition in partitions
    }


def topic_truths(
    layout: Layout, partition_by_partition: Mapping[Place, PartitionTruth]
) -> tuple[TopicTruth, ...]:
    return tuple(
        TopicTruth(
            name=name,
            topic_id=topic_id,
            partitions=tuple(
                truth
                for partition, truth in sorted(partition_by_partition.items())
                if partition.topic == name
            ),
        )
        for name, topic_id in sorted(layout.ids.items())
    )


def listed_transactions(raw: RawBrokers) -> tuple[ListedTransaction, ...]:
    """All transactional ids, by ListTransactions and DescribeTransactions of all coordinators."""
    transactional_ids: set[str] = set()
    for broker in raw.brokers:
        answer = raw.ask("ListTransactions", 1, broker=broker, duration_filter=-1)
        assert answer.error_code == ErrorCode.none, answer
        transactional_ids.update(row.transactional_id for row in answer.transaction_states)
    return tuple(
        _listed_transaction(raw.describe_transaction(transactional_id))
        for transactional_id in sorted(transactional_ids)
    )


def _listed_transaction(row: Any) -> ListedTransaction:
    return ListedTransaction(
        transactional_id=row.transactional_id,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        state=row.transaction_state,
        timeout_ms=round(row.transaction_timeout.total_seconds() * 1_000),
        start_time_ms=as_ms(row.transaction_start_time),
        partitions=tuple(
            sorted(
                Place(topic.topic, partition_index)
                for topic in row.topics
                for partition_index in topic.partitions
            )
        ),
    )


def producers(raw: RawBrokers, partitions: Sequence[Place]) -> list[ActiveProducer]:
    """Active producers, by DescribeProducers of the leaders."""
    return [
        ActiveProducer(
            place=partition,
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            last_sequence=row.last_sequence,
            last_timestamp_ms=row.last_timestamp,
            coordinator_epoch=row.coordinator_epoch,
            start_offset=row.current_txn_start_offset,
        )
        for partition in partitions
        for row in active_producers(raw, partition)
    ]


def committed_offsets(
    raw: RawBrokers, group: str, partitions: Sequence[Place]
) -> list[CommittedOffset]:
    """A group's positions, by an OffsetFetch that does not wait for transactions."""
    topics = [
        {"name": partition_place.topic, "partition_indexes": [partition_place.partition]}
        for partition_place in partitions
    ]
    answer = raw.ask_coordinator(
        "OffsetFetch", 8, group, GROUP, groups=[{"group_id": group, "topics": topics}]
    )
    return [
        CommittedOffset(
            group=group,
            place=Place(topic.name, row.partition_index),
            offset=row.committed_offset,
            metadata=row.metadata,
        )
        for topic in answer.groups[0].topics
        for row in topic.partitions
        if row.committed_offset >= 0
    ]


def find_hanging(tools: Tools, brokers: Sequence[int]) -> tuple[HangingRow, ...]:
    """Rows that ``kafka-transactions find-hanging`` prints for each broker."""
    rows: set[tuple[str, ...]] = set()
    for broker in brokers:
        output = tools.ask(
            "kafka-transactions",
            *("find-hanging", "--broker-id", str(broker)),
            *("--max-transaction-timeout", str(SUSPECT_MINUTES)),
        )
        head_text, *lines = output.stdout.splitlines()
        assert output.code == 0, output
        assert tuple(head_text.split()) == FIND_HANGING_COLUMNS, output
        rows.update(tuple(line.split()) for line in lines)
    return tuple(
        HangingRow(
            place=Place(row[0], int(row[1])),
            producer_id=int(row[2]),
            producer_epoch=int(row[3]),
            coordinator_epoch=int(row[4]),
            start_offset=int(row[5]),
            last_timestamp_ms=int(row[6]),
        )
        for row in sorted(rows)
    )
