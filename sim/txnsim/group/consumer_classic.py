"""Classic members of a group of the consumer protocol (KIP-848). Pure.

Their JoinGroup is a joining heartbeat, their generation is the member epoch, and SyncGroup returns
their assignment. The group has no leader, so all of them are followers. The answer to Heartbeat
makes them rejoin whenever they have to revoke partitions or can get some.

Counterpart in Kafka: GroupMetadataManager.classicGroupJoinToConsumerGroup and its siblings.
"""

from __future__ import annotations

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group._consumer_members import sender_of
from txnsim.group.commands import (
    NO_MEMBER,
    ConsumerEffect,
    ConsumerHeartbeat,
    ConsumerOutcome,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    SyncGroup,
    SyncReply,
    TimerCancelled,
    TimerKind,
    TimerSet,
    session_timer,
)
from txnsim.group.consumer import ConsumerProtocol
from txnsim.group.consumer_group import ConsumerGroup, ConsumerMember, MemberState
from txnsim.group.consumer_records import ClassicMetadata
from txnsim.group.migration import assignment_for, partitions_by_id
from txnsim.group.state import CONSUMER_PROTOCOL_TYPE
from txnsim.group.subscription import read_subscription
from txnsim.metadata.image import ClusterImage

Effects = tuple[ConsumerEffect, ...]


class ClassicMembers(msgspec.Struct, eq=False):
    """The rules for classic members; the caller keeps the groups."""

    protocol: ConsumerProtocol

    def join(
        self, group: ConsumerGroup, command: JoinGroup, *, image: ClusterImage, now_ms: int
    ) -> tuple[JoinReply, ConsumerOutcome]:
        """Handle a client that joins, or rejoins, with its subscription."""
        if not self.protocol.settings.may_mix or not _supports_protocols(group, command):
            return _refuse_join(ErrorCode.inconsistent_group_protocol)
        protocol_name, metadata = command.protocols[0]
        subscription = read_subscription(metadata)
        if subscription is None:
            release_rules = self.protocol.release_rules
            if release_rules.malformed_subscription_is_inconsistent:  # KAFKA-20662
                return _refuse_join(ErrorCode.inconsistent_group_protocol)
            return _refuse_join(ErrorCode.unknown_server_error)
        instance_id = command.group_instance_id
        member_id = command.member_id or self.protocol.new_id()
        if not command.member_id and instance_id is None and command.member_id_required:
            reply = JoinReply(error=ErrorCode.member_id_required, member_id=member_id)
            return reply, ConsumerOutcome()
        epoch = 0
        if instance_id is not None and command.member_id:
            member = find_member(group, command.member_id, instance_id)
            if isinstance(member, Rejection):
                return _refuse_join(member.error)
            epoch = member.member_epoch
        heartbeat_outcome = self.protocol.heartbeat(
            group,
            ConsumerHeartbeat(
                group_id=group.group_id,
                member_id=member_id,
                member_epoch=epoch,
                instance_id=instance_id,
                rack_id=subscription.rack_id,
                rebalance_timeout_ms=command.rebalance_timeout_ms,
                topic_names=subscription.topics,
                topic_regex="",
                owned_partitions=partitions_by_id(subscription.owned_partitions, image),
                client_id=command.client_id,
                client_host=command.client_host,
                may_describe=command.may_describe,
                classic=ClassicMetadata(
                    session_timeout_ms=command.session_timeout_ms, protocols=command.protocols
                ),
            ),
            image=image,
            now_ms=now_ms,
        )
        if isinstance(heartbeat_outcome, Rejection):
            return _refuse_join(heartbeat_outcome.error)
        assert heartbeat_outcome.reply is not None
        reply = JoinReply(
            generation=heartbeat_outcome.reply.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=protocol_name,
            member_id=member_id,
        )
        join_timer_cancelled = TimerCancelled(
            kind=TimerKind.JOIN, group_id=group.group_id, member_id=member_id
        )
        sync_timer = TimerSet(
            kind=TimerKind.SYNC,
            group_id=group.group_id,
            member_id=member_id,
            delay_ms=command.rebalance_timeout_ms,
        )
        return reply, ConsumerOutcome(
            records=heartbeat_outcome.records,
            reply=heartbeat_outcome.reply,
            effects=(*heartbeat_outcome.effects, join_timer_cancelled, sync_timer),
        )

    def sync(
        self, group: ConsumerGroup, command: SyncGroup, *, image: ClusterImage
    ) -> tuple[SyncReply, Effects]:
        """Answer a member's request for its assignment."""
        member = _classic_member(group, command.member_id, command.group_instance_id)
        if isinstance(member, Rejection):
            return SyncReply(error=member.error), ()
        assert member.classic is not None
        protocol_name, metadata = member.classic.protocols[0]
        if command.generation != member.member_epoch:
            return SyncReply(error=ErrorCode.illegal_generation), ()
        if command.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
            command.protocol not in (None, protocol_name)
        ):
            return SyncReply(error=ErrorCode.inconsistent_group_protocol), ()
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            return SyncReply(error=ErrorCode.rebalance_in_progress), (_rejoin_timer(group, member),)
        reply = SyncReply(
            protocol_type=command.protocol_type,
            protocol=command.protocol,
            assignment=assignment_for(metadata, member.assigned, image),
        )
        sync_timer_end = TimerCancelled(
            kind=TimerKind.SYNC, group_id=group.group_id, member_id=member.member_id
        )
        return reply, (sync_timer_end, _session_timer(group, member))

    def heartbeat(
        self, group: ConsumerGroup, command: Heartbeat
    ) -> tuple[Rejection | None, Effects]:
        """Keep a member alive; ask for a rejoin to revoke partitions or to get some."""
        member = _classic_member(group, command.member_id, command.group_instance_id)
        if isinstance(member, Rejection):
            return member, ()
        if command.generation != member.member_epoch:
            reason = (
                f"{member.member_id} is at epoch {member.member_epoch}, not {command.generation}"
            )
            return Rejection(error=ErrorCode.illegal_generation, reason=reason), ()
        if (
            member.member_epoch >= group.assignment_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
            and not (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not _waits_for_partitions(group, member)
            )
        ):
            return None, (_session_timer(group, member),)
        reason = f"{member.member_id} has to join again"
        refusal = Rejection(error=ErrorCode.rebalance_in_progress, reason=reason)
        return refusal, (_session_timer(group, member), _rejoin_timer(group, member))

    def leave(
        self, group: ConsumerGroup, command: LeaveGroup, *, image: ClusterImage
    ) -> tuple[LeaveReply, ConsumerOutcome]:
        """Remove members, including those of the consumer protocol."""
        member_answers: list[tuple[str, str | None, ErrorCode]] = []
        leaving_members: dict[str, ConsumerMember] = {}
        for member_id, instance_id in command.members:
            member = find_member(group, member_id, instance_id)
            if isinstance(member, Rejection):
                member_answers.append((member_id, instance_id, member.error))
            else:
                member_answers.append((member_id, instance_id, ErrorCode.none))
                leaving_members[member.member_id] = member
        reply = LeaveReply(members=tuple(member_answers))
        if not leaving_members:
            return reply, ConsumerOutcome()
        return reply, self.protocol.remove_members(
            group, tuple(leaving_members.values()), None, image
        )


