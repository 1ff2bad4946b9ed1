"""The consumer protocol: decisions on heartbeats, timers and regular expressions (KIP-848). Pure.

The heartbeat is the only request: members use it to join, subscribe, report owned partitions, get
their assignment, and leave. A decision is a list of records; the group changes once they are in the
log.

Counterpart in Kafka: the consumer half of GroupMetadataManager.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group._consumer_members import (
    check_heartbeat,
    current_assignment_record,
    member_after_heartbeat,
    member_of,
    member_tombstones,
    sender_of,
    target_record,
)
from txnsim.group.assignors import ASSIGNORS, AssignableMember
from txnsim.group.commands import (
    ConsumerEffect,
    ConsumerHeartbeat,
    ConsumerOutcome,
    HeartbeatReply,
    ResolveRegexes,
    RunAssignor,
    TimerCancelled,
    TimerKind,
    TimerSet,
    session_timer,
    unexpected_timer,
)
from txnsim.group.consumer_group import (
    LEFT_FOR_A_WHILE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from txnsim.group.consumer_records import (
    ConsumerRecord,
    EpochStored,
    RegexDeleted,
    TargetEpochStored,
    TopicIdPartition,
)
from txnsim.group.consumer_regex import SubscriptionChange, subscription_change
from txnsim.group.migration import may_downgrade
from txnsim.metadata.group_configs import GroupIntervals
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import Rules


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a coordinator's configuration says about groups of the consumer protocol."""

    max_size: int = 2_147_483_647
    classic_max_size: int = 2_147_483_647
    """``group.max.size``: a larger group is not converted to a classic one."""
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    """Assignors that a member may choose; the first one is the default."""
    may_downgrade: bool = True
    """Whether a group may become classic again while it has members."""
    may_upgrade: bool = True
    """Whether a classic group with members may become one of the consumer protocol."""
    may_mix: bool = True
    """Whether a group may have members of both protocols."""
    regex_refresh_ms: int = 600_000


DEFAULT_INTERVALS: Final = GroupIntervals(45_000, 5_000, 1_000)
"""Intervals of a broker without other settings."""


