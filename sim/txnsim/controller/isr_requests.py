"""AlterPartition: how the controller judges an ISR that a leader requests. Pure.

A leader may have old metadata, or have lost its role: the epochs show it, and are checked in
Kafka's order. A replica that is fenced, shuts down or has been restarted meanwhile can't join
(KIP-903). Kafka's counterpart: ReplicationControlManager.alterPartition.
"""

from __future__ import annotations

import msgspec

from txnsim.controller.leadership import updated_partition
from txnsim.errors import ErrorCode
from txnsim.interbroker.replication import (
    AlteredPartition,
    AlterPartitionCommand,
    AlterPartitionReply,
    IsrChange,
)
from txnsim.metadata.image import ClusterImage, PartitionImage
from txnsim.settings import Settings
from txnsim.types import BrokerId, TopicPartition


class IsrOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata after a request, and the answer to its sender."""

    image: ClusterImage
    reply: AlterPartitionReply


def decide_alter_partition(
    image: ClusterImage, command: AlterPartitionCommand, settings: Settings
) -> IsrOutcome:
    """Judge each change by itself; all accepted changes go into one new image."""
    sending_broker = image.brokers.get(command.broker_id)
    if sending_broker is None or sending_broker.epoch != command.broker_epoch:
        reply = AlterPartitionReply(error=ErrorCode.stale_broker_epoch)
        return IsrOutcome(image=image, reply=reply)
    partition_changes: dict[TopicPartition, PartitionImage] = {}
    altered_partitions = []
    for isr_change in command.partitions:
        topic = image.topic_by_id(isr_change.topic_id)
        error = (
            ErrorCode.unknown_topic_id
            if topic is None
            else _refusal(image, topic.name, command.broker_id, isr_change)
        )
        if topic is None or error is not ErrorCode.none:
            altered_partitions.append(_refused_partition(isr_change, error))
            continue
        topic_partition = TopicPartition(topic.name, isr_change.topic_partition.partition)
        partition = topic.partitions[topic_partition.partition]
        changed_partition = updated_partition(
            image,
            topic_partition,
            settings,
            target_isr=tuple(replica for replica, _ in isr_change.new_isr),
            is_recovering=True,
        )
        if changed_partition is not None:
            partition_changes[topic_partition] = partition = changed_partition
        # A leader may not depose itself, but an ISR that ends a reassignment can. The leader gets
        # this
        # error although the change was made.
        altered_partitions.append(
            _altered_partition(isr_change, partition)
            if partition.leader == command.broker_id
            else _refused_partition(isr_change, ErrorCode.new_leader_elected)
        )
    return IsrOutcome(
        image=image.with_partitions(partition_changes),
        reply=AlterPartitionReply(partitions=tuple(altered_partitions)),
    )


def _refusal(image: ClusterImage, topic: str, sender: BrokerId, isr_change: IsrChange) -> ErrorCode:
    """The error of a change (ReplicationControlManager.validateAlterPartitionData); none for a
    valid one.
    """
    partition = image.partition(TopicPartition(topic, isr_change.topic_partition.partition))
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if (
        isr_change.leader_epoch > partition.leader_epoch
        or isr_change.partition_epoch > partition.partition_epoch
    ):
        # The sender has newer metadata than this controller, so this can't be the active one.
        return ErrorCode.not_controller
    if isr_change.leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if sender != partition.leader:
        return ErrorCode.invalid_request
    if isr_change.partition_epoch < partition.partition_epoch:
        return ErrorCode.invalid_update_version
    isr = [replica for replica, _ in isr_change.new_isr]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        return ErrorCode.invalid_request
    if partition.leader not in isr:
        return ErrorCode.invalid_request
    if any(not _may_join(image, replica, epoch) for replica, epoch in isr_change.new_isr):
        return ErrorCode.ineligible_replica
    return ErrorCode.none


def _may_join(image: ClusterImage, replica_id: BrokerId, epoch: int) -> bool:
    if not image.is_active(replica_id):
        return False
    return epoch in (-1, image.brokers[replica_id].epoch)


def _refused_partition(isr_change: IsrChange, error: ErrorCode) -> AlteredPartition:
    return AlteredPartition(
        topic_id=isr_change.topic_id, topic_partition=isr_change.topic_partition, error=error
    )


def _altered_partition(isr_change: IsrChange, partition: PartitionImage) -> AlteredPartition:
    return AlteredPartition(
        topic_id=isr_change.topic_id,
        topic_partition=isr_change.topic_partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
    )
