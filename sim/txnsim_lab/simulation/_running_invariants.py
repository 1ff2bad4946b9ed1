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
from txnsim_lab.simulation._broker_promises import BrokenPromise

HIGH_WATERMARK_KIND: Final = "high-watermark-too-high"
STABLE_OFFSET_KIND: Final = "last-stable-offset-too-high"
UNSOUND_ISR_KIND: Final = "unsound-isr"
EARLY_POSITION_KIND: Final = "position-before-replication"


class MomentChecks:
    """Checks a cluster repeatedly, and reports each kind of violation once."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._image: ClusterImage | None = None
        self._replicated_partitions: list[tuple[TopicPartition, tuple[int, ...]]] = []
        """Partitions with several replicas, and the ids of those that are in sync."""
        self._reported_kinds: set[str] = set()

    def look(self) -> list[BrokenPromise]:
        """The violations now that were not reported before."""
        brokers, image = self._cluster.brokers, self._cluster.metadata.image
        isr_violations: Iterator[BrokenPromise] = iter(())
        if image is not self._image:
            self._image = image
            self._replicated_partitions = [*_replicated_partitions(image)]
            isr_violations = _isr_violations(image)
        violation_lists = (
            isr_violations,
            self._watermark_violations(brokers),
            _stable_offset_violations(brokers, image),
        )
        return [
            violation
            for violation in chain.from_iterable(violation_lists)
            if self._is_new(violation)
        ]

    def early_positions(self, positions_read: PositionsRead) -> list[BrokenPromise]:
        """Positions that a broker has answered although a failover could undo them."""
        partition_index = partition_for(positions_read.group, self._offsets_partition_count())
        partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_index)
        logs = [broker.replicas.led.get(partition) for broker in self._cluster.brokers.values()]
        lagging_logs = [
            log for log in logs if log is not None and log.high_watermark < log.log_end_offset
        ]
        violations = chain.from_iterable(
            _early_position_violations(positions_read, log) for log in lagging_logs
        )
        return [violation for violation in violations if self._is_new(violation)]

    def _offsets_partition_count(self) -> int:
        topic = self._cluster.metadata.image.topics.get(CONSUMER_OFFSETS_TOPIC)
        return 1 if topic is None else len(topic.partitions)

    def _is_new(self, violation: BrokenPromise) -> bool:
        kind, _ = violation
        is_new = kind not in self._reported_kinds
        self._reported_kinds.add(kind)
        return is_new

    def _watermark_violations(self, brokers: Mapping[BrokerId, Broker]) -> Iterator[BrokenPromise]:
        """Checks that records below a replica's high watermark are on every in-sync replica."""
        for partition, in_sync_brokers in self._replicated_partitions:
            highest_watermark, broker_of_highest, log_ends = -1, 0, []
            for broker_id, broker in brokers.items():
                log = broker.replicas.hosted.get(partition)
                if log is None:
                    continue
                if log.high_watermark > highest_watermark:
                    highest_watermark, broker_of_highest = log.high_watermark, broker_id
                if broker_id in in_sync_brokers:
                    log_ends.append((log.log_end_offset, broker_id))
            lowest_end, broker_of_lowest = min(log_ends, default=(highest_watermark, 0))
            if lowest_end < highest_watermark:
                yield (
                    HIGH_WATERMARK_KIND,
                    f"{partition}: the high watermark of broker {broker_of_highest} is"
                    f" {highest_watermark}, and the log of"
                    f" broker {broker_of_lowest}, which is in sync, ends at {lowest_end}",
                )


def _replicated_partitions(image: ClusterImage) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
    for topic_name, topic in image.topics.items():
        for partition_index, partition in enumerate(topic.partitions):
            if len(partition.replicas) > 1:
                yield TopicPartition(topic_name, partition_index), partition.isr


