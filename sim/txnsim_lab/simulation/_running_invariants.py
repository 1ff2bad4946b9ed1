"""Invariants of a healthy cluster at every moment, checked from inside during the run.

At rest many violations are no longer visible: what a broker answered too early is replicated by
then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from txnsim.broker.broker import Broker
from txnsim.group.shard import GroupShard
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.image import NO_LEADER, ClusterImage
from txnsim.server.cluster import SimCluster
from txnsim.types import CONSUMER_OFFSETS_TOPIC, BrokerId, TopicPartition, partition_for
from txnsim.wire.batch import BatchHeader, iter_batches
from txnsim_lab.check.observations import PositionsRead
from txnsim_lab.simulation._broker_promises import Broken

UNREPLICATED: Final = "high-watermark-too-high"
UNSTABLE: Final = "last-stable-offset-too-high"
UNSOUND_ISR: Final = "unsound-isr"
EARLY_POSITION: Final = "position-before-replication"


class Moments:
    """Checks a cluster repeatedly, and reports each kind of violation once."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._image: ClusterImage | None = None
        self._replicated_partitions: list[tuple[TopicPartition, tuple[int, ...]]] = []
        """Partitions with several replicas, and the ids of those that are in sync."""
        self._reported_kinds: set[str] = set()

    def look(self) -> list[Broken]:
        """The violations now that were not reported before."""
        brokers, image = self._cluster.brokers, self._cluster.metadata.image
        unsound: Iterator[Broken] = iter(())
        if image is not self._image:
            self._image = image
            self._replicated_partitions = [*_replicated_partitions(image)]
            unsound = _isr(image)
        looks = (unsound, self._watermarks(brokers), _stable_offsets(brokers, image))
        return [violation for violation in chain.from_iterable(looks) if self._is_new(violation)]

    def early_positions(self, read: PositionsRead) -> list[Broken]:
        """Positions that a broker has answered although a failover could undo them."""
        index = partition_for(read.group, self._groups_partitions())
        partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, index)
        logs = [broker.replicas.led.get(partition) for broker in self._cluster.brokers.values()]
        late = [log for log in logs if log is not None and log.high_watermark < log.log_end_offset]
        violations = chain.from_iterable(_early(read, log) for log in late)
        return [violation for violation in violations if self._is_new(violation)]

    def _groups_partitions(self) -> int:
        topic = self._cluster.metadata.image.topics.get(CONSUMER_OFFSETS_TOPIC)
        return 1 if topic is None else len(topic.partitions)

    def _is_new(self, violation: Broken) -> bool:
        kind, _ = violation
        is_new = kind not in self._reported_kinds
        self._reported_kinds.add(kind)
        return is_new

    def _watermarks(self, brokers: Mapping[BrokerId, Broker]) -> Iterator[Broken]:
        """Checks that records below a replica's high watermark are on every in-sync replica."""
        for partition, in_sync in self._replicated_partitions:
            highest, highest_broker, ends = -1, 0, []
            for broker_id, broker in brokers.items():
                log = broker.replicas.hosted.get(partition)
                if log is None:
                    continue
                if log.high_watermark > highest:
                    highest, highest_broker = log.high_watermark, broker_id
                if broker_id in in_sync:
                    ends.append((log.log_end_offset, broker_id))
            end, shortest_broker = min(ends, default=(highest, 0))
            if end < highest:
                yield (
                    UNREPLICATED,
                    f"{partition}: the high watermark of broker {highest_broker} is {highest},"
                    " and the log of"
                    f" broker {shortest_broker}, which is in sync, ends at {end}",
                )


def _replicated_partitions(image: ClusterImage) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if len(partition.replicas) > 1:
                yield TopicPartition(name, index), partition.isr


def _isr(image: ClusterImage) -> Iterator[Broken]:
    """Checks that a leader is in its ISR, and that the ISR has only replicas on brokers in service
    (KIP-903).
    """
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == NO_LEADER:
                continue  # the last one that was in sync may be out of service
            able = {replica for replica in partition.replicas if image.is_active(replica)}
            if partition.leader not in partition.isr or not able.issuperset(partition.isr):
                yield (
                    UNSOUND_ISR,
                    f"{name}-{index} is led by {partition.leader}, and in sync are"
                    f" {[*partition.isr]}; replicas"
                    f" in service are {sorted(able)}",
                )


