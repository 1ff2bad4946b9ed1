"""The cluster as a Metadata answer shows it: brokers, topics, leaders. Values and functions that
build them, without I/O.

Kafka's counterpart is ``MetadataSnapshot`` (``MetadataCache`` in older releases), whose rule
applies here too: a partition's leader epoch never goes back, because a broker that lags may answer
later than one that does not.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from txnsim.errors import ErrorCode
from txnsim.text import host_and_port
from txnsim.types import TopicPartition


class BrokerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A broker as clients reach it."""

    broker_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.broker_id} ({host_and_port(self.host, self.port)})"


class PartitionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """One partition; ``leader_id`` is -1 where there is none."""

    partition: int
    leader_id: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    error: int = 0


class TopicMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, or its error."""

    name: str
    topic_id: UUID | None = None
    internal: bool = False
    error: int = 0
    partitions: tuple[PartitionMetadata, ...] = ()

    @property
    def is_led(self) -> bool:
        """Whether the topic exists and each partition has a leader."""
        leaders = [partition.leader_id for partition in self.partitions]
        return not self.error and bool(leaders) and min(leaders) >= 0

    def partition(self, index: int) -> PartitionMetadata | None:
        """None if the topic has no partition of that index."""
        for partition in self.partitions:
            if partition.partition == index:
                return partition
        return None


class ClusterMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The known state of the cluster, with every topic that was ever requested."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: tuple[BrokerAddress, ...] = ()
    topics: tuple[TopicMetadata, ...] = ()
    error: int = 0
    """Error of the whole answer, from version 13 on."""

    def broker(self, broker_id: int) -> BrokerAddress | None:
        for broker in self.brokers:
            if broker.broker_id == broker_id:
                return broker
        return None

    def topic(self, name: str) -> TopicMetadata | None:
        for topic in self.topics:
            if topic.name == name:
                return topic
        return None

    def leader(self, partition: TopicPartition) -> PartitionMetadata | None:
        """The partition, if its leader is known."""
        topic = self.topic(partition.topic)
        if topic is None or topic.error:
            return None
        leader = topic.partition(partition.partition)
        return leader if leader is not None and leader.leader_id >= 0 else None


def parse_metadata(message: Any) -> ClusterMetadata:
    """Read a Metadata answer of any version from 1 on."""
    return ClusterMetadata(
        cluster_id=getattr(message, "cluster_id", None),
        controller_id=message.controller_id,
        brokers=tuple(
            BrokerAddress(broker_id=broker_row.node_id, host=broker_row.host, port=broker_row.port)
            for broker_row in message.brokers
        ),
        topics=tuple(_parse_topic(topic_row) for topic_row in message.topics),
        error=int(getattr(message, "error_code", 0)),
    )


def _parse_topic(topic_row: Any) -> TopicMetadata:
    return TopicMetadata(
        name=topic_row.name or "",
        topic_id=getattr(topic_row, "topic_id", None),
        internal=topic_row.is_internal,
        error=int(topic_row.error_code),
        partitions=tuple(
            PartitionMetadata(
                partition=partition_row.partition_index,
                leader_id=partition_row.leader_id,
                leader_epoch=getattr(partition_row, "leader_epoch", -1),
                replicas=tuple(partition_row.replica_nodes),
                isr=tuple(partition_row.isr_nodes),
                error=int(partition_row.error_code),
            )
            for partition_row in topic_row.partitions
        ),
    )


def merge(earlier_metadata: ClusterMetadata, newer_view: ClusterMetadata) -> ClusterMetadata:
    """The metadata after another answer: its brokers and topics, plus the known topics that were
    not requested.

    A partition of the same topic id whose leader epoch went back keeps its known state.
    """
    topics_by_name = {topic.name: topic for topic in earlier_metadata.topics}
    for topic in newer_view.topics:
        topic_before = topics_by_name.get(topic.name)
        topics_by_name[topic.name] = (
            topic if topic_before is None else _merge_topic(topic_before, topic)
        )
    return ClusterMetadata(
        cluster_id=newer_view.cluster_id,
        controller_id=newer_view.controller_id,
        brokers=newer_view.brokers,
        topics=tuple(topics_by_name.values()),
    )


def _merge_topic(topic_before: TopicMetadata, topic_after: TopicMetadata) -> TopicMetadata:
    if topic_before.topic_id != topic_after.topic_id or topic_after.error:
        return topic_after
    partitions_before = {partition.partition: partition for partition in topic_before.partitions}
    return TopicMetadata(
        name=topic_after.name,
        topic_id=topic_after.topic_id,
        internal=topic_after.internal,
        partitions=tuple(
            _newer(partitions_before.get(partition.partition), partition)
            for partition in topic_after.partitions
        ),
    )


def _newer(
    partition_before: PartitionMetadata | None, partition_after: PartitionMetadata
) -> PartitionMetadata:
    if (
        partition_before is None
        or partition_after.leader_epoch < 0
        or partition_after.leader_epoch >= partition_before.leader_epoch
    ):
        return partition_after
    return partition_before


def parse_coordinators(message: Any, keys: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Read a FindCoordinator answer of any version.

    Returns:
        Key -> (error, broker id), for each of ``keys``: one that the answer lacks, or has twice,
        has UNKNOWN_SERVER_ERROR.
    """
    if message.__version__ >= 4:
        no_coordinator = int(ErrorCode.unknown_server_error), -1
        rows: dict[str, tuple[int, int]] = {}
        for coordinator_row in message.coordinators:
            key = coordinator_row.key
            coordinator = int(coordinator_row.error_code), coordinator_row.node_id
            rows[key] = no_coordinator if key in rows else coordinator
        return {key: rows.get(key, no_coordinator) for key in keys}
    return {keys[0]: (int(message.error_code), message.node_id)}


RETRIED_TOPIC_ERRORS = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.listener_not_found,
        ErrorCode.not_leader_or_follower,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_id,
    }
)
"""Errors of a topic or partition in a Metadata answer that may pass (PartitionLeaderStrategy,
Metadata)."""
