"""Members of streams groups (KIP-1071): find the sender of a heartbeat and check it. Pure.

Counterpart in Kafka: GroupMetadataManager.getOrMaybeCreate*StreamsGroupMember,
throwIfStreamsGroupMemberEpochIsInvalid, replaceStreamsMember, and
GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer_group import LEFT_FOR_A_WHILE_EPOCH
from txnsim.group.streams._records import (
    StreamsCurrentAssignmentDeleted,
    StreamsCurrentAssignmentStored,
    StreamsMemberDeleted,
    StreamsMemberStored,
    StreamsRecord,
    StreamsTargetDeleted,
    StreamsTargetStored,
)
from txnsim.group.streams.commands import StreamsHeartbeat
from txnsim.group.streams.group import StreamsGroup, StreamsGroupMember
from txnsim.group.streams.tasks import NO_TASKS, MemberTasks, Tasks
from txnsim.releases.rules import LATEST_RULES, Rules


def check_heartbeat(
    command: StreamsHeartbeat, release_rules: Rules = LATEST_RULES
) -> Rejection | None:
    """Errors of a heartbeat that don't depend on the group."""
    unsupported_field = (
        None if release_rules.streams_heartbeats_are_whole else _unsupported_before_4_4(command)
    )
    if unsupported_field is not None:
        return _invalid(unsupported_field)
    subtopologies = command.topology[1] if command.topology is not None else ()
    if any(subtopology.source_topic_regex for subtopology in subtopologies):
        return _invalid("Regular expressions for source topics are not supported yet.")
    field_texts = {
        "MemberId": command.member_id,
        "GroupId": command.group_id,
        "InstanceId": command.instance_id,
        "RackId": command.rack_id,
    }
    for field_name, field_text in field_texts.items():
        if field_text is not None and not field_text.strip():
            return _invalid(f"{field_name} can't be empty.")
    epoch = command.member_epoch
    if epoch == 0:
        return _check_join(command)
    if epoch == LEFT_FOR_A_WHILE_EPOCH and command.instance_id is None:
        return _invalid("InstanceId can't be null.")
    if epoch < LEFT_FOR_A_WHILE_EPOCH:
        return _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    task_lists = (command.active, command.standby, command.warmup)
    if None in task_lists and task_lists != (None, None, None):
        return _invalid("If one task-type is non-null, all must be non-null.")
    if command.topology is not None:
        return _invalid("Topology can only be provided when (re-)joining.")
    return None


def _unsupported_before_4_4(command: StreamsHeartbeat) -> str | None:
    """Refusal of fields that brokers up to 4.3 do not support."""
    fields_by_refusal = {
        "Static membership is not yet supported.": command.instance_id,
        "TaskOffsets are not supported yet.": command.task_offsets,
        "TaskEndOffsets are not supported yet.": command.task_end_offsets,
        "WarmupTasks are not supported yet.": command.warmup or None,
    }
    return next(
        (
            refusal_text
            for refusal_text, field_value in fields_by_refusal.items()
            if field_value is not None
        ),
        None,
    )


def _check_join(command: StreamsHeartbeat) -> Rejection | None:
    if command.rebalance_timeout_ms == -1:
        return _invalid("RebalanceTimeoutMs must be provided in first request.")
    owned_by_kind = {"Active": command.active, "Standby": command.standby, "Warmup": command.warmup}
    for task_kind, tasks in owned_by_kind.items():
        if tasks is None or tasks:
            return _invalid(f"{task_kind}Tasks must be empty when (re-)joining.")
    if command.topology is None:
        return _invalid("Topology must be non-null when (re-)joining.")
    for subtopology in command.topology[1]:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                return Rejection(
                    error=ErrorCode.streams_invalid_topology,
                    reason=f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}.",
                )
    return None


def _invalid(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_request, reason=reason)


def member_of(
    group: StreamsGroup, command: StreamsHeartbeat, records: list[StreamsRecord]
) -> StreamsGroupMember | Rejection:
    """The member; a new one if it joins.

    A static member that returns takes over the state of its previous instance: the records to write
    first are added to ``records``.
    """
    member_id, instance_id = command.member_id, command.instance_id
    if command.member_epoch != 0:
        member = sender_of(group, member_id, instance_id)
        if isinstance(member, Rejection):
            return member
        return _check_epoch(member, command) or member
    static_member = None if instance_id is None else group.static_member(instance_id)
    if static_member is None:
        return group.members.get(member_id) or StreamsGroupMember(member_id=member_id)
    if static_member.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
        return Rejection(
            error=ErrorCode.unreleased_instance_id,
            reason=f"Static member {member_id} with instance id {instance_id} "
            "cannot join the group because the instance id is owned by "
            f"{static_member.member_id} member.",
        )
    return _replace_static_member(group, static_member, member_id, records)