class ConsumerProtocol(msgspec.Struct, kw_only=True, eq=False):
    """The rules of the consumer protocol; the caller keeps the groups."""

    settings: ConsumerSettings
    release_rules: Rules
    """The rules of the broker's release."""
    intervals_of: Callable[[str], GroupIntervals] = lambda _: DEFAULT_INTERVALS
    """Group id -> the group's intervals."""
    new_id: Callable[[], str]
    """Returns a random UUID as text."""

    # Heartbeat

    def check(self, command: ConsumerHeartbeat) -> Rejection | None:
        """Errors of a heartbeat that don't depend on the group."""
        return check_heartbeat(command, assignors=self.settings.assignors)

    def heartbeat(
        self, group: ConsumerGroup, command: ConsumerHeartbeat, *, image: ClusterImage, now_ms: int
    ) -> ConsumerOutcome | Rejection:
        """Decide on the heartbeat of a member that joins or stays."""
        if self._is_full(group, command):
            return Rejection(
                error=ErrorCode.group_max_size_reached,
                reason="The consumer group has reached its maximum capacity of "
                f"{self.settings.max_size} members.",
            )
        records: list[ConsumerRecord] = []
        member = member_of(
            group, command, records, make_id=self.new_id, release_rules=self.release_rules
        )
        if isinstance(member, Rejection):
            return member
        if records:  # a static member has begun a new life: go on with the group as it is then
            group = group.with_records(records, recounts=False)
        updated_member = member_after_heartbeat(member, command)
        change_or_refusal = group.tally.subscription_refusal(
            updated_member.topic_names
        ) or subscription_change(
            group,
            member,
            updated_member,
            image=image,
            refresh_ms=self.settings.regex_refresh_ms,
            now_ms=now_ms,
        )
        if isinstance(change_or_refusal, Rejection):
            return change_or_refusal
        records += change_or_refusal.records
        effects: list[ConsumerEffect] = []
        advanced_member = self._reconcile_member(
            group,
            updated_member,
            command,
            change=change_or_refusal,
            image=image,
            now_ms=now_ms,
            records=records,
            effects=effects,
        )
        if isinstance(advanced_member, Rejection):
            return advanced_member
        updated_member = advanced_member
        if regexes := change_or_refusal.regexes_to_look_up:
            effects.append(ResolveRegexes(regexes=regexes, may_describe=command.may_describe))
        if updated_member != member:
            effects.append(_revocation_effect(group.group_id, updated_member))
        effects.append(self._session_timer(group.group_id, updated_member))
        # A member that joins sends all fields.
        has_assignment = _is_full_request(command) or (
            set(member.assigned) != set(updated_member.assigned)
        )
        return ConsumerOutcome(
            records=tuple(records),
            reply=HeartbeatReply(
                member_id=updated_member.member_id,
                member_epoch=updated_member.member_epoch,
                assignment=tuple(sorted(updated_member.assigned)) if has_assignment else None,
                heartbeat_interval_ms=self.intervals_of(group.group_id).heartbeat_interval_ms,
            ),
            effects=tuple(effects),
        )

    def _is_full(self, group: ConsumerGroup, command: ConsumerHeartbeat) -> bool:
        if (
            self.release_rules.full_groups_take_static_members_back  # KAFKA-20601
            and group.static_member(command.instance_id) is not None
        ):
            return False
        is_new_member = command.member_id not in group.members
        return len(group.members) >= self.settings.max_size and is_new_member

    # Where does it go

    def _reconcile_member(
        self,
        group: ConsumerGroup,
        updated_member: ConsumerMember,
        command: ConsumerHeartbeat,
        *,
        change: SubscriptionChange,
        image: ClusterImage,
        now_ms: int,
        records: list[ConsumerRecord],
        effects: list[ConsumerEffect],
    ) -> ConsumerMember | Rejection:
        """Raise the group's epoch, compute a target, and move the member a step towards it."""
        epoch = group.epoch
        is_new_group = group.epoch == group.first_epoch == 0  # before KAFKA-20268
        bumps_epoch = (
            is_new_group
            or change.bumps_epoch
            or self._prefers_other_assignor(group, updated_member)
        )
        if bumps_epoch or group.refreshed_version != image.offset:
            old_member = group.members.get(updated_member.member_id)
            metadata_hash = group.tally.topics_hash(
                image,
                leaving_members=() if old_member is None else (old_member,),
                joining_members=(updated_member,),
            )
            if bumps_epoch or metadata_hash != group.metadata_hash:
                epoch += 1
                records.append(
                    EpochStored(
                        group_id=group.group_id, group_epoch=epoch, metadata_hash=metadata_hash
                    )
                )
            group.refreshed_version = image.offset
        target_epoch, target_partitions = (
            group.assignment_epoch,
            group.target.get(updated_member.member_id),
        )
        if group.assignment_epoch < epoch and self._may_assign(group, now_ms):
            if self.release_rules.assignors_run_in_background:
                effects.append(RunAssignor(group_epoch=epoch))
            else:
                members = list(group.members_with(updated_member))
                target_by_member = self._assign_targets(group, members, updated_member, image)
                records += _target_records(group, target_by_member, epoch=epoch, now_ms=now_ms)
                target_epoch, target_partitions = epoch, target_by_member[updated_member.member_id]
        if not change.is_changed and updated_member.is_reconciled_to(target_epoch):
            return updated_member
        reconciled_member = reconcile(
            updated_member,
            MemberTarget(
                assignment_epoch=target_epoch,
                partitions=target_partitions or frozenset(),
                subscribed=_topic_ids(group, updated_member, image),
                has_new_subscription=change.is_changed,
                owned_partitions=command.owned_partitions,
                owner_of=group.owner_of,
            ),
        )
        if isinstance(reconciled_member, ConsumerMember) and reconciled_member != updated_member:
            records.append(current_assignment_record(group.group_id, reconciled_member))
        return reconciled_member

    def run_assignor(
        self, group: ConsumerGroup, effect: RunAssignor, *, image: ClusterImage, now_ms: int
    ) -> ConsumerOutcome:
        """Compute the targets of all members behind a heartbeat; nothing if another heartbeat has
        raised the group's epoch meanwhile, or if they are there.
        """
        epoch = effect.group_epoch
        if group.epoch != epoch or group.assignment_epoch >= epoch:
            return ConsumerOutcome()
        target_by_member = self._assign_targets(group, list(group.members.values()), None, image)
        return ConsumerOutcome(
            records=tuple(_target_records(group, target_by_member, epoch=epoch, now_ms=now_ms))
        )

    def _prefers_other_assignor(self, group: ConsumerGroup, updated_member: ConsumerMember) -> bool:
        """Whether the group prefers another assignor now (hasPreferredServerAssignorChanged)."""
        default_assignor = self.settings.assignors[0]
        assignor_before, assignor_after = (
            group.preferred_assignor(updated_member=changed_member) or default_assignor
            for changed_member in (None, updated_member)
        )
        return self.release_rules.another_assignor_is_a_change and assignor_before != assignor_after

    def _may_assign(self, group: ConsumerGroup, now_ms: int) -> bool:
        interval_ms = self.intervals_of(group.group_id).assignment_interval_ms
        if group.assigned_at_ms == 0 or interval_ms == 0:
            return True
        return now_ms >= group.assigned_at_ms + interval_ms

    def _assign_targets(
        self,
        group: ConsumerGroup,
        members: Sequence[ConsumerMember],
        updated_member: ConsumerMember | None,
        image: ClusterImage,
    ) -> dict[str, frozenset[TopicIdPartition]]:
        assignor_name = group.preferred_assignor(updated_member=updated_member)
        topics_by_subscription: dict[tuple[frozenset[str], str | None], frozenset[uuid.UUID]] = {}
        for member in members:
            if (member.topic_names, member.topic_regex) not in topics_by_subscription:
                topics_by_subscription[member.topic_names, member.topic_regex] = _topic_ids(
                    group, member, image
                )
        subscribers = [
            AssignableMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                topics=topics_by_subscription[member.topic_names, member.topic_regex],
                previous_partitions=group.target.get(member.member_id, frozenset()),
            )
            for member in members
        ]
        topic_ids = frozenset[uuid.UUID]().union(*topics_by_subscription.values())
        partition_counts = {
            topic_id: len(image.topics[image.topic_names[topic_id]].partitions)
            for topic_id in topic_ids
        }
        return ASSIGNORS[assignor_name or self.settings.assignors[0]](subscribers, partition_counts)

    # Leaving

    def leave(
        self, group: ConsumerGroup, command: ConsumerHeartbeat, *, image: ClusterImage
    ) -> ConsumerOutcome | Rejection:
        """Remove a member, for good or for a while."""
        reply = HeartbeatReply(member_id=command.member_id, member_epoch=command.member_epoch)
        member = sender_of(group, command.member_id, command.instance_id)
        if isinstance(member, Rejection):
            return member
        if command.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
            return self.remove_members(group, [member], reply, image)
        absent_member = msgspec.structs.replace(
            member,
            member_epoch=LEFT_FOR_A_WHILE_EPOCH,
            assigned=dict.fromkeys(member.assigned, 0),
            pending_revocation={},
        )
        return ConsumerOutcome(
            records=(current_assignment_record(group.group_id, absent_member),), reply=reply
        )

    def timers_after_load(
        self, group_id: str, member: ConsumerMember
    ) -> tuple[ConsumerEffect, ...]:
        """Timers of a member that a new coordinator loads from the log. A static member that is
        away for a while also has a session, within which it must return.
        """
        revocation_effect = _revocation_effect(group_id, member)
        revocation_timers = (revocation_effect,) if isinstance(revocation_effect, TimerSet) else ()
        return (self._session_timer(group_id, member), *revocation_timers)

    def remove_late_members(
        self, group: ConsumerGroup, timers: Iterable[TimerSet], *, image: ClusterImage
    ) -> ConsumerOutcome:
        """Remove members whose sessions expired, and members that did not revoke in time (if they
        are still at their timer's epoch).
        """
        late_members: dict[str, ConsumerMember] = {}
        for timer in timers:
            member = group.members.get(timer.member_id)
            match timer.kind:
                case TimerKind.REVOCATION:
                    is_late = member is not None and member.member_epoch == timer.generation
                case TimerKind.HEARTBEAT | TimerKind.JOIN | TimerKind.SYNC:
                    is_late = True
                case TimerKind.ASSIGNMENT:
                    raise unexpected_timer(timer, "consumer")
                case _:
                    assert_never(timer.kind)
            if member is not None and is_late:
                late_members[member.member_id] = member
        if not late_members:
            return ConsumerOutcome()
        return self.remove_members(group, tuple(late_members.values()), None, image)

    def remove_members(
        self,
        group: ConsumerGroup,
        leaving_members: Sequence[ConsumerMember],
        reply: HeartbeatReply | None,
        image: ClusterImage,
    ) -> ConsumerOutcome:
        """Remove members, each named once; the group may then be converted to a classic group."""
        group_id = group.group_id
        leaving_ids = frozenset(member.member_id for member in leaving_members)
        effects = tuple(
            TimerCancelled(kind=kind, group_id=group_id, member_id=member.member_id)
            for member in leaving_members
            for kind in TimerKind
        )
        settings = self.settings
        if settings.may_downgrade and may_downgrade(
            group, leaving_ids, max_size=settings.classic_max_size
        ):
            return ConsumerOutcome(
                reply=reply, effects=effects, leaving_before_downgrade=leaving_ids
            )
        records: list[ConsumerRecord] = []
        for member in leaving_members:
            records += member_tombstones(group_id, member.member_id)
        leavers_by_regex = Counter(
            member.topic_regex for member in leaving_members if member.topic_regex
        )
        for regex, leaver_count in leavers_by_regex.items():
            if group.regex_user_count(regex) == leaver_count and regex in group.resolved:
                records.append(RegexDeleted(group_id=group_id, regex=regex))
        metadata_hash = group.tally.topics_hash(image, leaving_members=leaving_members)
        epoch = group.epoch + 1
        records.append(
            EpochStored(group_id=group_id, group_epoch=epoch, metadata_hash=metadata_hash)
        )
        # KAFKA-20442
        if (
            len(leaving_ids) == len(group.members)
            and self.release_rules.last_leaver_ends_assignment
        ):
            records.append(
                TargetEpochStored(group_id=group_id, assignment_epoch=epoch, timestamp_ms=0)
            )
        return ConsumerOutcome(records=tuple(records), reply=reply, effects=effects)

    def _session_timer(self, group_id: str, member: ConsumerMember) -> TimerSet:
        """Start a member's session; a classic member has its own timeout."""
        timeouts_holder = member.classic or self.intervals_of(group_id)
        return session_timer(group_id, member.member_id, timeouts_holder.session_timeout_ms)


