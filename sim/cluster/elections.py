"""Leader elections that somebody asks for: the preferred replica, or any replica at all. Pure.

Kafka's counterparts: ReplicationControlManager.electLeader, PartitionChangeBuilder.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from sim.cluster import controller
from sim.cluster.image import NO_LEADER, ClusterImage
from sim.errors import ErrorCode, Rejection
from sim.types import BrokerId, LeaderEpoch, TopicPartition

NOT_NEEDED: Final = Rejection(
    error=ErrorCode.election_not_needed, reason="Leader election not needed for topic partition."
)
_NO_PREFERRED: Final = Rejection(
    error=ErrorCode.preferred_leader_not_available,
    reason="The preferred leader was not available.",
)
_NOBODY: Final = Rejection(
    error=ErrorCode.eligible_leaders_not_available,
    reason="Eligible topic partition leaders are not available.",
)


class ElectionType(IntEnum):
    """What kind of leader is wanted (Kafka's ElectionType)."""

    PREFERRED = 0
    """The first replica, where it is in sync."""
    UNCLEAN = 1
    """Any live replica of a partition without a leader, in sync or not."""


def elect_leader(
    image: ClusterImage, topic_partition: TopicPartition, kind: ElectionType
) -> ClusterImage | Rejection:
    """The image after the election, or why there was none."""
    topic, index = topic_partition.topic, topic_partition.partition
    if topic not in image.topics:
        return _unknown(f"No such topic as {topic}")
    partition = image.partition(topic_partition)
    if partition is None:
        return _unknown(f"No such partition as {topic}-{index}")
    if kind is ElectionType.PREFERRED:
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            return NOT_NEEDED
        moved = controller.move_leader(image, topic_partition, preferred)
        return _NO_PREFERRED if isinstance(moved, Rejection) else moved
    if partition.leader != NO_LEADER:
        return NOT_NEEDED
    for replica in (*partition.isr, *partition.replicas):
        if image.is_alive(replica):
            return _with_leader(image, topic_partition, replica)
    return _NOBODY


def _with_leader(
    image: ClusterImage, topic_partition: TopicPartition, leader: BrokerId
) -> ClusterImage:
    partition = image.partition(topic_partition)
    assert partition is not None
    # A leader that was not in sync is in sync with nobody but itself.
    isr = partition.isr if leader in partition.isr else (leader,)
    return image.with_partition(
        topic_partition,
        msgspec.structs.replace(
            partition,
            leader=leader,
            isr=isr,
            leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
            partition_epoch=partition.partition_epoch + 1,
        ),
    )


def _unknown(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.unknown_topic_or_partition, reason=reason)
