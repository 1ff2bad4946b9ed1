"""The shell around the groups of the classic protocol: waiting requests, timers, records.

It carries out the effects that ``group.classic`` decides, in order, and calls it when a timer fires
or a record is written.

Counterpart in Kafka: the appendFutures of GroupMetadataManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, assert_never

import msgspec

from txnsim.coordinators.group._group_timers import GroupTimers
from txnsim.coordinators.group._group_writes import AppliedRecords, GroupWrite, GroupWrites
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic import ClassicProtocol
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import (
    NO_MEMBER,
    AfterWrite,
    AnswerWaiter,
    AssignmentStored,
    Effect,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    LeaveStored,
    NewGroupStored,
    RecordsToAppend,
    StaticMemberStored,
    SyncGroup,
    SyncReply,
    TimerCancelled,
    TimerKind,
    TimerSet,
    Waiter,
    unexpected_timer,
)
from txnsim.group.rebalance import Effects
from txnsim.group.shard import GroupShard
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import Pending, ignore_end

TURN_EFFECTS: Final = 64
"""Number of effects of a decision that are carried out without a break."""


class ClassicGroups(msgspec.Struct, kw_only=True, eq=False):
    """The classic groups of one broker."""

    clock: Clock
    tasks: Tasks
    protocol: ClassicProtocol
    timers: GroupTimers
    is_current: Callable[[GroupShard], bool]
    writes: GroupWrites
    _waiting_answers: dict[Waiter, Pending[Any]] = {}
    _waiter_last: int = 0
    _returning_members: dict[Waiter, StaticMemberStored] = {}
    """Static members that have come back, until their new ids are in the log."""
    _queued_effects: dict[str, deque[Effect]] = {}
    """Effects that wait for later turns, by group; a generation of thousands has very many."""

    # Requests

    async def join(self, shard: GroupShard, command: JoinGroup) -> JoinReply | None:
        """Join; None if the request will never be answered."""
        group = shard.groups.get(command.group_id)
        is_new_group = group is None
        if group is None:
            if command.member_id != NO_MEMBER:
                return JoinReply(error=ErrorCode.unknown_member_id, member_id=command.member_id)
            group = shard.classic_or_new(command.group_id, now_ms=self.clock.now_ms())
        if not isinstance(group, ClassicGroup):
            return JoinReply(error=ErrorCode.inconsistent_group_protocol)
        waiter, pending_answer = self._add_waiter()
        effects = self.protocol.join(
            group,
            command,
            waiter=waiter,
            is_new_group=is_new_group,
            now_ms=self.clock.now_ms(),
        )
        self._carry_out(shard, command.group_id, effects)
        reply: JoinReply | None = await pending_answer
        return reply

    async def sync(self, shard: GroupShard, command: SyncGroup) -> SyncReply | None:
        """Wait for the assignment; None if the request will never be answered."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            return SyncReply(error=ErrorCode.unknown_member_id)
        waiter, pending_answer = self._add_waiter()
        effects = self.protocol.sync(group, command, waiter=waiter)
        self._carry_out(shard, command.group_id, effects)
        reply: SyncReply | None = await pending_answer
        return reply

    def heartbeat(self, shard: GroupShard, command: Heartbeat) -> Rejection | None:
        """Note that a member is alive."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup):
            return Rejection(
                error=ErrorCode.unknown_member_id, reason=f"no member of {command.group_id}"
            )
        refusal, effects = self.protocol.heartbeat(group, command)
        self._carry_out(shard, command.group_id, effects)
        return refusal

    async def leave(self, shard: GroupShard, command: LeaveGroup) -> LeaveReply:
        """Remove members. If the group is empty then, the answer waits for the record of that."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup):
            unknown_member_error = ErrorCode.unknown_member_id
            return LeaveReply(
                members=tuple(
                    (member_id, instance_id, unknown_member_error)
                    for member_id, instance_id in command.members
                )
            )
        reply, effects = self.protocol.leave(group, command, now_ms=self.clock.now_ms())
        is_stored = any(isinstance(effect, RecordsToAppend) for effect in effects)
        if is_stored and shard.release_rules.last_leaver_waits_for_log:
            waiter, pending_answer = self._add_waiter()
            stored_event = LeaveStored(waiter=waiter, reply=reply)
            effects = [
                msgspec.structs.replace(effect, after_write=stored_event)
                if isinstance(effect, RecordsToAppend)
                else effect
                for effect in effects
            ]
            self._carry_out(shard, command.group_id, effects)
            awaited_reply: LeaveReply = await pending_answer
            return awaited_reply
        self._carry_out(shard, command.group_id, effects)
        return reply

    def extend_session(self, shard: GroupShard, group: ClassicGroup, member_id: str) -> None:
        """Extend a member's session, because its commit shows that it is alive."""
        self._carry_out(shard, group.group_id, self.protocol.extend_session(group, member_id))

    # Life of a shard

    def load(self, shard: GroupShard) -> Iterator[int]:
        """Start a session for every member in the log; yields after each."""
        for group in shard.classic_groups():
            for member_id in tuple(group.members):
                if member_id in group.members:
                    self.extend_session(shard, group, member_id)
                yield 1

    def unload(self, shard: GroupShard) -> None:
        """Drop the state of groups that another broker coordinates now."""
        if not self._waiting_answers:
            return
        for group in shard.classic_groups():
            if group.members:  # a hundred thousand may have none
                self._refuse_returning(group)
                self._refuse_waiting(group, ErrorCode.not_coordinator)

    def convert(self, shard: GroupShard, group: ClassicGroup) -> None:
        """Make waiting members rejoin, because the group uses the consumer protocol now."""
        self.timers.forget(shard, group.group_id)
        self._refuse_waiting(group, ErrorCode.rebalance_in_progress)

    def adopt_group(self, shard: GroupShard, group: ClassicGroup) -> None:
        """Take over a group that used the consumer protocol before: its members have to rejoin."""
        effects = self.protocol.adopt_group(group, now_ms=self.clock.now_ms())
        self._carry_out(shard, group.group_id, effects)

    # Effects

    def _carry_out(self, shard: GroupShard, group_id: str, effects: Effects) -> None:
        """Carry out effects in order, after earlier ones of the same group."""
        if group_id in self._queued_effects:
            self._queued_effects[group_id].extend(effects)
            return
        if len(effects) > TURN_EFFECTS:
            self._queued_effects[group_id] = deque(effects[TURN_EFFECTS:])
            effects = effects[:TURN_EFFECTS]
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
            self.tasks.drive(
                self._carry_out_later(shard, group_id, pace), ignore_end, name="group.generation"
            )
        for effect in effects:
            self._carry_out_effect(shard, effect)

    async def _carry_out_later(self, shard: GroupShard, group_id: str, pace: Pace) -> None:
        await pace.yield_turn()
        effects = self._queued_effects[group_id]
        while effects:
            effect = effects.popleft()
            if isinstance(effect, AnswerWaiter) or self.is_current(shard):
                self._carry_out_effect(shard, effect)
            if pace.has_done(2):
                await pace.yield_turn()
        del self._queued_effects[group_id]

    def _carry_out_effect(self, shard: GroupShard, effect: Effect) -> None:
        match effect:
            case AnswerWaiter():
                self._answer_waiter(effect.waiter, effect.reply)
            case TimerSet():
                self.timers.arm(shard, effect, self._on_due_timers)
            case TimerCancelled():
                self.timers.disarm(shard, effect)
            case RecordsToAppend():
                self._write_records(shard, effect)
            case _:
                assert_never(effect)

    def _write_records(self, shard: GroupShard, effect: RecordsToAppend) -> None:
        applied_records = AppliedRecords(records=effect.records)
        if isinstance(effect.after_write, StaticMemberStored):
            self._returning_members[effect.after_write.waiter] = effect.after_write
        operation = GroupWrite(
            writes=self.writes,
            shard=shard,
            group_id="",
            decide=lambda: applied_records,
            append=lambda _, records: self.writes.writer.append(shard, records, takes_effect=False),
        )
        self.tasks.drive(
            self._write(shard, effect.after_write, operation),
            lambda write_result, bug: self._on_written(
                shard, effect.after_write, write_result, bug
            ),
            name="group-write",
        )

    async def _write(
        self,
        shard: GroupShard,
        stored_event: AfterWrite | None,
        operation: GroupWrite[AppliedRecords],
    ) -> AppliedRecords | Rejection:
        end_offset_before = shard.end_offset
        write_outcome = await operation.run_and_wait()
        # A fault may hold the append, and other records may tell of the group meanwhile.
        if (
            isinstance(write_outcome, Rejection)
            and isinstance(stored_event, NewGroupStored)
            and shard.end_offset == end_offset_before
        ):
            self._forget_new_group(shard, stored_event, write_outcome.error)
        if isinstance(stored_event, LeaveStored):
            reply = stored_event.reply
            if isinstance(write_outcome, Rejection):
                reply = LeaveReply(error=write_outcome.error)
            self._answer_waiter(stored_event.waiter, reply)
        return write_outcome

    def _forget_new_group(
        self, shard: GroupShard, stored_event: NewGroupStored, error: ErrorCode
    ) -> None:
        """Forget a group that the log has not taken."""
        group = shard.groups.get(stored_event.group_id)
        if self.is_current(shard) and isinstance(group, ClassicGroup):
            self._answer_waiter(stored_event.waiter, JoinReply(error=error))
            self._refuse_waiting(group, error)
            self.timers.forget(shard, group.group_id)
            del shard.groups[group.group_id]

    def _on_written(
        self,
        shard: GroupShard,
        stored_event: AfterWrite | None,
        write_result: AppliedRecords | Rejection | None,
        bug: BaseException | None,
    ) -> None:
        if isinstance(stored_event, StaticMemberStored):
            self._returning_members.pop(stored_event.waiter, None)
        if bug is None and self.is_current(shard):
            error = write_result.error if isinstance(write_result, Rejection) else ErrorCode.none
            self._follow_write(shard, stored_event, error)

    def _follow_write(
        self, shard: GroupShard, stored_event: AfterWrite | None, error: ErrorCode
    ) -> None:
        """Called when a write is committed or has failed."""
        match stored_event:
            case None | LeaveStored():
                return
            case NewGroupStored():
                if error:
                    self._answer_waiter(stored_event.waiter, JoinReply(error=error))
                return
            case AssignmentStored() | StaticMemberStored():
                group = shard.groups.get(stored_event.group_id)
            case _:
                assert_never(stored_event)
        if not isinstance(group, ClassicGroup):
            return  # deleted meanwhile
        if isinstance(stored_event, AssignmentStored):
            now_ms = self.clock.now_ms()
            effects = self.protocol.assignment_stored(group, stored_event, error, now_ms=now_ms)
        else:
            effects = self.protocol.static_member_stored(group, stored_event, error)
        self._carry_out(shard, group.group_id, effects)

    # Waiters

    def _add_waiter(self) -> tuple[Waiter, Pending[Any]]:
        self._waiter_last += 1
        pending_answer: Pending[Any] = Pending(self.tasks)
        self._waiting_answers[self._waiter_last] = pending_answer
        return self._waiter_last, pending_answer

    def _answer_waiter(
        self, waiter: Waiter, reply: JoinReply | SyncReply | LeaveReply | None
    ) -> None:
        pending_answer = self._waiting_answers.pop(waiter, None)
        if pending_answer is not None:
            pending_answer.resolve(reply)

    def _refuse_returning(self, group: ClassicGroup) -> None:
        """Answer static members that come back as their group was before, as if the log had refused
        them.
        """
        for stored_event in tuple(self._returning_members.values()):
            if stored_event.group_id == group.group_id:
                for effect in self.protocol.static_member_stored(
                    group, stored_event, ErrorCode.not_coordinator
                ):
                    if isinstance(effect, AnswerWaiter):
                        self._answer_waiter(effect.waiter, effect.reply)

    def _refuse_waiting(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer all members of a group that is not used any more."""
        for member in group.members.values():
            if member.awaiting_join is not None:
                reply = JoinReply(error=error, member_id=member.member_id)
                self._answer_waiter(member.awaiting_join, reply)
            if member.awaiting_sync is not None:
                self._answer_waiter(member.awaiting_sync, SyncReply(error=error))

    # Timers

    def _on_due_timers(self, shard: GroupShard, timers: Sequence[TimerSet]) -> None:
        group_id = timers[0].group_id
        group = shard.groups.get(group_id)
        if not self.is_current(shard) or not isinstance(group, ClassicGroup):
            return
        now_ms = self.clock.now_ms()
        silent_ids = [timer.member_id for timer in timers if timer.kind is TimerKind.HEARTBEAT]
        if silent_ids:
            effects = self.protocol.remove_expired_members(group, silent_ids, now_ms=now_ms)
            self._carry_out(shard, group_id, effects)
        for timer in timers:
            match timer.kind:
                case TimerKind.HEARTBEAT:
                    continue
                case TimerKind.JOIN:
                    effects = self.protocol.end_join_phase(
                        group,
                        delay_ms=timer.delay_ms,
                        remaining_ms=timer.remaining_ms,
                        now_ms=now_ms,
                    )
                case TimerKind.SYNC:
                    effects = self.protocol.end_sync_phase(
                        group, generation=timer.generation, now_ms=now_ms
                    )
                case TimerKind.ASSIGNMENT | TimerKind.REVOCATION:
                    raise unexpected_timer(timer, "classic")
                case _:
                    assert_never(timer.kind)
            self._carry_out(shard, group_id, effects)
