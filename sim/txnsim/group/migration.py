"""Conversion of a group with members from the classic to the consumer protocol and back (KIP-848).

A classic group becomes one of the consumer protocol when the first member that uses it joins. Its
members keep using the classic protocol within the new group, and their assignment becomes the
target. The group becomes classic again when only classic members are left.

Counterpart in Kafka: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup,
ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.group._consumer_members import (
    current_assignment_record,
    subscription_record,
    target_record,
)
from txnsim.group._member_counts import NAMES_MAX
from txnsim.group._topics_hash import topics_hash
from txnsim.group.classic_group import ClassicGroup, ClassicMember
from txnsim.group.consumer_group import ConsumerGroup, ConsumerMember
from txnsim.group.consumer_records import (
    ClassicMetadata,
    ConsumerRecord,
    EpochStored,
    TargetEpochStored,
    TopicIdPartition,
)
from txnsim.group.state import CONSUMER_PROTOCOL_TYPE, ClassicGroupState
from txnsim.group.subscription import (
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from txnsim.metadata.image import ClusterImage

DEVIATIONS: Final = (
    "A consumer group is not downgraded at once when a static classic member takes the place of "
    "its last member of the consumer protocol, but when the next member leaves.",
)


def upgrade(
    group: ClassicGroup, *, max_size: int, image: ClusterImage
) -> tuple[ConsumerRecord, ...] | Rejection:
    """The records of a consumer group converted from a classic one; the generation becomes the
    epoch.
    """
    if group.not_upgradable is None:
        records_or_rejection = _upgrade_records(group, max_size=max_size, image=image)
        if not isinstance(records_or_rejection, Rejection):
            return records_or_rejection
        group.not_upgradable = (
            records_or_rejection  # the next heartbeat need not read everything again
        )
    return group.not_upgradable


def _upgrade_records(
    group: ClassicGroup, *, max_size: int, image: ClusterImage
) -> tuple[ConsumerRecord, ...] | Rejection:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return upgrade_refusal(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > max_size:
        return upgrade_refusal(group, "the group size exceeds the consumer group maximum size.")
    upgraded_members: list[tuple[ConsumerMember, frozenset[TopicIdPartition]]] = []
    element_count = 0
    for member in group.members.values():
        upgraded_member = _upgrade_member(group, member, image)
        if isinstance(upgraded_member, Rejection):
            return upgraded_member
        upgraded_members.append(upgraded_member)
        element_count += len(upgraded_member[0].topic_names) + len(upgraded_member[1])
        if element_count > NAMES_MAX:
            return upgrade_refusal(
                group, "its members have more topics and partitions than is read."
            )
    empty_group = ConsumerGroup(group.group_id)
    topic_names = {
        topic_name for member, _ in upgraded_members for topic_name in member.topic_names
    }
    return (
        *(subscription_record(group.group_id, member) for member, _ in upgraded_members),
        EpochStored(
            group_id=group.group_id,
            group_epoch=group.generation,
            metadata_hash=topics_hash(topic_names, image),
        ),
        *(
            target_record(empty_group, member.member_id, assigned_partitions)
            for member, assigned_partitions in upgraded_members
        ),
        TargetEpochStored(group_id=group.group_id, assignment_epoch=group.generation),
        *(current_assignment_record(group.group_id, member) for member, _ in upgraded_members),
    )


def _upgrade_member(
    group: ClassicGroup, member: ClassicMember, image: ClusterImage
) -> tuple[ConsumerMember, frozenset[TopicIdPartition]] | Rejection:
    protocol = group.protocol or member.protocols[0][0]
    subscription = read_subscription(member.metadata(protocol))
    assignment = read_assignment(member.assignment)
    if subscription is None or assignment is None:
        return upgrade_refusal(group, "the embedded consumer protocol is malformed.")
    if assignment.has_user_data:
        return upgrade_refusal(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade.",
        )
    assigned_partitions = partitions_by_id(assignment.partitions, image)
    return (
        ConsumerMember(
            member_id=member.member_id,
            member_epoch=group.generation,
            previous_member_epoch=group.generation,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMetadata(
                session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
            ),
            assigned=dict.fromkeys(assigned_partitions, group.generation),
        ),
        assigned_partitions,
    )


def may_downgrade(group: ConsumerGroup, leaving_ids: Collection[str], *, max_size: int) -> bool:
    """Whether only classic members are left, and they can form a classic group."""
    remaining_count = len(group.members) - len(leaving_ids)
    classic_count = group.tally.classic - sum(
        group.members[member_id].uses_classic_protocol for member_id in leaving_ids
    )
    return 0 < remaining_count <= max_size and classic_count == remaining_count


def downgrade(
    group: ConsumerGroup, leaving_ids: Collection[str], *, image: ClusterImage, now_ms: int
) -> ClassicGroup:
    """The classic group of the remaining members, with their targets."""
    classic_group = ClassicGroup(group.group_id, state=ClassicGroupState.STABLE, now_ms=now_ms)
    classic_group.generation = group.epoch
    for member in group.members.values():
        if member.member_id in leaving_ids:
            continue
        classic_metadata = member.classic
        assert classic_metadata is not None, "only classic members are left"
        classic_group.add(
            ClassicMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=classic_metadata.session_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=classic_metadata.protocols,
            ),
            waiter=None,
        )
    classic_group.adopt_protocol(classic_group.select_protocol())
    for group_member in classic_group.members.values():
        target_partitions = group.target.get(group_member.member_id, frozenset())
        group_member.assignment = assignment_for(
            group_member.metadata(classic_group.protocol), target_partitions, image
        )
    return classic_group


def assignment_for(
    metadata: bytes, partitions: Iterable[TopicIdPartition], image: ClusterImage
) -> bytes:
    """Encode partitions as a classic member's assignment."""
    indexes_by_topic: dict[str, list[int]] = defaultdict(list)
    for topic_id, index in sorted(partitions):
        topic_name = image.topic_names.get(topic_id)
        if topic_name is not None:
            indexes_by_topic[topic_name].append(index)
    return write_assignment(version_of(metadata), indexes_by_topic)


def partitions_by_id(
    partitions: Iterable[tuple[str, int]], image: ClusterImage
) -> frozenset[TopicIdPartition]:
    """Partitions by topic id, without those of deleted topics."""
    return frozenset(
        (image.topics[topic].topic_id, index)
        for topic, index in partitions
        if topic in image.topics
    )


def upgrade_refusal(group: ClassicGroup, cause: str) -> Rejection:
    """The rejection of a heartbeat to a group that stays classic."""
    return Rejection(
        error=ErrorCode.group_id_not_found,
        reason=f"Cannot upgrade classic group {group.group_id} to consumer group because {cause}",
    )