def _target_records(
    group: ConsumerGroup,
    target_by_member: Mapping[str, frozenset[TopicIdPartition]],
    *,
    epoch: int,
    now_ms: int,
) -> Iterator[ConsumerRecord]:
    """The records of targets that have changed, and of the epoch that they are for."""
    for member_id, target_partitions in target_by_member.items():
        if group.target.get(member_id) != target_partitions:
            yield target_record(group, member_id, target_partitions)
    yield TargetEpochStored(group_id=group.group_id, assignment_epoch=epoch, timestamp_ms=now_ms)


def _is_full_request(command: ConsumerHeartbeat) -> bool:
    """Whether a heartbeat has all fields: its client has missed an answer, and needs a complete
    one.
    """
    return (
        command.rebalance_timeout_ms != -1
        and (command.topic_names is not None or command.topic_regex is not None)
        and command.owned_partitions is not None
    )


def _revocation_effect(group_id: str, member: ConsumerMember) -> TimerSet | TimerCancelled:
    """The timer for a member that has to revoke partitions within its rebalance timeout; cancelled
    if it has not.
    """
    kind = TimerKind.REVOCATION
    if member.uses_classic_protocol or member.state is not MemberState.UNREVOKED_PARTITIONS:
        return TimerCancelled(kind=kind, group_id=group_id, member_id=member.member_id)
    return TimerSet(
        kind=kind,
        group_id=group_id,
        member_id=member.member_id,
        delay_ms=member.rebalance_timeout_ms,
        generation=member.member_epoch,
    )