def _stable_offsets(brokers: Mapping[BrokerId, Broker], image: ClusterImage) -> Iterator[Broken]:
    """Checks that each transaction below the last stable offset has its marker, and that the marker
    is replicated, since readers have seen its end. A record counts as replicated if all in-sync
    replicas have it. The high watermark of a leader may be lower: a new leader begins with an older
    high watermark, but no longer has the transaction among the open ones. It was released when the
    high watermark was higher, or is in no snapshot (truncateAndReload and onHighWatermarkUpdated of
    ProducerStateManager).
    """
    for broker_id, broker in brokers.items():
        for partition, log in broker.replicas.led.items():
            if log.high_watermark == log.log_end_offset:
                continue
            stable = log.last_stable_offset
            for first_offset, marker in _ends_behind(log, log.high_watermark):
                if first_offset < stable and not _have(
                    brokers, partition, _in_sync(image, partition), marker
                ):
                    yield (
                        UNSTABLE,
                        f"{partition} on broker {broker_id}: the last stable offset is"
                        f" {stable}, and"
                        f" the transaction that begins at {first_offset} has its marker at"
                        f" {marker.base_offset},"
                        f" above the high watermark {log.high_watermark}",
                    )


def _in_sync(image: ClusterImage, topic_partition: TopicPartition) -> tuple[int, ...]:
    topic = image.topics.get(topic_partition.topic)
    return () if topic is None else topic.partitions[topic_partition.partition].isr


def _have(
    brokers: Mapping[BrokerId, Broker],
    partition: TopicPartition,
    replicas: tuple[int, ...],
    marker: BatchHeader,
) -> bool:
    having = {
        broker_id
        for broker_id, broker in brokers.items()
        if (log := broker.replicas.hosted.get(partition)) is not None
        and next(_headers(log, marker.base_offset), None) == marker
    }
    return bool(replicas) and having.issuperset(replicas)


def _ends_behind(log: PartitionLog, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Transactions that end at this offset or later: the first offset and the marker of each."""
    if not any(header.is_control for header in _headers(log, offset)):
        return
    open_since: dict[int, int] = {}
    for header in _headers(log, log.log_start_offset):
        if header.is_control:
            first_offset = open_since.pop(header.producer_id, None)
            if first_offset is not None and header.base_offset >= offset:
                yield first_offset, header
        elif header.is_transactional:
            open_since.setdefault(header.producer_id, header.base_offset)


def _headers(log: PartitionLog, start: int) -> Iterator[BatchHeader]:
    for chunk in log.batches(start):
        for _, header in iter_batches(chunk):
            if header.base_offset >= start:
                yield header


def _early(read: PositionsRead, log: PartitionLog) -> Iterator[Broken]:
    """Positions answered from group records that are not replicated yet."""
    answered_offsets = {
        position.place: position.offset for position in read.positions if position.offset >= 0
    }
    reread_shard, replicated = GroupShard(partition=0, coordinator_epoch=0), set[TopicPartition]()

    def note() -> None:
        for partition, offset in answered_offsets.items():
            committed = reread_shard.offsets.committed_offset(read.group, partition)
            if committed is not None and committed.position == offset:
                replicated.add(partition)

    batches = [
        (header.base_offset, chunk[position : position + header.size])
        for chunk in log.batches()
        for position, header in iter_batches(chunk)
    ]
    for offset, batch in batches:
        for _ in reread_shard.read([batch]):
            if offset < log.high_watermark:
                note()
    for partition, offset in answered_offsets.items():
        committed = reread_shard.offsets.committed_offset(read.group, partition)
        if partition not in replicated and committed is not None and committed.position == offset:
            yield (
                EARLY_POSITION,
                f"{read.who} got {offset} of {read.group} on {partition}, which is not replicated"
                f" yet: the high watermark of {log.topic_partition} is {log.high_watermark}",
            )
