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
    session,
)
from txnsim.group.consumer import ConsumerProtocol
from txnsim.group.consumer_group import ConsumerGroup, ConsumerMember, MemberState
from txnsim.group.consumer_records import ClassicMetadata
from txnsim.group.migration import assignment_for, by_id
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
        if not self.protocol.settings.may_mix or not _supports(group, command):
            return _refusal(ErrorCode.inconsistent_group_protocol)
        name, metadata = command.protocols[0]
        subscription = read_subscription(metadata)
        if subscription is None:
            is_told = self.protocol.rules.malformed_subscription_is_inconsistent  # KAFKA-20662
            return _refusal(
                ErrorCode.inconsistent_group_protocol if is_told else ErrorCode.unknown_server_error
            )
        instance_id = command.group_instance_id
        member_id = command.member_id or self.protocol.new_id()
        if not command.member_id and instance_id is None and command.member_id_required:
            reply = JoinReply(error=ErrorCode.member_id_required, member_id=member_id)
            return reply, ConsumerOutcome()
        epoch = 0
        if instance_id is not None and command.member_id:
            member = find_member(group, command.member_id, instance_id)
            if isinstance(member, Rejection):
                return _refusal(member.error)
            epoch = member.member_epoch
        outcome = self.protocol.heartbeat(
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
                owned=by_id(subscription.owned, image),
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
        if isinstance(outcome, Rejection):
            return _refusal(outcome.error)
        assert outcome.reply is not None
        reply = JoinReply(
            generation=outcome.reply.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=name,
            member_id=member_id,
        )
        joined = TimerCancelled(kind=TimerKind.JOIN, group_id=group.group_id, member_id=member_id)
        sync_awaited = TimerSet(
            kind=TimerKind.SYNC,
            group_id=group.group_id,
            member_id=member_id,
            delay_ms=command.rebalance_timeout_ms,
        )
        return reply, ConsumerOutcome(
            records=outcome.records,
            reply=outcome.reply,
            effects=(*outcome.effects, joined, sync_awaited),
        )

    def sync(
        self, group: ConsumerGroup, command: SyncGroup, *, image: ClusterImage
    ) -> tuple[SyncReply, Effects]:
        """Answer a member's request for its assignment."""
        member = _classic_member(group, command.member_id, command.group_instance_id)
        if isinstance(member, Rejection):
            return SyncReply(error=member.error), ()
        assert member.classic is not None
        name, metadata = member.classic.protocols[0]
        if command.generation != member.member_epoch:
            return SyncReply(error=ErrorCode.illegal_generation), ()
        if command.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
            command.protocol not in (None, name)
        ):
            return SyncReply(error=ErrorCode.inconsistent_group_protocol), ()
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            return SyncReply(error=ErrorCode.rebalance_in_progress), (_rejoin(group, member),)
        reply = SyncReply(
            protocol_type=command.protocol_type,
            protocol=command.protocol,
            assignment=assignment_for(metadata, member.assigned, image),
        )
        synced = TimerCancelled(
            kind=TimerKind.SYNC, group_id=group.group_id, member_id=member.member_id
        )
        return reply, (synced, _session(group, member))

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
                member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member)
            )
        ):
            return None, (_session(group, member),)
        reason = f"{member.member_id} has to join again"
        refusal = Rejection(error=ErrorCode.rebalance_in_progress, reason=reason)
        return refusal, (_session(group, member), _rejoin(group, member))

    def leave(
        self, group: ConsumerGroup, command: LeaveGroup, *, image: ClusterImage
    ) -> tuple[LeaveReply, ConsumerOutcome]:
        """Remove members, including those of the consumer protocol."""
        answers: list[tuple[str, str | None, ErrorCode]] = []
        leaving: dict[str, ConsumerMember] = {}
        for member_id, instance_id in command.members:
            member = find_member(group, member_id, instance_id)
            if isinstance(member, Rejection):
                answers.append((member_id, instance_id, member.error))
            else:
                answers.append((member_id, instance_id, ErrorCode.none))
                leaving[member.member_id] = member
        reply = LeaveReply(members=tuple(answers))
        if not leaving:
            return reply, ConsumerOutcome()
        return reply, self.protocol.remove_members(group, tuple(leaving.values()), None, image)


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


def _supports(group: ConsumerGroup, command: JoinGroup) -> bool:
    """ConsumerGroup.supportsClassicProtocols."""
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE or not command.protocols:
        return False
    tally = group.tally
    return any(tally.classic_protocols[name] == tally.classic for name, _ in command.protocols)


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still owns a partition of the member's target."""
    target = group.target.get(member.member_id, frozenset())
    return any(
        group.owner_of(partition) not in (None, member.member_id)
        for partition in target
        if partition not in member.assigned
    )


def _session(group: ConsumerGroup, member: ConsumerMember) -> TimerSet:
    assert member.classic is not None
    return session(group.group_id, member.member_id, member.classic.session_timeout_ms)


def _rejoin(group: ConsumerGroup, member: ConsumerMember) -> TimerSet:
    """The timer within which the member must rejoin, counted from the first request to do so."""
    return TimerSet(
        kind=TimerKind.JOIN,
        group_id=group.group_id,
        member_id=member.member_id,
        delay_ms=member.rebalance_timeout_ms,
        keeps_first=True,
    )


def _refusal(error: ErrorCode) -> tuple[JoinReply, ConsumerOutcome]:
    return JoinReply(error=error), ConsumerOutcome()
