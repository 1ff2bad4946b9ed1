"""Moving replicas to other brokers (KIP-455). Pure.

A reassignment goes in steps: first the partition has both its old and new replicas; then the new
ones join the ISR by fetching like any follower; the AlterPartition that adds the last of them
removes the old ones (``metadata.partition_changes``). A reassignment without new replicas completes
at once. Kafka's counterparts: ReplicationControlManager.alterPartitionReassignments,
PartitionReassignmentReplicas, PartitionReassignmentRevert.
"""

from __future__ import annotations

from typing import Final

from txnsim.controller.leadership import rules_of, updated_partition
from txnsim.controller.replica_placement import assignment_refusal, bad_assignment
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, PartitionImage
from txnsim.metadata.partition_changes import Brokers, Placement
from txnsim.settings import Settings
from txnsim.types import TopicPartition

NO_REASSIGNMENT: Final = Rejection(error=ErrorCode.no_reassignment_in_progress, reason="")
"""Kafka sends no message if it would be the error's own."""


def reassign(
    image: ClusterImage,
    topic_partition: TopicPartition,
    replicas: Brokers,
    settings: Settings,
    *,
    may_change_factor: bool = True,
) -> ClusterImage | Rejection:
    """Start moving a partition to these replicas, or complete the move if no new replica is needed.

    Args:
        image: The metadata.
        topic_partition: A partition that may or may not exist.
        replicas: The target replicas, the preferred one first.
        settings: Settings of the cluster.
        may_change_factor: Whether the replication factor may change (KIP-860).
    """
    partition = _partition_of(image, topic_partition)
    if isinstance(partition, Rejection):
        return partition
    refusal = assignment_refusal(image, replicas)
    if refusal is not None:
        return refusal
    final_replicas = _final_replicas(partition)
    if not may_change_factor and len(final_replicas) != len(replicas):
        return Rejection(
            error=ErrorCode.invalid_replication_factor,
            reason=f"The replication factor is changed from {len(final_replicas)} to"
            f" {len(replicas)}",
        )
    present_replicas = set(partition.replicas)
    removing_replicas = tuple(sorted(present_replicas.difference(replicas)))
    adding_replicas = tuple(sorted(set(replicas) - present_replicas))
    changed_partition = updated_partition(
        image,
        topic_partition,
        settings,
        placement=Placement(
            replicas=(*replicas, *removing_replicas),
            # As in Kafka a list that would be empty leaves the one before as it is
            # (ReplicationControlManager.changePartitionReassignment).
            removing=removing_replicas or partition.removing,
            adding=adding_replicas or partition.adding,
        ),
    )
    return (
        image
        if changed_partition is None
        else image.with_partitions({topic_partition: changed_partition})
    )


def cancel(
    image: ClusterImage, topic_partition: TopicPartition, settings: Settings
) -> ClusterImage | Rejection:
    """Cancel a reassignment: the partition gets its earlier replicas back."""
    partition = _partition_of(image, topic_partition)
    if isinstance(partition, Rejection):
        return partition
    if not partition.is_reassigning:
        return NO_REASSIGNMENT
    replicas = tuple(
        broker_id for broker_id in partition.replicas if broker_id not in partition.adding
    )
    isr = tuple(broker_id for broker_id in partition.isr if broker_id not in partition.adding)
    if not isr:
        # Only new replicas are in sync: an old one would lead without having everything.
        if not rules_of(image.topics[topic_partition.topic], image, settings).allows_unclean:
            return bad_assignment(
                f"Unable to revert partition assignment for"
                f" {topic_partition.topic}:{topic_partition.partition} "
                "because it would require an unclean leader election."
            )
        isr = replicas[:1]
    changed_partition = updated_partition(
        image, topic_partition, settings, target_isr=isr, placement=Placement(replicas=replicas)
    )
    assert changed_partition is not None, "it moves no more"
    return image.with_partitions({topic_partition: changed_partition})


def reassigned_partitions(image: ClusterImage) -> dict[TopicPartition, PartitionImage]:
    """Every partition that is being reassigned."""
    return {
        TopicPartition(topic.name, index): partition
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.is_reassigning
    }


def _partition_of(
    image: ClusterImage, topic_partition: TopicPartition
) -> PartitionImage | Rejection:
    if topic_partition.topic not in image.topics:
        return _unknown_partition(f"Unable to find a topic named {topic_partition.topic}.")
    return image.partition(topic_partition) or _unknown_partition(
        f"Unable to find partition {topic_partition.topic}:{topic_partition.partition}."
    )


def _final_replicas(partition: PartitionImage) -> frozenset[int]:
    """The replicas of the partition once its current reassignment completes."""
    return frozenset(partition.replicas) - frozenset(partition.removing)


def _unknown_partition(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.unknown_topic_or_partition, reason=reason)
