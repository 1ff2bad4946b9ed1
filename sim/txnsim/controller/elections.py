"""Leader elections, on request or periodic: of the preferred replica, or of any replica. Pure.

Kafka's counterparts: ReplicationControlManager.electLeader and the controller's periodic tasks
electPreferred and electUnclean.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from txnsim.controller.leadership import rules_of, updated_partition
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from txnsim.metadata.partition_changes import Election
from txnsim.settings import Settings
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition

NOT_NEEDED: Final = Rejection(
    error=ErrorCode.election_not_needed, reason="Leader election not needed for topic partition."
)
_NO_PREFERRED: Final = Rejection(
    error=ErrorCode.preferred_leader_not_available,
    reason="The preferred leader was not available.",
)
_NO_REPLICA: Final = Rejection(
    error=ErrorCode.eligible_leaders_not_available,
    reason="Eligible topic partition leaders are not available.",
)


class ElectionType(IntEnum):
    """The kind of leader to elect (Kafka's ElectionType)."""

    PREFERRED = 0
    """Elects the first replica, only while in sync."""
    UNCLEAN = 1
    """Any live replica of a partition without a leader, in sync or not."""


def elect_leader(
    image: ClusterImage,
    topic_partition: TopicPartition,
    election_type: ElectionType,
    settings: Settings,
) -> ClusterImage | Rejection:
    """The image after the election, or the error."""
    topic, partition_index = topic_partition.topic, topic_partition.partition
    if topic not in image.topics:
        return _unknown_partition(f"No such topic as {topic}")
    partition = image.partition(topic_partition)
    if partition is None:
        return _unknown_partition(f"No such partition as {topic}-{partition_index}")
    if election_type is ElectionType.PREFERRED:
        if partition.leader == partition.replicas[0]:
            return NOT_NEEDED
        election, refusal = Election.PREFERRED, _NO_PREFERRED
    else:
        if partition.leader != NO_LEADER:
            return NOT_NEEDED
        election, refusal = Election.UNCLEAN, _NO_REPLICA
    elected_partition = updated_partition(image, topic_partition, settings, election=election)
    return (
        refusal
        if elected_partition is None
        else image.with_partitions({topic_partition: elected_partition})
    )


def elect_unclean(image: ClusterImage, settings: Settings) -> ClusterImage:
    """Elect any live replica of every leaderless partition whose topic allows it
    (ReplicationControlManager.maybeElectUncleanLeaders).
    """
    changed_partitions: dict[TopicPartition, PartitionImage] = {}
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader == NO_LEADER:
                break
        else:
            continue
        if not rules_of(topic, image, settings).allows_unclean:
            continue
        leaderless = [
            TopicPartition(topic.name, partition_index)
            for partition_index, partition in enumerate(topic.partitions)
            if partition.leader == NO_LEADER
        ]
        for topic_partition in leaderless:
            elected_partition = updated_partition(
                image, topic_partition, settings, election=Election.UNCLEAN
            )
            if elected_partition is not None:
                changed_partitions[topic_partition] = elected_partition
    return image.with_partitions(changed_partitions)


def reelect_same_leader(
    image: ClusterImage, topic_partition: TopicPartition
) -> tuple[ClusterImage, ClusterImage] | Rejection:
    """Make the leader resign and elect it again: an image without a leader, then one with the same
    leader under a later epoch. The coordinator of that partition has to reload it.
    """
    partition = image.partition(topic_partition)
    if partition is None:
        return _unknown_partition(f"No such partition as {topic_partition}")
    if not image.is_active(partition.leader):
        return Rejection(
            error=ErrorCode.leader_not_available, reason=f"{topic_partition} has no live leader"
        )
    leaderless_partition = _led_by(NO_LEADER, partition)
    image_without = image.with_partition(topic_partition, leaderless_partition)
    return image_without, image_without.with_partition(
        topic_partition, _led_by(partition.leader, leaderless_partition)
    )


def rebalance_leaders(image: ClusterImage, settings: Settings) -> ClusterImage:
    """Make preferred replicas leaders again where possible
    (ReplicationControlManager.maybeBalancePartitionLeaders).
    """
    changed_partitions: dict[TopicPartition, PartitionImage] = {}
    for topic in image.topics.values():
        for partition_index, partition in enumerate(topic.partitions):
            if partition.leader in (NO_LEADER, partition.replicas[0]):
                continue
            topic_partition = TopicPartition(topic.name, partition_index)
            elected_partition = updated_partition(
                image, topic_partition, settings, election=Election.PREFERRED
            )
            if elected_partition is not None:
                changed_partitions[topic_partition] = elected_partition
    return image.with_partitions(changed_partitions)


def _led_by(leader_id: BrokerId, partition: PartitionImage) -> PartitionImage:
    return msgspec.structs.replace(
        partition,
        leader=leader_id,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
    )


def _unknown_partition(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.unknown_topic_or_partition, reason=reason)
