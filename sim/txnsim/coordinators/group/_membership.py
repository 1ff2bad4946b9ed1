"""Members of classic groups, from the outside: requests that wait, timers, records on their way.

The shell around ``group.classic``: it carries out what the rules ask for, in order, and calls them
when a timer fires or a record is written.

Counterpart in Kafka: the appendFutures of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, assert_never

import msgspec

from txnsim.coordinators.group._timers import GroupTimers
from txnsim.coordinators.group._writer import GroupWriter
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic import ClassicProtocol
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import (
    NO_MEMBER,
    AfterWrite,
    Answered,
    AssignmentStored,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    NewGroupStored,
    StaticMemberStored,
    SyncGroup,
    SyncReply,
    TimerCancelled,
    TimerKind,
    TimerSet,
    Waiter,
    Written,
)
from txnsim.group.rebalance import Effects
from txnsim.group.shard import GroupShard
from txnsim.runtime.env import Clock, Tasks
from txnsim.runtime.tasks import Pending


class Membership(msgspec.Struct, kw_only=True, eq=False):
    """The classic groups of one broker."""

    clock: Clock
    tasks: Tasks
    writer: GroupWriter
    protocol: ClassicProtocol
    timers: GroupTimers
    is_current: Callable[[GroupShard], bool]
    _waiting: dict[Waiter, Pending[Any]] = {}
    _waiter_last: int = 0

    # Requests

    async def join(self, shard: GroupShard, command: JoinGroup) -> JoinReply | None:
        """Join; None where the request will never be answered."""
        group = shard.groups.get(command.group_id)
        is_new_group = group is None
        if group is None:
            if command.member_id != NO_MEMBER:
                return JoinReply(error=ErrorCode.unknown_member_id, member_id=command.member_id)
            group = shard.classic_or_new(command.group_id, now_ms=self.clock.now_ms())
        if not isinstance(group, ClassicGroup):
            return JoinReply(error=ErrorCode.inconsistent_group_protocol)
        waiter, answer = self._wait()
        effects = self.protocol.join(
            group,
            command,
            waiter=waiter,
            is_new_group=is_new_group,
            now_ms=self.clock.now_ms(),
        )
        self._carry_out(shard, effects)
        reply: JoinReply | None = await answer
        return reply

    async def sync(self, shard: GroupShard, command: SyncGroup) -> SyncReply | None:
        """Wait for the assignment; None where the request will never be answered."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            return SyncReply(error=ErrorCode.unknown_member_id)
        waiter, answer = self._wait()
        self._carry_out(shard, self.protocol.sync(group, command, waiter=waiter))
        reply: SyncReply | None = await answer
        return reply

    def heartbeat(self, shard: GroupShard, command: Heartbeat) -> Rejection | None:
        """A member is alive."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            return Rejection(
                error=ErrorCode.unknown_member_id, reason=f"no member of {command.group_id}"
            )
        refusal, effects = self.protocol.heartbeat(group, command)
        self._carry_out(shard, effects)
        return refusal

    def leave(self, shard: GroupShard, command: LeaveGroup) -> LeaveReply:
        """Members leave."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup):
            unknown = ErrorCode.unknown_member_id
            return LeaveReply(
                members=tuple((member, instance, unknown) for member, instance in command.members)
            )
        reply, effects = self.protocol.leave(group, command, now_ms=self.clock.now_ms())
        self._carry_out(shard, effects)
        return reply

    def touched(self, shard: GroupShard, group: ClassicGroup, member_id: str) -> None:
        """A commit of positions shows that the member is alive."""
        if member_id in group.members:
            self._carry_out(shard, self.protocol.touched(group, member_id))

    # Life of a shard

    def loaded(self, shard: GroupShard) -> None:
        """Give every member that the log knows the time of a session to show itself."""
        for group in shard.classic_groups():
            for member_id in group.members:
                self._carry_out(shard, self.protocol.touched(group, member_id))

    def unloaded(self, shard: GroupShard) -> None:
        """Another broker coordinates these groups now."""
        for group in shard.classic_groups():
            self._refuse_waiting(group, ErrorCode.not_coordinator)

    def converted(self, shard: GroupShard, group: ClassicGroup) -> None:
        """The group speaks the consumer protocol now: waiting members have to join again."""
        self.timers.forget(shard, group.group_id)
        self._refuse_waiting(group, ErrorCode.rebalance_in_progress)

    def adopted(self, shard: GroupShard, group: ClassicGroup) -> None:
        """The group spoke the consumer protocol before: its members are to join again."""
        self._carry_out(shard, self.protocol.adopted(group, now_ms=self.clock.now_ms()))

    # Effects

    def _carry_out(self, shard: GroupShard, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Answered():
                    self._answer(effect.waiter, effect.reply)
                case TimerSet():
                    self.timers.arm(shard, effect, partial(self._fire, shard))
                case TimerCancelled():
                    self.timers.disarm(shard, effect)
                case Written():
                    self._write(shard, effect)
                case _:
                    assert_never(effect)

    def _write(self, shard: GroupShard, effect: Written) -> None:
        self.tasks.drive(
            self._append(shard, effect),
            lambda error, bug: self._written(shard, effect.then, error, bug),
            name="group-write",
        )

    async def _append(self, shard: GroupShard, effect: Written) -> ErrorCode:
        """Write records whose effect the group already has in memory; return once replicated."""
        waiting = self.writer.admit(shard, None)
        if waiting is not None:
            refused = await waiting
            if refused is not None:
                return refused.error
            if not self.is_current(shard):
                return ErrorCode.not_coordinator  # the answer goes to no client
        written = self.writer.append(shard, effect.records, takes_effect=False)
        if isinstance(written, Rejection):
            return written.error
        return await self.writer.committed(shard, written)

    def _written(
        self,
        shard: GroupShard,
        then: AfterWrite | None,
        error: ErrorCode | None,
        bug: BaseException | None,
    ) -> None:
        if bug is None and error is not None and self.is_current(shard):
            self._after(shard, then, error)

    def _after(self, shard: GroupShard, then: AfterWrite | None, error: ErrorCode) -> None:
        """A write is committed, or has failed."""
        match then:
            case None:
                return
            case NewGroupStored():
                if error:
                    self._answer(then.waiter, JoinReply(error=error))
                return
            case AssignmentStored() | StaticMemberStored():
                group = shard.groups.get(then.group_id)
            case _:
                assert_never(then)
        if not isinstance(group, ClassicGroup):
            return  # deleted meanwhile
        if isinstance(then, AssignmentStored):
            now_ms = self.clock.now_ms()
            effects = self.protocol.assignment_stored(group, then, error, now_ms=now_ms)
        else:
            effects = self.protocol.static_member_stored(group, then, error)
        self._carry_out(shard, effects)

    # Waiters

    def _wait(self) -> tuple[Waiter, Pending[Any]]:
        self._waiter_last += 1
        answer: Pending[Any] = Pending(self.tasks)
        self._waiting[self._waiter_last] = answer
        return self._waiter_last, answer

    def _answer(self, waiter: Waiter, reply: JoinReply | SyncReply | None) -> None:
        answer = self._waiting.pop(waiter, None)
        if answer is not None:
            answer.resolve(reply)

    def _refuse_waiting(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            if member.awaiting_join is not None:
                reply = JoinReply(error=error, member_id=member.member_id)
                self._answer(member.awaiting_join, reply)
                member.awaiting_join = None
            if member.awaiting_sync is not None:
                self._answer(member.awaiting_sync, SyncReply(error=error))
                member.awaiting_sync = None

    # Timers

    def _fire(self, shard: GroupShard, timer: TimerSet) -> None:
        group = shard.groups.get(timer.group_id)
        if not self.is_current(shard) or not isinstance(group, ClassicGroup):
            return
        now_ms = self.clock.now_ms()
        match timer.kind:
            case TimerKind.HEARTBEAT:
                effects = self.protocol.session_over(group, timer.member_id, now_ms=now_ms)
            case TimerKind.JOIN:
                effects = self.protocol.join_over(
                    group,
                    delay_ms=timer.delay_ms,
                    remaining_ms=timer.remaining_ms,
                    now_ms=now_ms,
                )
            case _:
                assert timer.kind is TimerKind.SYNC, "no other one is armed for a classic group"
                effects = self.protocol.sync_over(group, generation=timer.generation, now_ms=now_ms)
        self._carry_out(shard, effects)
