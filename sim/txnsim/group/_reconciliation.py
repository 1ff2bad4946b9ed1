"""One step of a member towards its target assignment (KIP-848). Pure.

A member first has to give up the partitions that it loses, and report that; only then does its
epoch move on. At the new epoch it waits for partitions that others have not given up yet. So no
partition ever has two members.

Counterpart in Kafka: CurrentAssignmentBuilder.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import assert_never

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer_group import ConsumerMember, MemberState
from txnsim.group.consumer_records import TopicIdPartition


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A member's target, and what it still waits for."""

    assignment_epoch: int
    """Epoch of the target assignment."""
    partitions: frozenset[TopicIdPartition]
    subscribed: frozenset[uuid.UUID]
    """Topics that it subscribes to and that exist."""
    subscription_changed: bool = False
    """It has just subscribed to something else."""
    owned: frozenset[TopicIdPartition] | None
    """Partitions that the member reports as owned; None for no change."""
    owner_of: Callable[[TopicIdPartition], str | None]

    def still_has(self, revoked: Mapping[TopicIdPartition, int]) -> bool:
        """Whether the member still owns some of the revoked partitions."""
        return self.owned is None or any(partition in revoked for partition in self.owned)


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember | Rejection:
    """The member after one step.

    Returns:
        The member, the same one where there is nothing to do; FENCED_MEMBER_EPOCH where its state
        is of a later release and it must start again.
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch != goal.assignment_epoch:
                return _next(member, goal)
            return _resubscribed(member, goal) if goal.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if goal.still_has(member.pending_revocation):
                return _resubscribed(member, goal) if goal.subscription_changed else member
            return _next(member, goal)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, goal)
        case MemberState.UNKNOWN:
            if goal.owned is None or goal.owned:
                return Rejection(
                    error=ErrorCode.fenced_member_epoch,
                    reason="The consumer group member is in a unknown state. The member must "
                    "abandon all its partitions and rejoin.",
                )
            return _next(msgspec.structs.replace(member, member_epoch=goal.assignment_epoch), goal)
        case _:
            assert_never(member.state)


def _next(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Give up partitions outside of the target, take those that are free."""
    target = {each for each in goal.partitions if each[0] in goal.subscribed}
    kept = {each: epoch for each, epoch in member.assigned.items() if each in target}
    lost = {each: epoch for each, epoch in member.assigned.items() if each not in target}
    if lost and goal.still_has(lost):
        return _revoking(member, kept, lost)
    wanted = sorted(each for each in target if each not in kept)
    held = member.pending_revocation
    free = [each for each in wanted if goal.owner_of(each) is None or each in held]
    return msgspec.structs.replace(
        member,
        state=MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS,
        previous_member_epoch=member.member_epoch,
        member_epoch=goal.assignment_epoch,
        assigned={**kept, **dict.fromkeys(free, goal.assignment_epoch)},
        pending_revocation={},
    )


def _resubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Revoke partitions of unsubscribed topics at once, whatever the target says."""
    kept = {each: at for each, at in member.assigned.items() if each[0] in goal.subscribed}
    if len(kept) == len(member.assigned):
        return member
    lost = {
        **member.pending_revocation,
        **{each: at for each, at in member.assigned.items() if each not in kept},
    }
    if goal.still_has(lost):
        return _revoking(member, kept, lost)
    return msgspec.structs.replace(member, previous_member_epoch=member.member_epoch, assigned=kept)


def _revoking(
    member: ConsumerMember, kept: dict[TopicIdPartition, int], lost: dict[TopicIdPartition, int]
) -> ConsumerMember:
    return msgspec.structs.replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_member_epoch=member.member_epoch,
        assigned=kept,
        pending_revocation=lost,
    )
