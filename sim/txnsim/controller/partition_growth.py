"""Additional partitions for a topic: the rules of CreatePartitions. Pure.

Existing partitions do not change; new ones are empty, in leader epoch 0, and led by their first
live replica. Kafka's counterpart: ReplicationControlManager.createPartitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from txnsim.controller.replica_placement import (
    bad_assignment,
    new_assignment_refusal,
    new_partition,
    usable_brokers,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.types import BrokerId

Assignments = tuple[tuple[BrokerId, ...], ...]
"""The replicas of each new partition."""
ADDED_MAX: Final = 10_000
"""So many partitions may be added by one request."""


def refuse_many(
    image: ClusterImage, names_and_counts: Iterable[tuple[str, int]]
) -> Rejection | None:
    """The error of a whole request that adds too many partitions
    (ReplicationControlManager.validateTotalNumberOfPartitions).

    Args:
        image: The metadata.
        names_and_counts: Topics with the number of partitions that each shall have.
    """
    added_count = sum(
        max(0, partition_count - len(image.topics[topic_name].partitions))
        for topic_name, partition_count in names_and_counts
        if topic_name in image.topics
    )
    if added_count <= ADDED_MAX:
        return None
    return Rejection(
        error=ErrorCode.policy_violation,
        reason="Excessively large number of additional partitions per request.",
    )


def grown_topic(
    image: ClusterImage,
    topic_name: str,
    *,
    partition_count: int,
    assignments: Assignments | None = None,
) -> TopicImage | Rejection:
    """The topic with ``partition_count`` partitions in all, or why it can't have them.

    Args:
        image: The metadata.
        topic_name: The topic.
        partition_count: The total number of partitions, including existing ones.
        assignments: The replicas of the new partitions.
    """
    topic = image.topics.get(topic_name)
    if topic is None:
        return Rejection(error=ErrorCode.unknown_topic_or_partition, reason="")
    refusal = _count_refusal(topic, partition_count, assignments)
    if refusal is not None:
        return refusal
    replication_factor = len(topic.partitions[0].replicas)
    new_replicas = (
        _place_new_partitions(image, topic, partition_count, replication_factor)
        if assignments is None
        else _check_assignments(
            image, assignments, replication_factor, first_index=len(topic.partitions)
        )
    )
    if isinstance(new_replicas, Rejection):
        return new_replicas
    return msgspec.structs.replace(
        topic,
        partitions=(
            *topic.partitions,
            *(new_partition(brokers, image) for brokers in new_replicas),
        ),
    )


def _count_refusal(
    topic: TopicImage, partition_count: int, assignments: Assignments | None
) -> Rejection | None:
    current_count = len(topic.partitions)
    if partition_count == current_count:
        return _invalid_partitions(f"Topic already has {current_count} partition(s).")
    if partition_count < current_count:
        return _invalid_partitions(
            f"The topic {topic.name} currently has {current_count} partition(s); "
            f"{partition_count} would not be an increase."
        )
    added_count = partition_count - current_count
    if assignments is not None and len(assignments) != added_count:
        return bad_assignment(
            f"Attempted to add {added_count} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    return None


def _place_new_partitions(
    image: ClusterImage, topic: TopicImage, added_count: int, replication_factor: int
) -> Assignments | Rejection:
    usable_brokers_now = usable_brokers(image, replication_factor)
    if isinstance(usable_brokers_now, Rejection):
        return usable_brokers_now
    # Leaders go on round the brokers from where the topic's last partition was placed.
    last_leader = topic.partitions[-1].replicas[0]
    start_broker = (
        usable_brokers_now.active.index(last_leader) + 1
        if last_leader in usable_brokers_now.active
        else 0
    )
    return tuple(
        usable_brokers_now.choose_replicas(start_broker + added_index, replication_factor)
        for added_index in range(added_count - len(topic.partitions))
    )


def _check_assignments(
    image: ClusterImage, assignments: Assignments, replication_factor: int, *, first_index: int
) -> Assignments | Rejection:
    for partition_index, broker_ids in enumerate(assignments, first_index):
        refusal = new_assignment_refusal(image, broker_ids, partition_index, replication_factor)
        if refusal is not None:
            return refusal
    return assignments


def _invalid_partitions(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_partitions, reason=reason)