def _topic_ids(
    group: ConsumerGroup, member: ConsumerMember, image: ClusterImage
) -> frozenset[uuid.UUID]:
    existing_topics = image.existing_topics(group.topics_of(member))
    return frozenset(image.topics[topic_name].topic_id for topic_name in existing_topics)


# One step of a member towards its target assignment (KIP-848). Pure.
#
# A member first has to give up the partitions that it loses, and report that; only then does its
# epoch move on. At the new epoch it waits for partitions that others have not given up yet. So no
# partition ever has two members.
#
# Counterpart in Kafka: CurrentAssignmentBuilder.


class MemberTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A member's target, and the state that limits its next step."""

    assignment_epoch: int
    """Epoch of the target assignment."""
    partitions: frozenset[TopicIdPartition]
    subscribed: frozenset[uuid.UUID]
    """Its subscribed topics that exist."""
    has_new_subscription: bool = False
    """Whether it has just changed its subscription."""
    owned_partitions: frozenset[TopicIdPartition] | None
    """Partitions that the member reports as owned; None means unchanged."""
    owner_of: Callable[[TopicIdPartition], str | None]

    def still_has(self, revoked_partitions: Mapping[TopicIdPartition, int]) -> bool:
        """Whether the member still owns some of the revoked partitions."""
        return self.owned_partitions is None or any(
            partition in revoked_partitions for partition in self.owned_partitions
        )


