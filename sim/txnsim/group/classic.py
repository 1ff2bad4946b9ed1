"""The classic group protocol: decisions on joining, waiting, assignment and removal of members.

A group moves through *generations*. A rebalance asks all members to rejoin (PreparingRebalance),
forms the next generation from those that did (CompletingRebalance), and ends when the leader's
assignment is in the log (Stable).

Like Kafka's, this machine changes a group in place, and returns effects that its caller carries out
in order: answer waiting requests, arm and disarm timers, append records. It knows no clock and no
log: the caller reports timers that fire, and records that were written or not.

Counterpart in Kafka: the classic half of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.group.classic_group import ClassicGroup, ClassicMember
from txnsim.group.commands import (
    NO_MEMBER,
    AnswerWaiter,
    AssignmentStored,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    NewGroupStored,
    RecordsToAppend,
    StaticMemberStored,
    SyncGroup,
    SyncReply,
    TimerCancelled,
    TimerKind,
    TimerSet,
    Waiter,
    session_timer,
)
from txnsim.group.rebalance import Effects, Rebalance, join_reply, refuse_join
from txnsim.group.state import ClassicGroupState
from txnsim.settings import Settings

_State = ClassicGroupState

_NO_ERROR: Final = ErrorCode.none


NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait for its first generation without a heartbeat, in ms; no setting in
Kafka either.
"""


PROTOCOLS_MAX: Final = 100
"""Limit of protocols of one member; a real client has only a few assignors."""


