"""Leaders and ISRs across the cluster: how each partition changes when a broker comes or goes.

Pure. It applies ``metadata.partition_changes`` to every partition of a broker, by the rules of its
topic: minimum of in-sync replicas, unclean elections, ELR. Kafka's counterpart:
ReplicationControlManager.generateLeaderAndIsrUpdates.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from txnsim.metadata import configs
from txnsim.metadata.image import (
    ELIGIBLE_LEADER_REPLICAS,
    NO_LEADER,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from txnsim.metadata.partition_changes import (
    Brokers,
    Election,
    PartitionChange,
    Placement,
    changed_partition,
)
from txnsim.settings import Settings
from txnsim.types import BrokerId, TopicPartition


class TopicRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic's configs say about its leaders."""

    min_isr: int
    allows_unclean: bool


def rules_of(topic: TopicImage, image: ClusterImage, settings: Settings) -> TopicRules:
    """The topic's rules; the minimum is capped by the replication factor."""
    value_of_config = configs.TopicLookup(topic=topic.configs, image=image, settings=settings).text
    return TopicRules(
        min_isr=min(int(value_of_config("min.insync.replicas")), len(topic.partitions[0].replicas)),
        allows_unclean=value_of_config("unclean.leader.election.enable").strip().lower() == "true",
    )


def has_elr(image: ClusterImage) -> bool:
    """Whether eligible leader replicas are kept (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0


def updated_partition(
    image: ClusterImage,
    topic_partition: TopicPartition,
    settings: Settings,
    *,
    election: Election | None = None,
    target_isr: Brokers | None = None,
    is_recovering: bool = False,
    placement: Placement | None = None,
) -> PartitionImage | None:
    """A partition after a new ISR, other replicas or an election; None if nothing changes.

    Args:
        image: The metadata.
        topic_partition: A partition that exists.
        settings: Settings of the cluster.
        election: The kind of election; by default what the topic allows.
        target_isr: The new ISR; by default the current one.
        is_recovering: Whether the leader has recovered after an unclean election.
        placement: The new replicas; by default the current ones.
    """
    topic = image.topics[topic_partition.topic]
    partition = topic.partitions[topic_partition.partition]
    topic_rules = rules_of(topic, image, settings)
    if election is None:
        election = Election.UNCLEAN if topic_rules.allows_unclean else Election.ONLINE
    return changed_partition(
        partition,
        PartitionChange(
            target_isr=partition.isr if target_isr is None else target_isr,
            is_acceptable=image.is_active,
            min_isr=topic_rules.min_isr,
            has_elr=has_elr(image),
            election=election,
            has_recovered=is_recovering,
            placement=placement,
        ),
    )


def without_broker(image: ClusterImage, broker_id: BrokerId, settings: Settings) -> ClusterImage:
    """The image without the broker in any ISR or as a leader, because it was fenced or shuts
    down.
    """
    return _update_leaders(
        image,
        settings,
        is_concerned=lambda partition: broker_id in partition.isr,
        is_acceptable=lambda replica: replica != broker_id and image.is_active(replica),
        left_isr=broker_id,
    )


def after_unclean_shutdown(
    image: ClusterImage, broker_id: BrokerId, settings: Settings
) -> ClusterImage:
    """The image after an unclean shutdown of the broker: it may lack committed records, so it
    leaves every ISR and is no longer an eligible leader
    (ReplicationControlManager.handleBrokerShutdown).
    """
    return _update_leaders(
        image,
        settings,
        is_concerned=lambda partition: broker_id in partition.isr or broker_id in partition.elr,
        is_acceptable=lambda replica: replica != broker_id and image.is_active(replica),
        left_isr=broker_id,
        unclean_shutdown=broker_id,
    )


def with_broker_back(image: ClusterImage, broker_id: BrokerId, settings: Settings) -> ClusterImage:
    """The image after elections in leaderless partitions, now that ``broker_id`` may lead."""
    return _update_leaders(
        image,
        settings,
        is_concerned=lambda partition: partition.leader == NO_LEADER,
        is_acceptable=lambda replica: replica == broker_id or image.is_active(replica),
    )


def _update_leaders(
    image: ClusterImage,
    settings: Settings,
    *,
    is_concerned: Callable[[PartitionImage], bool],
    is_acceptable: Callable[[BrokerId], bool],
    left_isr: BrokerId | None = None,
    unclean_shutdown: BrokerId | None = None,
) -> ClusterImage:
    partition_changes: dict[TopicPartition, PartitionImage] = {}
    for topic in image.topics.values():
        topic_rules: TopicRules | None = None
        for partition_index, partition in enumerate(topic.partitions):
            if not is_concerned(partition):
                continue
            topic_rules = topic_rules or rules_of(topic, image, settings)
            partition_change = changed_partition(
                partition,
                PartitionChange(
                    target_isr=tuple(
                        broker_id for broker_id in partition.isr if broker_id != left_isr
                    ),
                    is_acceptable=is_acceptable,
                    min_isr=topic_rules.min_isr,
                    has_elr=has_elr(image),
                    election=Election.UNCLEAN if topic_rules.allows_unclean else Election.ONLINE,
                    unclean_shutdown=unclean_shutdown,
                ),
            )
            if partition_change is not None:
                partition_changes[TopicPartition(topic.name, partition_index)] = partition_change
    return image.with_partitions(partition_changes)


def without_elr(image: ClusterImage, topic: str | None = None) -> ClusterImage:
    """The image without eligible leader replicas of a topic, or of all topics: those that left the
    ISR have the records that were committed under another minimum
    (ReplicationControlManager.replay, ClearElrRecord).
    """
    if not has_elr(image):
        return image
    partitions_with_elr = image.topics.values() if topic is None else (image.topics[topic],)
    return image.with_partitions(
        {
            TopicPartition(topic_image.name, partition_index): msgspec.structs.replace(
                partition, elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
            )
            for topic_image in partitions_with_elr
            for partition_index, partition in enumerate(topic_image.partitions)
            if partition.elr or partition.last_known_elr
        }
    )


def leads_any_partition(image: ClusterImage, broker_id: BrokerId) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.values()
        for partition in topic.partitions
    )
