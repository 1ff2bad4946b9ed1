"""Invariants between the replicas of a partition, whoever leads or is down."""

from __future__ import annotations

from txnsim.log.partition_log import PartitionLog
from txnsim.server.cluster import SimCluster
from txnsim.types import TopicPartition


def replicas_of(sim: SimCluster, topic_partition: TopicPartition) -> list[PartitionLog]:
    """The partition's logs on the brokers that are up."""
    return [
        broker.replicas.hosted[topic_partition]
        for broker in sim.brokers.values()
        if topic_partition in broker.replicas.hosted
    ]


def partitions_of(sim: SimCluster) -> list[TopicPartition]:
    return [
        TopicPartition(topic_name, partition_index)
        for topic_name, topic in sim.metadata.image.topics.items()
        for partition_index in range(len(topic.partitions))
    ]


def check_replicas(sim: SimCluster) -> None:
    """Check offsets and invariants of each log, and that committed records are the same everywhere.

    Raises:
        AssertionError: It is not.
        InvariantViolation: A log contradicts itself.
    """
    for topic_partition in partitions_of(sim):
        logs = replicas_of(sim, topic_partition)
        for log in logs:
            assert log.last_stable_offset <= log.high_watermark <= log.log_end_offset
            log.check_invariants()
        committed = min((log.high_watermark for log in logs), default=0)
        prefixes = {batches_below(log, committed) for log in logs}
        assert len(prefixes) <= 1, f"{topic_partition}: committed records differ"


def batches_below(log: PartitionLog, offset: int) -> tuple[bytes, ...]:
    """Stored batches that begin below ``offset``."""
    return tuple(batch for batch in log.batches() if int.from_bytes(batch[:8], "big") < offset)


def check_equal(sim: SimCluster) -> None:
    """Check that all replicas have the same bytes and the same state."""
    for topic_partition in partitions_of(sim):
        logs = replicas_of(sim, topic_partition)
        first_state = logs[0].snapshot()
        for log in logs[1:]:
            assert tuple(log.batches()) == tuple(logs[0].batches()), topic_partition
            state = log.snapshot()
            assert state.log_end_offset == first_state.log_end_offset, topic_partition
            assert state.ongoing == first_state.ongoing, topic_partition
            assert state.aborted == first_state.aborted, topic_partition
            assert epochs_of(state.producers) == epochs_of(first_state.producers), topic_partition


def epochs_of(producers: object) -> list[tuple[int, int, int, int]]:
    """The part of each producer's state that does not depend on reloads of the log."""
    return [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.txn_first_offset,
        )
        for producer in producers  # type: ignore[attr-defined]
    ]