class ClassicProtocol:
    """The rules of the classic protocol; the caller keeps the groups."""

    __slots__ = ("_new_id", "_rebalance", "_settings")

    def __init__(self, *, settings: Settings, make_id: Callable[[], str]) -> None:
        self._settings = settings
        self._rebalance = Rebalance(initial_delay_ms=settings.group_initial_rebalance_delay_ms)
        self._new_id = make_id
        """Returns a random UUID as text."""

    # JoinGroup

    def join(
        self,
        group: ClassicGroup,
        command: JoinGroup,
        *,
        waiter: Waiter,
        is_new_group: bool,
        now_ms: int,
    ) -> Effects:
        """Handle a client that wants to join the next generation."""
        effects: Effects = []
        if len(command.protocols) > PROTOCOLS_MAX:
            refuse_join(effects, waiter, ErrorCode.invalid_request, command.member_id)
        elif not self._has_room(group, command.member_id):
            group.remove(command.member_id)
            refuse_join(effects, waiter, ErrorCode.group_max_size_reached, NO_MEMBER)
        elif group.state is _State.DEAD:
            refuse_join(effects, waiter, ErrorCode.coordinator_not_available, command.member_id)
        elif not group.supports(command.protocol_type, command.protocols):
            refuse_join(effects, waiter, ErrorCode.inconsistent_group_protocol, command.member_id)
        elif command.member_id == NO_MEMBER:
            self._join_new_member(group, command, waiter, now_ms, effects)
        else:
            self._join_known_member(group, command, waiter, now_ms, effects)
        if is_new_group:
            effects.append(
                RecordsToAppend(
                    records=(ClassicGroup(group.group_id, now_ms=now_ms).to_record(),),
                    after_write=NewGroupStored(group_id=group.group_id, waiter=waiter),
                )
            )
        return effects

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group may take another member (GroupMetadataManager.acceptJoiningMember)."""
        match group.state:
            case _State.EMPTY | _State.DEAD:
                return True
            case _State.PREPARING_REBALANCE:
                member = group.members.get(member_id)
                waits_to_join = member is not None and member.awaiting_join is not None
                return waits_to_join or group.awaiting_join_count < self._settings.group_max_size
            case _:
                return (
                    member_id in group.members or len(group.members) < self._settings.group_max_size
                )

    def _join_new_member(
        self, group: ClassicGroup, command: JoinGroup, waiter: Waiter, now_ms: int, effects: Effects
    ) -> None:
        instance_id = command.group_instance_id
        if instance_id is not None:
            new_id = f"{instance_id}-{self._new_id()}"
            holder_id = group.static_members.get(instance_id)
            if holder_id is None:
                self._add_member(group, command, new_id, waiter, now_ms, effects)
            else:
                self._replace_static(group, command, holder_id, new_id, waiter, now_ms, effects)
            return
        new_id = f"{command.client_id}-{self._new_id()}"
        if not command.member_id_required:
            self._add_member(group, command, new_id, waiter, now_ms, effects)
            return
        # KIP-394: a client that vanishes after its first request must not become a member.
        group.pending_join[new_id] = None
        effects.append(session_timer(group.group_id, new_id, command.session_timeout_ms))
        refuse_join(effects, waiter, ErrorCode.member_id_required, new_id)

    def _join_known_member(
        self, group: ClassicGroup, command: JoinGroup, waiter: Waiter, now_ms: int, effects: Effects
    ) -> None:
        member_id = command.member_id
        if member_id in group.pending_join:
            if command.group_instance_id is not None:
                raise InvariantViolation(
                    f"{member_id} was handed out to a dynamic member, "
                    f"{command.group_instance_id} joins with it"
                )
            self._add_member(group, command, member_id, waiter, now_ms, effects)
            return
        refusal = group.check_member(member_id, command.group_instance_id)
        if refusal is not None:
            refuse_join(effects, waiter, refusal.error, member_id)
            return
        member = group.members[member_id]
        is_unchanged = member.protocols == command.protocols
        match group.state:
            case _State.PREPARING_REBALANCE:
                rejoins = True
            case _State.COMPLETING_REBALANCE:
                rejoins = not is_unchanged
            case _State.STABLE:
                # A leader that joins again has seen a change of the topics and wants to assign
                # anew.
                rejoins = group.leader == member_id or not is_unchanged
            case _:
                refuse_join(effects, waiter, ErrorCode.unknown_member_id, member_id)
                return
        if rejoins:
            _update_member(group, member, command, waiter, effects)
            self._rebalance.rebalance_or_complete(group, now_ms, effects)
        else:
            # A leader of a stable group has joined anew above.
            is_leader = group.leader == member_id
            effects.append(
                AnswerWaiter(waiter=waiter, reply=join_reply(group, member, with_members=is_leader))
            )

    def _add_member(
        self,
        group: ClassicGroup,
        command: JoinGroup,
        member_id: str,
        waiter: Waiter,
        now_ms: int,
        effects: Effects,
    ) -> None:
        member = ClassicMember.from_join(command, member_id)
        member.is_new = True
        if group.state is _State.PREPARING_REBALANCE and group.previous_state is _State.EMPTY:
            group.has_added_member = True
        group.add(member, waiter=waiter)
        effects.append(session_timer(group.group_id, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS))
        self._rebalance.rebalance_or_complete(group, now_ms, effects)

    # Static members

    def _replace_static(
        self,
        group: ClassicGroup,
        command: JoinGroup,
        old_id: str,
        new_id: str,
        waiter: Waiter,
        now_ms: int,
        effects: Effects,
    ) -> None:
        """Replace a static member that has restarted: it gets a new id, and requests with the old
        one are fenced (KIP-345).
        """
        leader_before = group.leader or NO_MEMBER
        old_member, new_member = group.replace_static(old_id, new_id)
        _fence_replaced(old_member, effects)
        effects.append(session_timer(group.group_id, new_id, new_member.session_timeout_ms))
        old_settings = (
            new_member.protocols,
            new_member.rebalance_timeout_ms,
            new_member.session_timeout_ms,
        )
        _update_member(group, new_member, command, waiter, effects)
        match group.state:
            case _State.STABLE if not group.has_common_protocol:
                # It names a protocol twice, and a real broker trips over that.
                group.await_join(new_member, None)
                refuse_join(effects, waiter, ErrorCode.unknown_server_error, NO_MEMBER)
            case _State.STABLE if group.select_protocol() == group.protocol:
                effects.append(
                    RecordsToAppend(
                        records=(group.to_record(),),
                        after_write=StaticMemberStored(
                            group_id=group.group_id,
                            old_member_id=old_id,
                            new_member_id=new_id,
                            old_leader=leader_before,
                            old_protocols=old_settings[0],
                            old_rebalance_timeout_ms=old_settings[1],
                            old_session_timeout_ms=old_settings[2],
                            may_skip_assignment=command.may_skip_assignment,
                            waiter=waiter,
                        ),
                    )
                )
            case _State.STABLE:
                self._rebalance.rebalance_or_complete(group, now_ms, effects)
            case _State.COMPLETING_REBALANCE:
                self._rebalance.prepare(group, now_ms, effects)
            case _State.PREPARING_REBALANCE:
                self._rebalance.complete_if_all_joined(group, now_ms, effects)
            case _:
                raise InvariantViolation(f"{group.group_id} is {group.state.value} with members")

    def static_member_stored(
        self, group: ClassicGroup, stored_event: StaticMemberStored, error: ErrorCode
    ) -> Effects:
        """Continue once the new id of a static member is in the log, or could not be written."""
        effects: Effects = []
        member = group.members.get(stored_event.new_member_id)
        if member is None:  # replaced or removed meanwhile; it has its error
            return effects
        if error:
            group.set_protocols(member, stored_event.old_protocols)
            member.rebalance_timeout_ms = stored_event.old_rebalance_timeout_ms
            member.session_timeout_ms = stored_event.old_session_timeout_ms
            _, old_member = group.replace_static(
                stored_event.new_member_id, stored_event.old_member_id
            )
            effects.append(
                session_timer(group.group_id, old_member.member_id, old_member.session_timeout_ms)
            )
            reply = JoinReply(
                error=error,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol=group.protocol,
                leader=stored_event.old_leader,
            )
            effects.append(AnswerWaiter(waiter=stored_event.waiter, reply=reply))
            return effects
        if member.awaiting_join != stored_event.waiter:
            return effects
        group.await_join(member, None)
        is_leader = group.leader == member.member_id
        may_skip = stored_event.may_skip_assignment
        reply = join_reply(group, member, with_members=is_leader and may_skip)
        reply = msgspec.structs.replace(
            reply,
            # A client that can't skip the assignment must not take itself for the leader.
            leader=reply.leader if may_skip else stored_event.old_leader,
            skip_assignment=is_leader and may_skip,
        )
        effects.append(AnswerWaiter(waiter=stored_event.waiter, reply=reply))
        return effects

    def adopt_group(self, group: ClassicGroup, *, now_ms: int) -> Effects:
        """Take over a stable group from another protocol: every member gets a session, and has to
        rejoin.
        """
        effects: Effects = []
        for member_id in group.members:
            effects += self.extend_session(group, member_id)
        self._rebalance.prepare(group, now_ms, effects)
        return effects

    # SyncGroup

    def sync(self, group: ClassicGroup, command: SyncGroup, *, waiter: Waiter) -> Effects:
        """Handle a member that asks for its assignment; the leader sends all of them."""
        effects: Effects = []
        refusal = self._check_sync(group, command)
        if refusal is not None:
            effects.append(AnswerWaiter(waiter=waiter, reply=SyncReply(error=refusal)))
            return effects
        member = group.members[command.member_id]
        match group.state:
            case _State.PREPARING_REBALANCE:
                reply = SyncReply(error=ErrorCode.rebalance_in_progress)
                effects.append(AnswerWaiter(waiter=waiter, reply=reply))
            case _State.COMPLETING_REBALANCE:
                if member.awaiting_sync is not None:
                    effects.append(AnswerWaiter(waiter=member.awaiting_sync, reply=None))
                member.awaiting_sync = waiter
                self._end_sync(group, command.member_id, effects)
                if group.leader == command.member_id:
                    assignment_by_member = dict(command.assignments)
                    complete_assignments = {
                        member_id: assignment_by_member.get(member_id, b"")
                        for member_id in group.members
                    }
                    stored_event = AssignmentStored(
                        group_id=group.group_id,
                        generation=group.generation,
                        assignments=tuple(complete_assignments.items()),
                    )
                    effects.append(
                        RecordsToAppend(
                            records=(group.to_record(complete_assignments),),
                            after_write=stored_event,
                        )
                    )
            case _State.STABLE:
                self._end_sync(group, command.member_id, effects)
                reply = SyncReply(
                    protocol_type=group.protocol_type,
                    protocol=group.protocol,
                    assignment=member.assignment,
                )
                effects.append(AnswerWaiter(waiter=waiter, reply=reply))
            case _:
                raise InvariantViolation(f"{group.group_id} is {group.state.value} with members")
        return effects

    def assignment_stored(
        self, group: ClassicGroup, stored_event: AssignmentStored, error: ErrorCode, *, now_ms: int
    ) -> Effects:
        """Continue once the leader's assignment is in the log, or could not be written."""
        effects: Effects = []
        if (
            group.state is not _State.COMPLETING_REBALANCE
            or stored_event.generation != group.generation
        ):
            return effects  # the group has moved on, and waiting members have their answer
        if error:
            self._rebalance.propagate_assignments(group, {}, error, effects)
            self._rebalance.rebalance_or_complete(group, now_ms, effects)
        else:
            self._rebalance.propagate_assignments(
                group, dict(stored_event.assignments), _NO_ERROR, effects
            )
            group.move_to(_State.STABLE, now_ms=now_ms)
        return effects

    def _check_sync(self, group: ClassicGroup, command: SyncGroup) -> ErrorCode | None:
        if group.state is _State.DEAD:
            return ErrorCode.coordinator_not_available
        refusal = group.check_member(command.member_id, command.group_instance_id)
        if refusal is not None:
            return refusal.error
        if command.generation != group.generation:
            return ErrorCode.illegal_generation
        for named_value, group_value in (
            (command.protocol_type, group.protocol_type),
            (command.protocol, group.protocol),
        ):
            if named_value is not None and group_value is not None and named_value != group_value:
                return ErrorCode.inconsistent_group_protocol
        return None

    def _end_sync(self, group: ClassicGroup, member_id: str, effects: Effects) -> None:
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            effects.append(TimerCancelled(kind=TimerKind.SYNC, group_id=group.group_id))

    # Heartbeat, LeaveGroup

    def heartbeat(
        self, group: ClassicGroup, command: Heartbeat
    ) -> tuple[Rejection | None, Effects]:
        """Mark a member alive; with an error if it has to rejoin."""
        if group.state is _State.DEAD:
            return _rejection(ErrorCode.coordinator_not_available, group, "is dead"), []
        refusal = group.check_member(command.member_id, command.group_instance_id)
        if refusal is not None:
            return refusal, []
        if command.generation != group.generation:
            return group.wrong_generation(command.generation), []
        session_effects = self.extend_session(group, command.member_id)
        if group.state is _State.PREPARING_REBALANCE:
            return _rejection(
                ErrorCode.rebalance_in_progress, group, "prepares a rebalance"
            ), session_effects
        return None, session_effects

    def extend_session(self, group: ClassicGroup, member_id: str) -> Effects:
        """Extend a member's session, because a request has shown that it is alive."""
        return [
            session_timer(group.group_id, member_id, group.members[member_id].session_timeout_ms)
        ]

    def leave(
        self, group: ClassicGroup, command: LeaveGroup, *, now_ms: int
    ) -> tuple[LeaveReply, Effects]:
        """Remove members that leave, or that an administrator removes."""
        if group.state is _State.DEAD:
            return LeaveReply(error=ErrorCode.coordinator_not_available), []
        effects: Effects = []
        member_answers = tuple(
            (member_id, instance_id, self._remove_leaver(group, member_id, instance_id, effects))
            for member_id, instance_id in command.members
        )
        if any(error is _NO_ERROR for _, _, error in member_answers):
            if group.state in (_State.STABLE, _State.COMPLETING_REBALANCE):
                self._rebalance.rebalance_or_complete(group, now_ms, effects)
            elif group.state is _State.PREPARING_REBALANCE:
                self._rebalance.complete_if_all_joined(group, now_ms, effects)
        return LeaveReply(members=member_answers), effects

    def _remove_leaver(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, effects: Effects
    ) -> ErrorCode:
        if member_id == NO_MEMBER:
            static_member_id = (
                None if instance_id is None else group.static_members.get(instance_id)
            )
            if static_member_id is None:
                return ErrorCode.unknown_member_id
            self._rebalance.remove(group, static_member_id, effects)
            return _NO_ERROR
        if member_id not in group.pending_join:
            refusal = group.check_member(member_id, instance_id)
            if refusal is not None:
                return refusal.error
        self._rebalance.remove(group, member_id, effects)
        return _NO_ERROR

    # Timers

    def remove_expired_members(
        self, group: ClassicGroup, member_ids: Sequence[str], *, now_ms: int
    ) -> Effects:
        """Remove members that were silent for their session timeout, or did not use their new
        id.
        """
        effects: Effects = []
        pending_before = len(group.pending_join)
        for member_id in member_ids:
            if member_id in group.pending_join:
                group.remove(member_id)
                continue
            member = group.members.get(member_id)
            if member is not None and not member.is_alive_by_waiting:
                self._rebalance.remove(group, member_id, effects)
        if not effects and len(group.pending_join) == pending_before:
            return effects
        if effects and group.state in (_State.STABLE, _State.COMPLETING_REBALANCE):
            self._rebalance.rebalance_or_complete(group, now_ms, effects)
        elif group.state is _State.PREPARING_REBALANCE and group.all_are_joining:
            self._rebalance.complete(group, now_ms, effects)
        return effects

    def end_join_phase(
        self, group: ClassicGroup, *, delay_ms: int, remaining_ms: int | None, now_ms: int
    ) -> Effects:
        """End the time to rejoin; or the delay of a first rebalance, which is extended as long as
        new members join.

        Args:
            group: The group.
            delay_ms: How long the timer ran.
            remaining_ms: How much longer a first rebalance may be delayed; None for other
                rebalances.
            now_ms: The cluster's time.
        """
        effects: Effects = []
        if remaining_ms and group.has_added_member:
            group.has_added_member = False
            effects.append(
                TimerSet(
                    kind=TimerKind.JOIN,
                    group_id=group.group_id,
                    delay_ms=min(self._settings.group_initial_rebalance_delay_ms, remaining_ms),
                    remaining_ms=max(remaining_ms - delay_ms, 0),
                )
            )
        else:
            self._rebalance.complete(group, now_ms, effects)
        return effects

    def end_sync_phase(self, group: ClassicGroup, *, generation: int, now_ms: int) -> Effects:
        """Remove the members that joined the generation but did not ask for an assignment."""
        effects: Effects = []
        if generation != group.generation or not group.pending_sync:
            return effects
        if group.state in (_State.COMPLETING_REBALANCE, _State.STABLE):
            for member_id in tuple(group.pending_sync):
                self._rebalance.remove(group, member_id, effects)
            self._rebalance.prepare(group, now_ms, effects)
        return effects


def _update_member(
    group: ClassicGroup, member: ClassicMember, command: JoinGroup, waiter: Waiter, effects: Effects
) -> None:
    if member.awaiting_join is not None:
        effects.append(AnswerWaiter(waiter=member.awaiting_join, reply=None))
    group.set_protocols(member, command.protocols)
    member.rebalance_timeout_ms = command.rebalance_timeout_ms
    member.session_timeout_ms = command.session_timeout_ms
    group.await_join(member, waiter)


def _fence_replaced(old_member: ClassicMember, effects: Effects) -> None:
    fenced_error = ErrorCode.fenced_instance_id
    if old_member.awaiting_join is not None:
        refuse_join(effects, old_member.awaiting_join, fenced_error, old_member.member_id)
    if old_member.awaiting_sync is not None:
        effects.append(
            AnswerWaiter(waiter=old_member.awaiting_sync, reply=SyncReply(error=fenced_error))
        )


def _rejection(error: ErrorCode, group: ClassicGroup, problem: str) -> Rejection:
    return Rejection(error=error, reason=f"group {group.group_id} {problem}")