def reconcile(member: ConsumerMember, member_target: MemberTarget) -> ConsumerMember | Rejection:
    """The member after one step.

    Returns:
        The member, unchanged if there is nothing to do; FENCED_MEMBER_EPOCH if its state is of a
            later release, so that it must start over.
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch != member_target.assignment_epoch:
                return _next_step(member, member_target)
            return (
                _revoke_unsubscribed(member, member_target)
                if member_target.has_new_subscription
                else member
            )
        case MemberState.UNREVOKED_PARTITIONS:
            if member_target.still_has(member.pending_revocation):
                return (
                    _revoke_unsubscribed(member, member_target)
                    if member_target.has_new_subscription
                    else member
                )
            return _next_step(member, member_target)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next_step(member, member_target)
        case MemberState.UNKNOWN:
            if member_target.owned_partitions is None or member_target.owned_partitions:
                return Rejection(
                    error=ErrorCode.fenced_member_epoch,
                    reason="The consumer group member is in a unknown state. The member must "
                    "abandon all its partitions and rejoin.",
                )
            return _next_step(
                msgspec.structs.replace(member, member_epoch=member_target.assignment_epoch),
                member_target,
            )
        case _:
            assert_never(member.state)


def _next_step(member: ConsumerMember, member_target: MemberTarget) -> ConsumerMember:
    """Revoke partitions outside of the target; assign those of the target that are free."""
    # Sets and dicts take over each other's hashes: that of a UUID is a call of Python.
    target_partitions = _partitions_of_topics(member_target.partitions, member_target.subscribed)
    kept_partitions = member.assigned
    if set(kept_partitions).difference(target_partitions):
        lost_partitions = {
            partition: epoch
            for partition, epoch in kept_partitions.items()
            if partition not in target_partitions
        }
        kept_partitions = {
            partition: epoch
            for partition, epoch in kept_partitions.items()
            if partition in target_partitions
        }
        if member_target.still_has(lost_partitions):
            return _revoking_member(member, kept_partitions, lost_partitions)
    missing_partitions = sorted(target_partitions.difference(kept_partitions))
    revoked_partitions = member.pending_revocation
    free_partitions = [
        partition
        for partition in missing_partitions
        if member_target.owner_of(partition) is None or partition in revoked_partitions
    ]
    return msgspec.structs.replace(
        member,
        state=MemberState.STABLE
        if len(free_partitions) == len(missing_partitions)
        else MemberState.UNRELEASED_PARTITIONS,
        previous_member_epoch=member.member_epoch,
        member_epoch=member_target.assignment_epoch,
        assigned={
            **kept_partitions,
            **dict.fromkeys(free_partitions, member_target.assignment_epoch),
        },
        pending_revocation={},
    )


def _partitions_of_topics(
    partitions: frozenset[TopicIdPartition], topics: Collection[uuid.UUID]
) -> frozenset[TopicIdPartition]:
    is_in_topics, topic_id = False, None
    other_partitions = []
    for partition in partitions:
        if partition[0] is not topic_id:
            topic_id = partition[0]
            is_in_topics = topic_id in topics
        if not is_in_topics:
            other_partitions.append(partition)
    return partitions.difference(other_partitions) if other_partitions else partitions


def _revoke_unsubscribed(member: ConsumerMember, member_target: MemberTarget) -> ConsumerMember:
    """Revoke partitions of unsubscribed topics at once, regardless of the target."""
    kept_partitions = {
        partition: epoch
        for partition, epoch in member.assigned.items()
        if partition[0] in member_target.subscribed
    }
    if len(kept_partitions) == len(member.assigned):
        return member
    lost_partitions = {
        **member.pending_revocation,
        **{
            partition: epoch
            for partition, epoch in member.assigned.items()
            if partition not in kept_partitions
        },
    }
    if member_target.still_has(lost_partitions):
        return _revoking_member(member, kept_partitions, lost_partitions)
    return msgspec.structs.replace(
        member, previous_member_epoch=member.member_epoch, assigned=kept_partitions
    )


def _revoking_member(
    member: ConsumerMember,
    kept_partitions: dict[TopicIdPartition, int],
    lost_partitions: dict[TopicIdPartition, int],
) -> ConsumerMember:
    return msgspec.structs.replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_member_epoch=member.member_epoch,
        assigned=kept_partitions,
        pending_revocation=lost_partitions,
    )
