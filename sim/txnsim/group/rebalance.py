"""A rebalance: the steps from a change of a group to its next generation.

First all members are asked to rejoin (``prepare``). Then those that did form a generation
(``complete``). Finally each member gets its assignment (``propagate_assignments``). The caller
carries out the effects, in order.

Counterpart in Kafka: GroupMetadataManager.prepareRebalance, completeClassicGroupJoin,
propagateAssignment.
"""

from __future__ import annotations

import msgspec

from txnsim.errors import ErrorCode
from txnsim.group.classic_group import ClassicGroup, ClassicMember
from txnsim.group.commands import (
    NO_MEMBER,
    AnswerWaiter,
    Effect,
    JoinReply,
    RecordsToAppend,
    SyncReply,
    TimerCancelled,
    TimerKind,
    TimerSet,
    Waiter,
    session_timer,
)
from txnsim.group.state import ClassicGroupState

Effects = list[Effect]

_State = ClassicGroupState


class Rebalance(msgspec.Struct, kw_only=True, eq=False):
    """The steps of a rebalance."""

    initial_delay_ms: int

    def rebalance_or_complete(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        """After a change of the group: start a rebalance, or complete the current one if
        possible.
        """
        if group.can_rebalance:
            self.prepare(group, now_ms, effects)
        else:
            self.complete_if_all_joined(group, now_ms, effects)

    def prepare(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        """Ask all members to rejoin."""
        if group.state is _State.COMPLETING_REBALANCE:
            self.propagate_assignments(group, {}, ErrorCode.rebalance_in_progress, effects)
        group.pending_sync.clear()
        effects.append(TimerCancelled(kind=TimerKind.SYNC, group_id=group.group_id))
        is_first = group.state is _State.EMPTY
        group.move_to(_State.PREPARING_REBALANCE, now_ms=now_ms)
        if is_first:
            delay_ms = self.initial_delay_ms
            effects.append(
                TimerSet(
                    kind=TimerKind.JOIN,
                    group_id=group.group_id,
                    delay_ms=delay_ms,
                    remaining_ms=max(group.rebalance_timeout_ms - delay_ms, 0),
                )
            )
        elif group.all_are_joining:
            self.complete(group, now_ms, effects)
        else:
            effects.append(_join_timer(group))

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        """Only the delay ends a first rebalance, however many have joined."""
        if (
            group.state is _State.PREPARING_REBALANCE
            and group.previous_state is not _State.EMPTY
            and group.all_are_joining
        ):
            self.complete(group, now_ms, effects)

    def complete(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        effects.append(TimerCancelled(kind=TimerKind.JOIN, group_id=group.group_id))
        for member in tuple(group.members.values()):
            if member.awaiting_join is None and member.group_instance_id is None:
                group.remove(member.member_id)
                effects.append(session_cancelled(group, member.member_id))
        if not group.elect_joined_leader() and group.members:
            effects.append(_join_timer(group))  # only static members are left, and none has come
            return
        group.next_generation(now_ms=now_ms)
        if group.state is _State.PREPARING_REBALANCE:
            return
        if group.state is _State.EMPTY:
            effects.append(RecordsToAppend(records=(group.to_record(),)))
            return
        for member in group.members.values():
            if member.awaiting_join is not None:
                is_leader = group.leader == member.member_id
                reply = join_reply(group, member, with_members=is_leader)
                effects.append(AnswerWaiter(waiter=member.awaiting_join, reply=reply))
                group.await_join(member, None)
            effects.append(
                session_timer(group.group_id, member.member_id, member.session_timeout_ms)
            )
            member.is_new = False
            group.pending_sync[member.member_id] = None
        effects.append(
            TimerSet(
                kind=TimerKind.SYNC,
                group_id=group.group_id,
                delay_ms=group.rebalance_timeout_ms,
                generation=group.generation,
            )
        )

    def remove(self, group: ClassicGroup, member_id: str, effects: Effects) -> None:
        """Remove a member; its waiting JoinGroup is answered, its waiting SyncGroup is not, as in
        Kafka.
        """
        effects.append(session_cancelled(group, member_id))
        member = group.remove(member_id)
        if member is None:
            return
        if member.awaiting_join is not None:
            refuse_join(effects, member.awaiting_join, ErrorCode.unknown_member_id, NO_MEMBER)
        if member.awaiting_sync is not None:
            effects.append(AnswerWaiter(waiter=member.awaiting_sync, reply=None))

    def propagate_assignments(
        self,
        group: ClassicGroup,
        assignment_by_member: dict[str, bytes],
        error: ErrorCode,
        effects: Effects,
    ) -> None:
        """Give every member that waits in SyncGroup its assignment, or the error."""
        for member in group.members.values():
            group.assign(member, assignment_by_member.get(member.member_id, b""))
            if member.awaiting_sync is None:
                continue
            reply = SyncReply(
                error=error,
                protocol_type=None if error else group.protocol_type,
                protocol=None if error else group.protocol,
                assignment=member.assignment,
            )
            effects.append(AnswerWaiter(waiter=member.awaiting_sync, reply=reply))
            member.awaiting_sync = None
            effects.append(
                session_timer(group.group_id, member.member_id, member.session_timeout_ms)
            )


def join_reply(group: ClassicGroup, member: ClassicMember, *, with_members: bool) -> JoinReply:
    """The JoinGroup answer for a member of the generation; the leader gets the list of members."""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    if with_members:
        members = tuple(
            (
                other_member.member_id,
                other_member.group_instance_id,
                other_member.metadata(group.protocol),
            )
            for other_member in group.members.values()
        )
    return JoinReply(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or NO_MEMBER,
        member_id=member.member_id,
        members=members,
    )


def refuse_join(effects: Effects, waiter: Waiter, error: ErrorCode, member_id: str) -> None:
    """Answer a JoinGroup with an error."""
    effects.append(AnswerWaiter(waiter=waiter, reply=JoinReply(error=error, member_id=member_id)))


def session_cancelled(group: ClassicGroup, member_id: str) -> TimerCancelled:
    """Cancel the session of a removed member."""
    return TimerCancelled(kind=TimerKind.HEARTBEAT, group_id=group.group_id, member_id=member_id)


def _join_timer(group: ClassicGroup) -> TimerSet:
    return TimerSet(
        kind=TimerKind.JOIN, group_id=group.group_id, delay_ms=group.rebalance_timeout_ms
    )
