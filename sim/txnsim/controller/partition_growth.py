"""Additional partitions for a topic: the rules of CreatePartitions. Pure.

Existing partitions do not change; new ones are empty, in leader epoch 0, and led by their first
live replica. Kafka's counterpart: ReplicationControlManager.createPartitions.
"""

from __future__ import annotations

import msgspec

from txnsim.controller.controller import RECORDS_MAX
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


def grown_topic(
    image: ClusterImage,
    name: str,
    *,
    count: int,
    assignments: Assignments | None = None,
    records_before: int = 0,
) -> TopicImage | Rejection:
    """The topic with ``count`` partitions in all, or why it can't have them.

    Args:
        image: The metadata.
        name: The topic.
        count: The total number of partitions, including existing ones.
        assignments: The replicas of the new partitions.
        records_before: Number of metadata records that the same request already writes.
    """
    topic = image.topics.get(name)
    if topic is None:
        return Rejection(error=ErrorCode.unknown_topic_or_partition, reason="")
    refusal = _count_refusal(topic, count, assignments, records_before)
    if refusal is not None:
        return refusal
    factor = len(topic.partitions[0].replicas)
    replicas = (
        _place_new_partitions(image, topic, count, factor)
        if assignments is None
        else _check_assignments(image, assignments, factor, start=len(topic.partitions))
    )
    if isinstance(replicas, Rejection):
        return replicas
    return msgspec.structs.replace(
        topic,
        partitions=(*topic.partitions, *(new_partition(brokers, image) for brokers in replicas)),
    )


def _count_refusal(
    topic: TopicImage, count: int, assignments: Assignments | None, records_before: int
) -> Rejection | None:
    current = len(topic.partitions)
    if count == current:
        return _bad_count(f"Topic already has {current} partition(s).")
    if count < current:
        return _bad_count(
            f"The topic {topic.name} currently has {current} partition(s); "
            f"{count} would not be an increase."
        )
    added = count - current
    if assignments is not None and len(assignments) != added:
        return bad_assignment(
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    if records_before + added > RECORDS_MAX:
        # A BoundedListTooLongException, which has no error code of its own.
        return Rejection(error=ErrorCode.unknown_server_error, reason="")
    return None


def _place_new_partitions(
    image: ClusterImage, topic: TopicImage, count: int, factor: int
) -> Assignments | Rejection:
    usable = usable_brokers(image, factor)
    if isinstance(usable, Rejection):
        return usable
    # Leaders go on round the brokers from where the topic's last partition was placed.
    last_leader = topic.partitions[-1].replicas[0]
    start = usable.active.index(last_leader) + 1 if last_leader in usable.active else 0
    return tuple(
        usable.choose_replicas(start + step, factor)
        for step in range(count - len(topic.partitions))
    )


def _check_assignments(
    image: ClusterImage, assignments: Assignments, factor: int, *, start: int
) -> Assignments | Rejection:
    for index, brokers in enumerate(assignments, start):
        refusal = new_assignment_refusal(image, brokers, index, factor)
        if refusal is not None:
            return refusal
    return assignments


def _bad_count(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_partitions, reason=reason)
