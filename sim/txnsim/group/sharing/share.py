"""Share groups: decisions on heartbeats and sessions (KIP-932). Pure.

Members use the heartbeat to join, subscribe, get their assignment, and leave. It may also cause
share state to be initialised: partitions are assigned once the share coordinator has done that.

Counterpart in Kafka: the share half of GroupMetadataManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.assignors import AssignableMember, assign_simple
from txnsim.group.commands import HeartbeatReply, TimerCancelled, TimerKind, TimerSet, session_timer
from txnsim.group.consumer_group import LEFT_EPOCH
from txnsim.group.consumer_records import (
    ShareCurrentAssignmentDeleted,
    ShareCurrentAssignmentStored,
    ShareEpochStored,
    ShareMemberDeleted,
    ShareMemberStored,
    ShareRecord,
    ShareTargetDeleted,
    ShareTargetEpochStored,
    ShareTargetStored,
    TopicIdPartition,
)
from txnsim.group.sharing.share_group import ShareGroup, ShareGroupMember
from txnsim.group.sharing.share_topics import (
    states_to_initialize,
    uninitialized_topics,
    with_initializing,
)
from txnsim.interbroker.share_state import InitializeShareState
from txnsim.metadata.group_configs import GroupIntervals
from txnsim.metadata.image import ClusterImage


class ShareHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Join, stay, change the subscription, or leave; None means unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    """0: join; -1: leave."""
    rack_id: str | None = None
    topic_names: Collection[str] | None = None
    client_id: str
    client_host: str


class ShareHeartbeatOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a heartbeat or a timer."""

    records: tuple[ShareRecord, ...] = ()
    reply: HeartbeatReply | None = None
    effects: tuple[TimerSet | TimerCancelled, ...] = ()
    states_to_initialize: tuple[InitializeShareState, ...] = ()
    """Commands to share coordinators, to be sent once the records are in the log."""


class ShareGroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a coordinator's configuration says about share groups."""

    max_size: int = 200
    initialize_retry_ms: int = 30_000


