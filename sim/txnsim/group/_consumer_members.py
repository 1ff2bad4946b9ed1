"""Members of the consumer protocol (KIP-848): find the sender of a heartbeat and check it. Pure.

Counterpart in Kafka: GroupMetadataManager.getOrMaybeSubscribe*ConsumerGroupMember,
throwIfConsumerGroupMemberEpochIsInvalid, replaceMember, and
GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import ConsumerHeartbeat
from txnsim.group.consumer_group import (
    LEFT_EPOCH,
    LEFT_FOR_A_WHILE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
)
from txnsim.group.consumer_records import (
    ConsumerRecord,
    CurrentAssignmentDeleted,
    CurrentAssignmentStored,
    Epochs,
    SubscriptionDeleted,
    SubscriptionStored,
    TargetDeleted,
    TargetStored,
    TopicIdPartition,
)
from txnsim.releases.rules import Rules


def check_heartbeat(command: ConsumerHeartbeat, *, assignors: tuple[str, ...]) -> Rejection | None:
    """Errors of a heartbeat that don't depend on the group
    (GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid).
    """
    epoch = command.member_epoch
    complaint: str | None = None
    if (command.member_id_required or epoch > 0 or epoch == LEFT_EPOCH) and not command.member_id:
        complaint = "MemberId can't be empty."
    elif not command.group_id:
        complaint = "GroupId can't be empty."
    elif command.instance_id == "":
        complaint = "InstanceId can't be empty."
    elif command.rack_id == "":
        complaint = "RackId can't be empty."
    elif epoch == 0:
        complaint = _join_complaint(command)
    elif epoch == LEFT_FOR_A_WHILE_EPOCH and command.instance_id is None:
        complaint = "InstanceId can't be null."
    elif epoch < LEFT_FOR_A_WHILE_EPOCH:
        complaint = "MemberEpoch is invalid."
    if complaint is not None:
        return Rejection(error=ErrorCode.invalid_request, reason=complaint)
    assignor = command.server_assignor
    if assignor is not None and assignor not in assignors:
        return Rejection(
            error=ErrorCode.unsupported_assignor,
            reason=f"ServerAssignor {assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )
    return None


def member_of(
    group: ConsumerGroup,
    command: ConsumerHeartbeat,
    records: list[ConsumerRecord],
    *,
    make_id: Callable[[], str],
    release_rules: Rules,
) -> ConsumerMember | Rejection:
    """The member; a new one if it joins.

    A static member that returns takes over the state of its previous instance: the records to write
    first are added to ``records``.
    """
    member_id = command.member_id or make_id()
    instance_id = command.instance_id
    if command.member_epoch != 0:
        member = sender_of(group, member_id, instance_id)
        if isinstance(member, Rejection):
            return member
        return _check_epoch(member, command) or member
    static_member = None if instance_id is None else group.static_member(instance_id)
    if static_member is None:
        known_member = group.members.get(member_id)
        if known_member is None:
            return ConsumerMember(member_id=member_id)
        may_rejoin = release_rules.fenced_members_join_again or command.classic is not None
        return known_member if may_rejoin else _check_epoch(known_member, command) or known_member
    speaks_classic = static_member.uses_classic_protocol or command.classic is not None
    if not speaks_classic and static_member.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
        return Rejection(
            error=ErrorCode.unreleased_instance_id,
            reason=f"Static member {member_id} with instance id {instance_id} "
            "cannot join the group because the instance id is owned by "
            f"{static_member.member_id} member.",
        )
    return _replace_static_member(group, static_member, member_id, records)


def sender_of(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | Rejection:
    """An existing member; an instance id belongs to one member at a time."""
    if instance_id is None:
        return group.members.get(member_id) or group.unknown_member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        return Rejection(
            error=ErrorCode.unknown_member_id, reason=f"Instance id {instance_id} is unknown."
        )
    if member.member_id != member_id:
        return Rejection(
            error=ErrorCode.fenced_instance_id,
            reason=f"Static member {member_id} with instance id {instance_id} was "
            f"fenced by member {member.member_id}.",
        )
    return member


def member_after_heartbeat(member: ConsumerMember, command: ConsumerHeartbeat) -> ConsumerMember:
    """The member with the changes that the heartbeat brings."""
    topic_names = command.topic_names
    rebalance_timeout_ms = command.rebalance_timeout_ms
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if command.instance_id is None else command.instance_id,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if rebalance_timeout_ms == -1
        else rebalance_timeout_ms,
        server_assignor=member.server_assignor
        if command.server_assignor is None
        else command.server_assignor,
        topic_names=member.topic_names if topic_names is None else frozenset(topic_names),
        topic_regex=member.topic_regex
        if command.topic_regex is None
        else command.topic_regex or None,
        client_id=command.client_id,
        client_host=command.client_host,
        classic=command.classic,
    )


def _join_complaint(command: ConsumerHeartbeat) -> str | None:
    if command.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if command.owned_partitions is None or command.owned_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if command.topic_names is None and command.topic_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    return None


def _check_epoch(member: ConsumerMember, command: ConsumerHeartbeat) -> Rejection | None:
    """Check the member's epoch: a member at its previous epoch may have missed an answer; any other
    epoch is a zombie's.
    """
    epoch = command.member_epoch
    if epoch == member.member_epoch:
        return None
    if (
        epoch < member.member_epoch
        and epoch == member.previous_member_epoch
        and command.owned_partitions is not None
        and command.owned_partitions <= set(member.assigned)
    ):
        return None
    comparison_word = "greater" if epoch > member.member_epoch else "smaller"
    return Rejection(
        error=ErrorCode.fenced_member_epoch,
        reason=f"The consumer group member has a {comparison_word} member epoch ({epoch}) than the"
        f" one known by the group coordinator ({member.member_epoch}). The member must abandon"
        " all its partitions and rejoin.",
    )


def _replace_static_member(
    group: ConsumerGroup, old_member: ConsumerMember, new_id: str, records: list[ConsumerRecord]
) -> ConsumerMember:
    """Transfer the state of a static member to its new instance
    (GroupMetadataManager.replaceMember).
    """
    group_id = group.group_id
    new_member = msgspec.structs.replace(
        old_member, member_id=new_id, member_epoch=0, previous_member_epoch=0
    )
    records += member_tombstones(group_id, old_member.member_id)
    records.append(subscription_record(group_id, new_member))
    records.append(
        target_record(group, new_id, group.target.get(old_member.member_id, frozenset()))
    )
    records.append(current_assignment_record(group_id, new_member))
    return new_member


def member_tombstones(group_id: str, member_id: str) -> tuple[ConsumerRecord, ...]:
    """All tombstones of a member in deletion order."""
    tombstone_classes = (CurrentAssignmentDeleted, TargetDeleted, SubscriptionDeleted)
    return tuple(
        tombstone_class(group_id=group_id, member_id=member_id)
        for tombstone_class in tombstone_classes
    )


def subscription_record(group_id: str, member: ConsumerMember) -> SubscriptionStored:
    """The record of a member for the log."""
    return SubscriptionStored(
        group_id=group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(member.topic_names)),
        topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic=member.classic,
    )


def current_assignment_record(group_id: str, member: ConsumerMember) -> CurrentAssignmentStored:
    """The record of a member's assignment for the log."""
    return CurrentAssignmentStored(
        group_id=group_id,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned=_sorted_epochs(member.assigned),
        pending_revocation=_sorted_epochs(member.pending_revocation),
    )


def _sorted_epochs(assigned_epochs: Mapping[TopicIdPartition, int]) -> Epochs:
    return tuple(sorted((topic, index, epoch) for (topic, index), epoch in assigned_epochs.items()))


def target_record(
    group: ConsumerGroup, member_id: str, partitions: frozenset[TopicIdPartition]
) -> TargetStored:
    """The record of a member's target for the log."""
    return TargetStored(
        group_id=group.group_id, member_id=member_id, partitions=tuple(sorted(partitions))
    )