def find_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | Rejection:
    """The member; it may be named by its instance id without a member id."""
    if instance_id is not None and member_id == NO_MEMBER:
        return group.static_member(instance_id) or group.unknown_member(member_id)
    return sender_of(group, member_id, instance_id)


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | Rejection:
    member = find_member(group, member_id, instance_id)
    if isinstance(member, Rejection) or member.uses_classic_protocol:
        return member
    return Rejection(
        error=ErrorCode.unknown_member_id,
        reason=f"Member {member_id} does not use the classic protocol.",
    )


def _supports_protocols(group: ConsumerGroup, command: JoinGroup) -> bool:
    """Whether the group supports a protocol of the joining member
    (ConsumerGroup.supportsClassicProtocols).
    """
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE or not command.protocols:
        return False
    tally = group.tally
    return any(
        tally.classic_protocols[protocol_name] == tally.classic
        for protocol_name, _ in command.protocols
    )


def _waits_for_partitions(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still owns a partition of the member's target."""
    target = group.target.get(member.member_id, frozenset())
    return any(
        group.owner_of(partition) not in (None, member.member_id)
        for partition in target
        if partition not in member.assigned
    )


def _session_timer(group: ConsumerGroup, member: ConsumerMember) -> TimerSet:
    assert member.classic is not None
    return session_timer(group.group_id, member.member_id, member.classic.session_timeout_ms)


def _rejoin_timer(group: ConsumerGroup, member: ConsumerMember) -> TimerSet:
    """The timer within which the member must rejoin, counted from the first request to do so."""
    return TimerSet(
        kind=TimerKind.JOIN,
        group_id=group.group_id,
        member_id=member.member_id,
        delay_ms=member.rebalance_timeout_ms,
        keeps_first=True,
    )


def _refuse_join(error: ErrorCode) -> tuple[JoinReply, ConsumerOutcome]:
    return JoinReply(error=error), ConsumerOutcome()