class ShareProtocol(msgspec.Struct, kw_only=True, eq=False):
    """The rules of share groups; the caller keeps the groups."""

    settings: ShareGroupSettings
    intervals_of: Callable[[str], GroupIntervals]
    """Group id -> the group's intervals."""

    # Heartbeat

    def check(self, command: ShareHeartbeat) -> Rejection | None:
        """Errors of a heartbeat that don't depend on the group
        (GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid).
        """
        complaint: str | None = None
        if not command.member_id.strip():
            complaint = "MemberId can't be empty."
        elif not command.group_id.strip():
            complaint = "GroupId can't be empty."
        elif command.rack_id is not None and not command.rack_id.strip():
            complaint = "RackId can't be empty."
        elif command.member_epoch == 0 and not command.topic_names:
            complaint = "SubscribedTopicNames must be set in first request."
        elif command.member_epoch < LEFT_EPOCH:
            complaint = "MemberEpoch is invalid."
        if complaint is None:
            return None
        return Rejection(error=ErrorCode.invalid_request, reason=complaint)

    def heartbeat(
        self, group: ShareGroup, command: ShareHeartbeat, *, image: ClusterImage, now_ms: int
    ) -> ShareHeartbeatOutcome | Rejection:
        """Decide on the heartbeat of a member that joins or stays."""
        group_id = group.group_id
        member = group.members.get(command.member_id)
        if member is None and len(group.members) >= self.settings.max_size:
            return self._refuse_another_member()
        if member is None:
            if command.member_epoch != 0:
                return group.unknown_member(command.member_id)
            member = ShareGroupMember(member_id=command.member_id)
        updated_member = _member_after_heartbeat(group, member, command)
        refusal = _check_epoch(member, command.member_epoch) or group.tally.subscription_refusal(
            updated_member.topic_names
        )
        if refusal is not None:
            return refusal
        records: list[ShareRecord] = []
        if updated_member != member:
            records.append(_member_record(group_id, updated_member))
        member_by_id = {**group.members, updated_member.member_id: updated_member}
        bumps_epoch = updated_member.topic_names != member.topic_names or _awaits_assignment(group)
        epoch = group.epoch
        if bumps_epoch or group.refreshed_version != image.offset:
            new_hash = group.tally.topics_hash(
                image, leaving_members=(member,), joining_members=(updated_member,)
            )
            bumps_epoch = bumps_epoch or new_hash != group.metadata_hash
            if bumps_epoch:
                epoch += 1
                records.append(
                    ShareEpochStored(group_id=group_id, group_epoch=epoch, metadata_hash=new_hash)
                )
            else:
                group.refreshed_version = image.offset
        assignment_epoch, target_partitions = self._due_target(
            group, member_by_id, updated_member.member_id, epoch, image, now_ms, records
        )
        reconciled = _reconcile(
            updated_member, assignment_epoch, target_partitions, image, is_new_epoch=bumps_epoch
        )
        if reconciled != updated_member:
            records.append(_current_assignment_record(group_id, reconciled))
        topic_names = group.tally.topics_after(
            image, leaving_members=(member,), joining_members=(updated_member,)
        )
        awaits_state = now_ms - group.topics_stored_at_ms < self.settings.initialize_retry_ms
        topics_to_initialize = uninitialized_topics(
            group, topic_names, image, awaits_state=awaits_state
        )
        if topics_to_initialize:
            records.append(with_initializing(group, topics_to_initialize, now_ms=now_ms))
        # A member that joins names its topics.
        has_assignment = command.topic_names is not None or reconciled.assigned != member.assigned
        intervals = self.intervals_of(group_id)
        return ShareHeartbeatOutcome(
            records=tuple(records),
            reply=HeartbeatReply(
                member_id=reconciled.member_id,
                member_epoch=reconciled.member_epoch,
                assignment=tuple(sorted(reconciled.assigned)) if has_assignment else None,
                heartbeat_interval_ms=intervals.heartbeat_interval_ms,
            ),
            effects=(session_timer(group_id, reconciled.member_id, intervals.session_timeout_ms),),
            states_to_initialize=states_to_initialize(group, topics_to_initialize, epoch),
        )

    def _refuse_another_member(self) -> Rejection:
        return Rejection(
            error=ErrorCode.group_max_size_reached,
            reason="The share group has reached its maximum capacity of "
            f"{self.settings.max_size} members.",
        )

    def _due_target(
        self,
        group: ShareGroup,
        member_by_id: Mapping[str, ShareGroupMember],
        member_id: str,
        epoch: int,
        image: ClusterImage,
        now_ms: int,
        records: list[ShareRecord],
    ) -> tuple[int, frozenset[TopicIdPartition]]:
        """The epoch and the partitions of a member's target, which is computed if it is due."""
        if group.assignment_epoch >= epoch or not self._may_assign(group, now_ms):
            return group.assignment_epoch, group.target.get(member_id, frozenset())
        target_by_member = _assign_targets(group, member_by_id.values(), image)
        group_id = group.group_id
        records += (
            ShareTargetStored(
                group_id=group_id, member_id=changed_member_id, partitions=tuple(sorted(partitions))
            )
            for changed_member_id, partitions in target_by_member.items()
            if group.target.get(changed_member_id) != partitions
        )
        records.append(
            ShareTargetEpochStored(group_id=group_id, assignment_epoch=epoch, timestamp_ms=now_ms)
        )
        return epoch, target_by_member[member_id]

    def _may_assign(self, group: ShareGroup, now_ms: int) -> bool:
        interval_ms = self.intervals_of(group.group_id).assignment_interval_ms
        if group.assigned_at_ms == 0 or interval_ms == 0:
            return True
        return now_ms >= group.assigned_at_ms + interval_ms

    # Leaving

    def leave(
        self, group: ShareGroup, command: ShareHeartbeat, *, image: ClusterImage
    ) -> ShareHeartbeatOutcome | Rejection:
        """Remove a member that leaves."""
        if command.member_id not in group.members:
            return group.unknown_member(command.member_id)
        reply = HeartbeatReply(member_id=command.member_id, member_epoch=command.member_epoch)
        return self._remove_member(group, command.member_id, reply, image)

    def remove_late_member(
        self, group: ShareGroup, member_id: str, *, image: ClusterImage
    ) -> ShareHeartbeatOutcome:
        """Remove a member whose session has expired."""
        if member_id not in group.members:
            return ShareHeartbeatOutcome()
        return self._remove_member(group, member_id, None, image)

    def timer_after_load(self, group: ShareGroup, member_id: str) -> TimerSet:
        """The session of a member that a new coordinator loads from the log."""
        return session_timer(
            group.group_id, member_id, self.intervals_of(group.group_id).session_timeout_ms
        )

    def _remove_member(
        self, group: ShareGroup, member_id: str, reply: HeartbeatReply | None, image: ClusterImage
    ) -> ShareHeartbeatOutcome:
        group_id, epoch = group.group_id, group.epoch + 1
        leaver = group.members[member_id]
        records: list[ShareRecord] = [
            ShareCurrentAssignmentDeleted(group_id=group_id, member_id=member_id),
            ShareTargetDeleted(group_id=group_id, member_id=member_id),
            ShareMemberDeleted(group_id=group_id, member_id=member_id),
            ShareEpochStored(
                group_id=group_id,
                group_epoch=epoch,
                metadata_hash=group.tally.topics_hash(image, leaving_members=(leaver,)),
            ),
        ]
        if len(group.members) == 1 and group.rules.share_groups_assign_nobody:
            records.append(ShareTargetEpochStored(group_id=group_id, assignment_epoch=epoch))
        session_end = TimerCancelled(
            kind=TimerKind.HEARTBEAT, group_id=group_id, member_id=member_id
        )
        return ShareHeartbeatOutcome(records=tuple(records), reply=reply, effects=(session_end,))


