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

NOT_MOVING: Final = Rejection(error=ErrorCode.no_reassignment_in_progress, reason="")
"""Kafka sends no message if it would be the error's own."""


def reassign(
    image: ClusterImage,
    where: TopicPartition,
    replicas: Brokers,
    settings: Settings,
    *,
    may_change_factor: bool = True,
) -> ClusterImage | Rejection:
    """Start moving a partition to these replicas, or complete the move if no new replica is needed.

    Args:
        image: The metadata.
        where: A partition that may or may not exist.
        replicas: The target replicas, the preferred one first.
        settings: Settings of the cluster.
        may_change_factor: Whether the replication factor may change (KIP-860).
    """
    partition = _partition(image, where)
    if isinstance(partition, Rejection):
        return partition
    refusal = assignment_refusal(image, replicas)
    if refusal is not None:
        return refusal
    settled = _final_replicas(partition)
    if not may_change_factor and len(settled) != len(replicas):
        return Rejection(
            error=ErrorCode.invalid_replication_factor,
            reason=f"The replication factor is changed from {len(settled)} to {len(replicas)}",
        )
    present = set(partition.replicas)
    removing = tuple(sorted(present.difference(replicas)))
    adding = tuple(sorted(set(replicas) - present))
    changed = updated_partition(
        image,
        where,
        settings,
        placement=Placement(
            replicas=(*replicas, *removing),
            # As in Kafka a list that would be empty leaves the one before as it is
            # (ReplicationControlManager.changePartitionReassignment).
            removing=removing or partition.removing,
            adding=adding or partition.adding,
        ),
    )
    return image if changed is None else image.with_partitions({where: changed})


def cancel(
    image: ClusterImage, where: TopicPartition, settings: Settings
) -> ClusterImage | Rejection:
    """Cancel a reassignment: the partition gets its earlier replicas back."""
    partition = _partition(image, where)
    if isinstance(partition, Rejection):
        return partition
    if not partition.is_reassigning:
        return NOT_MOVING
    replicas = tuple(
        broker_id for broker_id in partition.replicas if broker_id not in partition.adding
    )
    isr = tuple(broker_id for broker_id in partition.isr if broker_id not in partition.adding)
    if not isr:
        # Only new replicas are in sync: an old one would lead without having everything.
        if not rules_of(image.topics[where.topic], image, settings).allows_unclean:
            return bad_assignment(
                f"Unable to revert partition assignment for {where.topic}:{where.partition} "
                "because it would require an unclean leader election."
            )
        isr = replicas[:1]
    changed = updated_partition(
        image, where, settings, target_isr=isr, placement=Placement(replicas=replicas)
    )
    assert changed is not None, "it moves no more"
    return image.with_partitions({where: changed})


def reassigning(image: ClusterImage) -> dict[TopicPartition, PartitionImage]:
    """Every partition that is being reassigned."""
    return {
        TopicPartition(topic.name, index): partition
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.is_reassigning
    }


def _partition(image: ClusterImage, where: TopicPartition) -> PartitionImage | Rejection:
    if where.topic not in image.topics:
        return _unknown_partition(f"Unable to find a topic named {where.topic}.")
    return image.partition(where) or _unknown_partition(
        f"Unable to find partition {where.topic}:{where.partition}."
    )


def _final_replicas(partition: PartitionImage) -> frozenset[int]:
    """The replicas of the partition once its current reassignment completes."""
    return frozenset(partition.replicas) - frozenset(partition.removing)


def _unknown_partition(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.unknown_topic_or_partition, reason=reason)