def sender_of(
    group: StreamsGroup, member_id: str, instance_id: str | None
) -> StreamsGroupMember | Rejection:
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


def _check_epoch(member: StreamsGroupMember, command: StreamsHeartbeat) -> Rejection | None:
    """Check the member's epoch: a member at its previous epoch may have missed an answer; any other
    epoch is a zombie's.
    """
    epoch, owned_tasks = command.member_epoch, command.owned_tasks
    if epoch == member.member_epoch:
        return None
    is_late = epoch == member.previous_member_epoch and epoch < member.member_epoch
    if is_late and owned_tasks is not None and _has_only(member.assigned, owned_tasks):
        return None
    comparison_word = "greater" if epoch > member.member_epoch else "smaller"
    return Rejection(
        error=ErrorCode.fenced_member_epoch,
        reason=f"The streams group member has a {comparison_word} member epoch ({epoch}) than the"
        f" one known by the group coordinator ({member.member_epoch}). The member must abandon"
        " all its partitions and rejoin.",
    )


def _has_only(assigned_tasks: MemberTasks, owned_tasks: Tasks) -> bool:
    return (
        owned_tasks.active <= assigned_tasks.active.keys()
        and owned_tasks.standby <= assigned_tasks.standby
        and owned_tasks.warmup <= assigned_tasks.warmup
    )


def update_member(member: StreamsGroupMember, command: StreamsHeartbeat) -> StreamsGroupMember:
    """The member with the changes that the heartbeat brings."""
    is_joining = command.member_epoch == 0
    timeout_ms, epoch_and_subtopologies = command.rebalance_timeout_ms, command.topology
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if command.instance_id is None else command.instance_id,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch
        if epoch_and_subtopologies is None
        else epoch_and_subtopologies[0],
        client_id=command.client_id,
        client_host=command.client_host,
        process_id=member.process_id if command.process_id is None else command.process_id,
        client_tags=member.client_tags if command.client_tags is None else command.client_tags,
        endpoint=command.endpoint if is_joining else command.endpoint or member.endpoint,
    )


def _replace_static_member(
    group: StreamsGroup, old_member: StreamsGroupMember, new_id: str, records: list[StreamsRecord]
) -> StreamsGroupMember:
    """Transfer the state of a static member to its new instance."""
    group_id = group.group_id
    new_member = msgspec.structs.replace(
        old_member, member_id=new_id, member_epoch=0, previous_member_epoch=0
    )
    records += member_tombstones(group_id, old_member.member_id)
    records.append(member_record(group_id, new_member))
    records.append(
        target_record(group_id, new_id, group.target.get(old_member.member_id, NO_TASKS))
    )
    records.append(current_assignment_record(group_id, new_member))
    return new_member


def member_tombstones(group_id: str, member_id: str) -> tuple[StreamsRecord, ...]:
    """All tombstones of a member in deletion order."""
    return (
        StreamsCurrentAssignmentDeleted(group_id=group_id, member_id=member_id),
        StreamsTargetDeleted(group_id=group_id, member_id=member_id),
        StreamsMemberDeleted(group_id=group_id, member_id=member_id),
    )


def member_record(group_id: str, member: StreamsGroupMember) -> StreamsMemberStored:
    """The record of a member for the log."""
    return StreamsMemberStored(
        group_id=group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        endpoint=member.endpoint,
        client_tags=tuple(sorted(member.client_tags.items())),
    )


def target_record(group_id: str, member_id: str, tasks: Tasks) -> StreamsTargetStored:
    """The record of a member's target for the log."""
    return StreamsTargetStored(
        group_id=group_id,
        member_id=member_id,
        active=tuple(sorted(tasks.active)),
        standby=tuple(sorted(tasks.standby)),
        warmup=tuple(sorted(tasks.warmup)),
    )


def current_assignment_record(
    group_id: str, member: StreamsGroupMember
) -> StreamsCurrentAssignmentStored:
    """The record of a member's current tasks for the log."""
    assigned_tasks, revoked_tasks = member.assigned, member.pending_revocation
    return StreamsCurrentAssignmentStored(
        group_id=group_id,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active=_sorted_epochs(assigned_tasks),
        standby=tuple(sorted(assigned_tasks.standby)),
        warmup=tuple(sorted(assigned_tasks.warmup)),
        active_revoked=_sorted_epochs(revoked_tasks),
        standby_revoked=tuple(sorted(revoked_tasks.standby)),
        warmup_revoked=tuple(sorted(revoked_tasks.warmup)),
    )


def _sorted_epochs(assigned_tasks: MemberTasks) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        sorted(
            (subtopology_id, index, epoch)
            for (subtopology_id, index), epoch in assigned_tasks.active.items()
        )
    )