def _check_epoch(member: ShareGroupMember, epoch: int) -> Rejection | None:
    """The error for a heartbeat with a wrong member epoch
    (GroupMetadataManager.throwIfShareGroupMemberEpochIsInvalid).
    """
    current_epoch, previous_epoch = member.member_epoch, member.previous_member_epoch
    comparison_word, mismatch_text = "greater", ""
    if epoch <= current_epoch:
        if epoch in (0, current_epoch, previous_epoch):
            return None
        comparison_word = "smaller"
        mismatch_text = f", and it does not match the previous member epoch ({previous_epoch})"
    return Rejection(
        error=ErrorCode.fenced_member_epoch,
        reason=f"The share group member has a {comparison_word} member epoch ({epoch}) than the"
        f" one known by the group coordinator ({current_epoch}){mismatch_text}. The member must"
        " abandon all its partitions and rejoin.",
    )


def _member_after_heartbeat(
    group: ShareGroup, member: ShareGroupMember, command: ShareHeartbeat
) -> ShareGroupMember:
    """The member with the changes that the heartbeat brings."""
    topic_names = command.topic_names
    return msgspec.structs.replace(
        member,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        topic_names=member.topic_names
        if topic_names is None
        else group.tally.shared_names(frozenset(topic_names)),
    )


def _awaits_assignment(group: ShareGroup) -> bool:
    """Whether the target lacks initialised partitions of a subscribed topic, or has partitions that
    are not; False while a new target is due anyway (initializedAssignmentPending).
    """
    if group.assignment_epoch < group.epoch or not group.initialized:
        return False
    topics = [
        topic for topic in group.initialized.values() if group.has_subscriber(topic.topic_name)
    ]
    assigned_indexes: dict[uuid.UUID, set[int]] = {topic.topic_id: set() for topic in topics}
    for partitions in group.target.values():
        for topic_id, index in partitions:
            if topic_id in assigned_indexes:
                assigned_indexes[topic_id].add(index)
    return any(assigned_indexes[topic.topic_id] != set(topic.partitions) for topic in topics)


def _assign_targets(
    group: ShareGroup, members: Iterable[ShareGroupMember], image: ClusterImage
) -> dict[str, frozenset[TopicIdPartition]]:
    subscribers = [
        AssignableMember(
            member_id=member.member_id,
            topics=_topic_ids(member, image),
            previous_partitions=group.target.get(member.member_id, frozenset()),
        )
        for member in members
    ]
    assignable_indexes = {
        topic_id: [index for index in share_topic.partitions if index < len(topic.partitions)]
        for topic_id, share_topic in group.initialized.items()
        if (topic := image.topic_by_id(topic_id)) is not None
    }
    return assign_simple(subscribers, assignable_indexes)


def _topic_ids(member: ShareGroupMember, image: ClusterImage) -> frozenset[uuid.UUID]:
    existing_topics = image.existing_topics(member.topic_names)
    return frozenset(image.topics[topic_name].topic_id for topic_name in existing_topics)


def _reconcile(
    member: ShareGroupMember,
    assignment_epoch: int,
    target_partitions: frozenset[TopicIdPartition],
    image: ClusterImage,
    *,
    is_new_epoch: bool,
) -> ShareGroupMember:
    """The member at its target, without topics to which it no longer subscribes
    (ShareGroupAssignmentBuilder).
    """
    is_behind = member.member_epoch != assignment_epoch
    if not is_behind and not is_new_epoch:
        return member
    topic_ids = _topic_ids(member, image)
    member = msgspec.structs.replace(
        member,
        assigned=frozenset(
            partition for partition in target_partitions if partition[0] in topic_ids
        ),
    )
    if not is_behind:
        return member
    return msgspec.structs.replace(
        member, member_epoch=assignment_epoch, previous_member_epoch=member.member_epoch
    )


def _member_record(group_id: str, member: ShareGroupMember) -> ShareMemberStored:
    return ShareMemberStored(
        group_id=group_id,
        member_id=member.member_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(member.topic_names)),
    )


def _current_assignment_record(
    group_id: str, member: ShareGroupMember
) -> ShareCurrentAssignmentStored:
    return ShareCurrentAssignmentStored(
        group_id=group_id,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        partitions=tuple(sorted(member.assigned)),
    )