def _isr_violations(image: ClusterImage) -> Iterator[BrokenPromise]:
    """Checks that a leader is in its ISR, and that the ISR has only replicas on brokers in service
    (KIP-903).
    """
    for topic_name, topic in image.topics.items():
        for partition_index, partition in enumerate(topic.partitions):
            if partition.leader == NO_LEADER:
                continue  # the last one that was in sync may be out of service
            eligible_replicas = {
                replica_id for replica_id in partition.replicas if image.is_active(replica_id)
            }
            if partition.leader not in partition.isr or not eligible_replicas.issuperset(
                partition.isr
            ):
                yield (
                    UNSOUND_ISR_KIND,
                    f"{topic_name}-{partition_index} is led by {partition.leader}, and in sync are"
                    f" {[*partition.isr]}; replicas"
                    f" in service are {sorted(eligible_replicas)}",
                )


def _stable_offset_violations(
    brokers: Mapping[BrokerId, Broker], image: ClusterImage
) -> Iterator[BrokenPromise]:
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
            stable_offset = log.last_stable_offset
            for first_offset, marker in _ends_behind(log, log.high_watermark):
                if first_offset < stable_offset and not _brokers_having_marker(
                    brokers, partition, _in_sync_replicas(image, partition), marker
                ):
                    yield (
                        STABLE_OFFSET_KIND,
                        f"{partition} on broker {broker_id}: the last stable offset is"
                        f" {stable_offset}, and"
                        f" the transaction that begins at {first_offset} has its marker at"
                        f" {marker.base_offset},"
                        f" above the high watermark {log.high_watermark}",
                    )


def _in_sync_replicas(image: ClusterImage, topic_partition: TopicPartition) -> tuple[int, ...]:
    topic = image.topics.get(topic_partition.topic)
    return () if topic is None else topic.partitions[topic_partition.partition].isr


def _brokers_having_marker(
    brokers: Mapping[BrokerId, Broker],
    partition: TopicPartition,
    replicas: tuple[int, ...],
    marker: BatchHeader,
) -> bool:
    brokers_with_marker = {
        broker_id
        for broker_id, broker in brokers.items()
        if (log := broker.replicas.hosted.get(partition)) is not None
        and next(_batch_headers(log, marker.base_offset), None) == marker
    }
    return bool(replicas) and brokers_with_marker.issuperset(replicas)


def _ends_behind(log: PartitionLog, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Transactions that end at this offset or later: the first offset and the marker of each."""
    if not any(header.is_control for header in _batch_headers(log, offset)):
        return
    first_offset_by_producer: dict[int, int] = {}
    for header in _batch_headers(log, log.log_start_offset):
        if header.is_control:
            first_offset = first_offset_by_producer.pop(header.producer_id, None)
            if first_offset is not None and header.base_offset >= offset:
                yield first_offset, header
        elif header.is_transactional:
            first_offset_by_producer.setdefault(header.producer_id, header.base_offset)


def _batch_headers(log: PartitionLog, start_offset: int) -> Iterator[BatchHeader]:
    for batches_of_chunk in log.batches(start_offset):
        for _, header in iter_batches(batches_of_chunk):
            if header.base_offset >= start_offset:
                yield header


def _early_position_violations(
    positions_read: PositionsRead, log: PartitionLog
) -> Iterator[BrokenPromise]:
    """Positions answered from group records that are not replicated yet."""
    answered_offsets = {
        position.place: position.offset
        for position in positions_read.positions
        if position.offset >= 0
    }
    reread_shard, replicated_partitions = (
        GroupShard(partition=0, coordinator_epoch=0),
        set[TopicPartition](),
    )

    def note() -> None:
        for partition, offset in answered_offsets.items():
            committed = reread_shard.offsets.committed_offset(positions_read.group, partition)
            if committed is not None and committed.position == offset:
                replicated_partitions.add(partition)

    batches = [
        (header.base_offset, batches_of_chunk[position : position + header.size])
        for batches_of_chunk in log.batches()
        for position, header in iter_batches(batches_of_chunk)
    ]
    for offset, batch in batches:
        for _ in reread_shard.read([batch]):
            if offset < log.high_watermark:
                note()
    for partition, offset in answered_offsets.items():
        committed = reread_shard.offsets.committed_offset(positions_read.group, partition)
        if (
            partition not in replicated_partitions
            and committed is not None
            and committed.position == offset
        ):
            yield (
                EARLY_POSITION_KIND,
                f"{positions_read.who} got {offset} of {positions_read.group} on {partition}, which"
                f" is not replicated yet: the high watermark of {log.topic_partition}"
                f" is {log.high_watermark}",
            )
