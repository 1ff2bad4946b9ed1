"""The shell around group membership: waiting requests, timers, records being written.

It carries out the effects that ``group.classic`` and ``group.consumer`` decide, in order, and calls
them when a timer fires or a record is written.

Counterpart in Kafka: the appendFutures of GroupMetadataManager.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar, assert_never, cast

import msgspec

from txnsim.coordinators._write_operation import DecisionLines
from txnsim.coordinators.group._group_writes import (
    AppliedRecords,
    GroupWrite,
    GroupWrites,
    with_names,
)
from txnsim.coordinators.group._writer import MANY_RECORDS, TOO_MUCH, GroupWriter
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic import ClassicProtocol
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import (
    NO_MEMBER,
    AfterWrite,
    AnswerWaiter,
    AssignmentStored,
    ConsumerEffect,
    ConsumerHeartbeat,
    ConsumerOutcome,
    Effect,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    NewGroupStored,
    RecordsToAppend,
    ResolveRegexes,
    RunAssignor,
    StaticMemberStored,
    SyncGroup,
    SyncReply,
    TimerCancelled,
    TimerKind,
    TimerSet,
    Waiter,
    unexpected_timer,
)
from txnsim.group.consumer import ConsumerProtocol, ConsumerSettings
from txnsim.group.consumer_classic import ClassicMembers
from txnsim.group.consumer_group import LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH, ConsumerGroup
from txnsim.group.consumer_regex import TopicsByRegex, matching_topics, resolve
from txnsim.group.migration import downgrade, upgrade, upgrade_refusal
from txnsim.group.rebalance import Effects
from txnsim.group.records import GroupRecord
from txnsim.group.shard import GroupShard
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.streams.group import StreamsGroup
from txnsim.loggers import Logger
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace
from txnsim.runtime.tasks import Pending, ignore_end
from txnsim.settings import Settings

# The timers of a broker's groups, of either protocol.
#
# They run on the monotonic clock, like the clients that keep sessions and rebalances alive;
# advancing the cluster's clock expels no member. Counterpart in Kafka: CoordinatorTimer.

_TimerKey = tuple[TimerKind, str, str]

TURN_EFFECTS: Final = 64
"""Number of effects of a decision that are carried out without a break."""


TURN_TIMERS: Final = 16
"""Number of timers that run in one turn of the loop; others that are due at that time wait for
later turns.
"""
MANY_MEMBERS: Final = 100
MANY_PARTITIONS: Final = 1_000
"""With more members or partitions than this, an assignment counts as a large request."""
DECIDED_TOGETHER: Final = 32
"""Number of due members of a group that one decision removes, about a millisecond of work."""

RETRY_MS: Final = 500
"""Time after which a timer whose write was refused fires again (CoordinatorTimerImpl)."""
_NOT_RETRIED: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.group_id_not_found,
    }
)
"""The group is gone, or another broker coordinates it."""

OnDueTimers = Callable[[GroupShard, Sequence[TimerSet]], None]
"""Handles due timers of one group."""
_TimerQueue = dict[tuple[int, str], dict[_TimerKey, tuple[GroupShard, TimerSet, OnDueTimers]]]
"""Due timers, by (partition, group)."""


class GroupTimers(msgspec.Struct, kw_only=True, eq=False):
    """Armed timers; each (kind, group, member) has one.

    Thousands of sessions may expire at the same time. The first timers of a turn run at once; the
    others wait, grouped by group, and run in slices. Timers of a group for which a decision is
    being made in slices wait for it.
    """

    clock: Clock
    tasks: Tasks
    lines: DecisionLines = msgspec.field(default_factory=DecisionLines)
    _armed_timers: dict[int, dict[str, dict[_TimerKey, TimerHandle]]] = {}
    """Armed timers by partition of ``__consumer_offsets`` and group."""
    _late_timers: _TimerQueue = {}
    """Due timers that wait for a later turn."""
    _behind: _TimerQueue = {}
    """Due timers that wait for a decision about their group."""
    _run_count: int = 0
    """Number of timers that have run in this turn."""

    def arm(self, shard: GroupShard, timer: TimerSet, on_fire: OnDueTimers) -> None:
        """Arm a timer, or change its time; ``on_fire`` is called with it when it fires."""
        key = _timer_key(timer)
        group_timers = self._armed_timers.setdefault(shard.partition, {}).setdefault(
            timer.group_id, {}
        )
        old_timer = group_timers.get(key)
        if old_timer is not None:
            if timer.keeps_first:
                return
            old_timer.cancel()
        group_timers[key] = self.clock.call_later(
            timer.delay_ms, partial(self._fire, shard, timer, key, on_fire)
        )

    def has_timer(self, shard: GroupShard, kind: TimerKind, group_id: str) -> bool:
        """Whether a timer of a whole group is armed."""
        return (kind, group_id, NO_MEMBER) in self._armed_timers.get(shard.partition, {}).get(
            group_id, {}
        )

    def disarm(self, shard: GroupShard, timer: TimerSet | TimerCancelled) -> None:
        """Cancel a timer; does nothing if it is not armed."""
        timers_by_group = self._armed_timers.get(shard.partition, {})
        group_timers = timers_by_group.get(timer.group_id, {})
        timer_handle = group_timers.pop(_timer_key(timer), None)
        if timer_handle is not None:
            timer_handle.cancel()
            if not group_timers:
                del timers_by_group[timer.group_id]

    def forget(self, shard: GroupShard, group_id: str) -> None:
        """Cancel all timers of a group that was deleted or has changed its protocol."""
        for timer_handle in self._armed_timers.get(shard.partition, {}).pop(group_id, {}).values():
            timer_handle.cancel()

    def unload(self, shard: GroupShard) -> None:
        """Cancel the timers of all groups of a partition, because another broker coordinates them
        now.
        """
        for group_timers in self._armed_timers.pop(shard.partition, {}).values():
            for timer_handle in group_timers.values():
                timer_handle.cancel()

    def write(
        self,
        operation: GroupWrite[Any],
        timers: Sequence[TimerSet],
        on_fire: OnDueTimers,
        *,
        pace: Pace | None = None,
    ) -> None:
        """Carry out the write operation of timers that have fired. If the log refuses it, they fire
        again after ``RETRY_MS`` (CoordinatorTimerImpl).
        """
        if operation.refuse_moved() is None:
            self.tasks.drive(
                operation.run(pace),
                partial(self._after_write, operation, timers, on_fire),
                name="group.timer",
            )

    def _after_write(
        self,
        operation: GroupWrite[Any],
        timers: Sequence[TimerSet],
        on_fire: OnDueTimers,
        appended: object,
        bug: BaseException | None,
    ) -> None:
        if isinstance(bug, asyncio.CancelledError):
            return
        if bug is not None:
            raise bug
        if not isinstance(appended, Rejection) or appended.error in _NOT_RETRIED:
            return
        _log.warning("group.write-refused", group=timers[0].group_id, reason=appended.reason)
        if operation.refuse_moved() is None:
            for timer in timers:
                self.arm(
                    operation.shard, msgspec.structs.replace(timer, delay_ms=RETRY_MS), on_fire
                )

    def _fire(
        self, shard: GroupShard, timer: TimerSet, key: _TimerKey, on_fire: OnDueTimers
    ) -> None:
        partition_and_group = shard.partition, timer.group_id
        if self.lines.is_busy(*partition_and_group):
            if self._wait(self._behind, shard, timer, key, on_fire):
                self.tasks.drive(
                    self._run_waiting_timers(partition_and_group), ignore_end, name="group.timers"
                )
            return
        if self._late_timers or self._run_count >= TURN_TIMERS:
            is_first = not self._late_timers
            self._wait(self._late_timers, shard, timer, key, on_fire)
            if is_first:
                self.tasks.drive(self._run_late_timers(), ignore_end, name="group.timers")
            return
        self._run_count += 1
        self._drop_timer(shard, timer, key)
        on_fire(shard, (timer,))
        if self._run_count == 1:
            self.tasks.soon(self._begin_turn)

    def _drop_timer(self, shard: GroupShard, timer: TimerSet, key: _TimerKey) -> None:
        timers_by_group = self._armed_timers.get(shard.partition, {})
        group_timers = timers_by_group.get(timer.group_id, {})
        group_timers.pop(key, None)
        if not group_timers:
            timers_by_group.pop(timer.group_id, None)

    def _begin_turn(self) -> None:
        self._run_count = 0

    # Those that wait

    def _wait(
        self,
        queue: _TimerQueue,
        shard: GroupShard,
        timer: TimerSet,
        key: _TimerKey,
        on_fire: OnDueTimers,
    ) -> bool:
        """Queue a due timer; returns whether it is the first of its group in that queue."""
        partition_and_group = shard.partition, timer.group_id
        group_timers = queue.setdefault(partition_and_group, {})
        group_timers[key] = shard, timer, on_fire
        self._armed_timers[shard.partition][timer.group_id][key] = _DueTimer(
            queue, partition_and_group, key
        )
        return len(group_timers) == 1

    async def _run_late_timers(self) -> None:
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        await pace.yield_turn()  # the others of this turn come first
        while self._late_timers:
            self._run_group_timers(next(iter(self._late_timers.values())))
            if pace.has_done(LOOK_ELEMENTS):
                await pace.yield_turn()

    async def _run_waiting_timers(self, partition_and_group: tuple[int, str]) -> None:
        async with self.lines.line_of(*partition_and_group):
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
            while group_timers := self._behind.get(partition_and_group):
                self._run_group_timers(group_timers)
                if pace.has_done(LOOK_ELEMENTS):
                    await pace.yield_turn()

    def _run_group_timers(
        self, group_timers: dict[_TimerKey, tuple[GroupShard, TimerSet, OnDueTimers]]
    ) -> None:
        """Run the first waiting timers of a group, as many as one decision covers."""
        shard, _, on_fire = next(iter(group_timers.values()))
        due_timers = []
        for key, (_, timer, timer_on_fire) in tuple(islice(group_timers.items(), DECIDED_TOGETHER)):
            if timer_on_fire == on_fire:
                self._armed_timers[shard.partition][timer.group_id][key].cancel()
                self._drop_timer(shard, timer, key)
                due_timers.append(timer)
        on_fire(shard, due_timers)


class _DueTimer(msgspec.Struct, eq=False):
    """A due timer in a queue; it can still be cancelled."""

    line: _TimerQueue
    where: tuple[int, str]
    key: _TimerKey

    def cancel(self) -> None:
        group_timers = self.line.get(self.where, {})
        group_timers.pop(self.key, None)
        if not group_timers:
            self.line.pop(self.where, None)


def _timer_key(timer: TimerSet | TimerCancelled) -> _TimerKey:
    return timer.kind, timer.group_id, timer.member_id


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
    _behind: dict[str, deque[Effect]] = {}
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
        waiter, pending_answer = self._wait()
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
        waiter, pending_answer = self._wait()
        effects = self.protocol.sync(group, command, waiter=waiter)
        self._carry_out(shard, command.group_id, effects)
        reply: SyncReply | None = await pending_answer
        return reply

    def heartbeat(self, shard: GroupShard, command: Heartbeat) -> Rejection | None:
        """Note that a member is alive."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            return Rejection(
                error=ErrorCode.unknown_member_id, reason=f"no member of {command.group_id}"
            )
        refusal, effects = self.protocol.heartbeat(group, command)
        self._carry_out(shard, command.group_id, effects)
        return refusal

    def leave(self, shard: GroupShard, command: LeaveGroup) -> LeaveReply:
        """Remove members."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup):
            unknown_member = ErrorCode.unknown_member_id
            return LeaveReply(
                members=tuple(
                    (member_id, instance_id, unknown_member)
                    for member_id, instance_id in command.members
                )
            )
        reply, effects = self.protocol.leave(group, command, now_ms=self.clock.now_ms())
        self._carry_out(shard, command.group_id, effects)
        return reply

    def extend_session(self, shard: GroupShard, group: ClassicGroup, member_id: str) -> None:
        """Extend a member's session, because its commit shows that it is alive."""
        if member_id in group.members:
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
        for group in shard.classic_groups():
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
        if group_id in self._behind:
            self._behind[group_id].extend(effects)
            return
        if len(effects) > TURN_EFFECTS:
            self._behind[group_id] = deque(effects[TURN_EFFECTS:])
            effects = effects[:TURN_EFFECTS]
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
            self.tasks.drive(
                self._carry_out_later(shard, group_id, pace), ignore_end, name="group.generation"
            )
        for effect in effects:
            self._carry_out_effect(shard, effect)

    async def _carry_out_later(self, shard: GroupShard, group_id: str, pace: Pace) -> None:
        await pace.yield_turn()
        effects = self._behind[group_id]
        while effects:
            effect = effects.popleft()
            if isinstance(effect, AnswerWaiter) or self.is_current(shard):
                self._carry_out_effect(shard, effect)
            if pace.has_done(2):
                await pace.yield_turn()
        del self._behind[group_id]

    def _carry_out_effect(self, shard: GroupShard, effect: Effect) -> None:
        match effect:
            case AnswerWaiter():
                self._answer(effect.waiter, effect.reply)
            case TimerSet():
                self.timers.arm(shard, effect, self._fire)
            case TimerCancelled():
                self.timers.disarm(shard, effect)
            case RecordsToAppend():
                self._write(shard, effect)
            case _:
                assert_never(effect)

    def _write(self, shard: GroupShard, effect: RecordsToAppend) -> None:
        applied = AppliedRecords(records=effect.records)
        operation = GroupWrite(
            writes=self.writes,
            shard=shard,
            group_id="",
            decide=lambda: applied,
            append=lambda _, records: self.writes.writer.append(shard, records, takes_effect=False),
        )
        self.tasks.drive(
            operation.run_and_wait(),
            lambda written, bug: self._on_written(shard, effect.after_write, written, bug),
            name="group-write",
        )

    def _on_written(
        self,
        shard: GroupShard,
        after_write: AfterWrite | None,
        written: AppliedRecords | Rejection | None,
        bug: BaseException | None,
    ) -> None:
        if bug is None and self.is_current(shard):
            error = written.error if isinstance(written, Rejection) else ErrorCode.none
            self._follow_write(shard, after_write, error)

    def _follow_write(
        self, shard: GroupShard, after_write: AfterWrite | None, error: ErrorCode
    ) -> None:
        """Called when a write is committed or has failed."""
        match after_write:
            case None:
                return
            case NewGroupStored():
                if error:
                    self._answer(after_write.waiter, JoinReply(error=error))
                return
            case AssignmentStored() | StaticMemberStored():
                group = shard.groups.get(after_write.group_id)
            case _:
                assert_never(after_write)
        if not isinstance(group, ClassicGroup):
            return  # deleted meanwhile
        if isinstance(after_write, AssignmentStored):
            now_ms = self.clock.now_ms()
            effects = self.protocol.assignment_stored(group, after_write, error, now_ms=now_ms)
        else:
            effects = self.protocol.static_member_stored(group, after_write, error)
        self._carry_out(shard, group.group_id, effects)

    # Waiters

    def _wait(self) -> tuple[Waiter, Pending[Any]]:
        self._waiter_last += 1
        pending_answer: Pending[Any] = Pending(self.tasks)
        self._waiting_answers[self._waiter_last] = pending_answer
        return self._waiter_last, pending_answer

    def _answer(self, waiter: Waiter, reply: JoinReply | SyncReply | None) -> None:
        pending_answer = self._waiting_answers.pop(waiter, None)
        if pending_answer is not None:
            pending_answer.resolve(reply)

    def _refuse_waiting(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer all members of a group that is not used any more."""
        for member in group.members.values():
            if member.awaiting_join is not None:
                reply = JoinReply(error=error, member_id=member.member_id)
                self._answer(member.awaiting_join, reply)
            if member.awaiting_sync is not None:
                self._answer(member.awaiting_sync, SyncReply(error=error))

    # Timers

    def _fire(self, shard: GroupShard, timers: Sequence[TimerSet]) -> None:
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


# Members of groups of the consumer protocol, from the outside: heartbeats, timers, lookups.
#
# The shell around ``group.consumer``: it writes what a decision says, sees to its effects, and
# answers when the records are replicated.
#
# Counterpart in Kafka: the timers and executors of GroupMetadataManager's consumer half.

_log: Final = Logger("txnsim.group")


ReplyT = TypeVar("ReplyT", JoinReply, LeaveReply)

_OTHER_PROTOCOL: Final = Rejection(
    error=ErrorCode.coordinator_not_available,
    reason="the group has changed its protocol meanwhile",
)


class _ConsumerDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on a request or a timer."""

    group: ConsumerGroup
    outcome: ConsumerOutcome
    records_before: Sequence[GroupRecord] = ()
    """Records to write first: a group of another protocol is deleted or converted."""

    classic_reply: JoinReply | LeaveReply | None = None
    """The answer to a member of the classic protocol."""

    @property
    def records(self) -> Sequence[GroupRecord]:
        """Every record, in log order."""
        return (*self.records_before, *self.outcome.records)


class ConsumerGroups(msgspec.Struct, kw_only=True, eq=False):
    """The groups of the consumer protocol of one broker."""

    clock: Clock
    tasks: Tasks
    writer: GroupWriter
    protocol: ConsumerProtocol
    classic_members: ClassicMembers
    classic_groups: ClassicGroups
    timers: GroupTimers
    image: Callable[[], ClusterImage]
    writes: GroupWrites

    # Requests

    async def heartbeat(
        self, shard: GroupShard, command: ConsumerHeartbeat, pace: Pace | None = None
    ) -> HeartbeatReply | Rejection:
        """Decide, write, and answer once it is replicated. ``pace`` is given for a large request; a
        heartbeat that may assign many members or partitions gets one too.
        """
        if pace is not None:
            command = await with_names(command, pace)
        member_count = self._members_to_assign(shard, command)
        partition_count = self._subscribed_partitions(command)
        if pace is not None:
            await pace.yield_turn()
        elif member_count > MANY_MEMBERS or partition_count > MANY_PARTITIONS:
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        element_count = member_count + partition_count + len(command.topic_names or ())
        decision = await self._operation(
            shard, command.group_id, lambda: self._decide(shard, command), element_count
        ).run_and_wait(pace)
        if isinstance(decision, Rejection):
            return decision
        assert decision.outcome.reply is not None
        return decision.outcome.reply

    def _operation(
        self,
        shard: GroupShard,
        group_id: str,
        decide: Callable[[], _ConsumerDecision | Rejection],
        element_count: int = 0,
    ) -> GroupWrite[_ConsumerDecision]:
        return GroupWrite(
            writes=self.writes,
            shard=shard,
            group_id=group_id,
            decide=decide,
            element_count=element_count,
            append=lambda decision, records: self._append(
                shard, decision.group, decision.outcome, records
            ),
        )

    def _subscribed_partitions(self, command: ConsumerHeartbeat) -> int:
        """Number of partitions of the topics that a heartbeat names."""
        topics = self.image().topics
        existing_topics = topics.keys() & (command.topic_names or ())
        return sum(len(topics[topic_name].partitions) for topic_name in existing_topics)

    @staticmethod
    def _members_to_assign(shard: GroupShard, command: ConsumerHeartbeat) -> int:
        """Number of members whose targets a heartbeat may change."""
        group = shard.groups.get(command.group_id)
        if not isinstance(group, ConsumerGroup):
            return 0
        is_due = command.member_epoch == 0 or group.assignment_epoch < group.epoch
        return len(group.members) if is_due else 0

    def _decide(
        self, shard: GroupShard, command: ConsumerHeartbeat
    ) -> _ConsumerDecision | Rejection:
        """Decide a heartbeat's effect on its group."""
        records: list[GroupRecord] = []
        group = self._group_for_heartbeat(shard, command, records)
        if isinstance(group, Rejection):
            return group
        if command.member_epoch in (LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH):
            outcome = self.protocol.leave(group, command, image=self.image())
        else:
            outcome = self.protocol.heartbeat(
                group, command, image=self.image(), now_ms=self.clock.now_ms()
            )
        if isinstance(outcome, Rejection):
            return outcome
        return _ConsumerDecision(group=group, outcome=outcome, records_before=records)

    def _group_for_heartbeat(
        self, shard: GroupShard, command: ConsumerHeartbeat, records: list[GroupRecord]
    ) -> ConsumerGroup | Rejection:
        """The group. If a member joins it may be a new one, or a converted classic group that keeps
        its members.
        """
        group = shard.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if command.member_epoch != 0 or isinstance(group, ShareGroup | StreamsGroup):
            return _missing_group(command.group_id, exists=group is not None)
        new_group = ConsumerGroup(command.group_id, self.protocol.release_rules)
        if not isinstance(group, ClassicGroup):
            return new_group
        if group.is_empty:
            records += group.tombstones()
            return new_group
        settings = self.protocol.settings
        if not settings.may_upgrade:
            return upgrade_refusal(group, "online upgrade is disabled.")
        upgrade_records = upgrade(group, max_size=settings.max_size, image=self.image())
        if isinstance(upgrade_records, Rejection):
            return upgrade_records
        records += (*group.tombstones(), *upgrade_records)
        return new_group.with_records(upgrade_records)

    # Members of the classic protocol

    async def join_classic(self, shard: GroupShard, command: JoinGroup) -> JoinReply:
        """JoinGroup into a group of the consumer protocol."""

        def join(group: ConsumerGroup) -> tuple[JoinReply, ConsumerOutcome]:
            return self.classic_members.join(
                group, command, image=self.image(), now_ms=self.clock.now_ms()
            )

        reply = await self._write_for_classic(shard, command.group_id, join)
        return JoinReply(error=reply.error) if isinstance(reply, Rejection) else reply

    def sync_classic(
        self, shard: GroupShard, group: ConsumerGroup, command: SyncGroup
    ) -> SyncReply:
        """SyncGroup in a group of the consumer protocol."""
        reply, effects = self.classic_members.sync(group, command, image=self.image())
        self._carry_out(shard, group.group_id, effects)
        return reply

    def heartbeat_classic(
        self, shard: GroupShard, group: ConsumerGroup, command: Heartbeat
    ) -> Rejection | None:
        """Heartbeat in a group of the consumer protocol."""
        refusal, effects = self.classic_members.heartbeat(group, command)
        self._carry_out(shard, group.group_id, effects)
        return refusal

    async def leave_classic(self, shard: GroupShard, command: LeaveGroup) -> LeaveReply:
        """LeaveGroup from a group of the consumer protocol."""

        def leave(group: ConsumerGroup) -> tuple[LeaveReply, ConsumerOutcome]:
            return self.classic_members.leave(group, command, image=self.image())

        reply = await self._write_for_classic(shard, command.group_id, leave)
        return LeaveReply(error=reply.error) if isinstance(reply, Rejection) else reply

    async def _write_for_classic(
        self,
        shard: GroupShard,
        group_id: str,
        decide: Callable[[ConsumerGroup], tuple[ReplyT, ConsumerOutcome]],
    ) -> ReplyT | Rejection:
        """Write for a member of the classic protocol, and wait until it is replicated."""

        def decide_anew() -> _ConsumerDecision | Rejection:
            group = shard.groups.get(group_id)
            if not isinstance(group, ConsumerGroup):
                return _OTHER_PROTOCOL
            reply, outcome = decide(group)
            return _ConsumerDecision(group=group, outcome=outcome, classic_reply=reply)

        decision = await self._operation(shard, group_id, decide_anew).run_and_wait()
        if isinstance(decision, Rejection):
            return decision
        return cast(ReplyT, decision.classic_reply)

    # Writing

    def _append(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        outcome: ConsumerOutcome,
        records: Sequence[GroupRecord],
    ) -> int | Rejection | None:
        """Append an outcome and carry out its effects; returns the offset of its last record, None
        if it has none.
        """
        group_id = group.group_id
        old_group = shard.groups.get(group_id)
        downgraded_group: ClassicGroup | None = None
        if outcome.leaving_before_downgrade:
            downgraded_group = downgrade(
                group,
                outcome.leaving_before_downgrade,
                image=self.image(),
                now_ms=self.clock.now_ms(),
            )
            records = (*records, *group.tombstones(), downgraded_group.to_record())
        last_offset: int | Rejection | None = None
        if records:
            last_offset = self.writer.append(shard, records)
            if isinstance(last_offset, Rejection):
                if isinstance(old_group, ClassicGroup) and _is_too_much(records, last_offset):
                    old_group.not_upgradable = last_offset
                return last_offset
        if isinstance(old_group, ClassicGroup) and records:
            self.classic_groups.convert(shard, old_group)
            for member in group.members.values():
                self._carry_out(shard, group_id, self.protocol.timers_after_load(group_id, member))
        self._carry_out(shard, group_id, outcome.effects)
        if downgraded_group is not None:
            self.timers.forget(shard, group_id)
            shard.groups[group_id] = downgraded_group
            self.classic_groups.adopt_group(shard, downgraded_group)
        return last_offset

    # Life of a shard

    def load(self, shard: GroupShard) -> Iterator[int]:
        """Start a session for every member in the log; yields after each."""
        for group in tuple(shard.groups.values()):
            if isinstance(group, ConsumerGroup):
                for member_id in tuple(group.members):
                    member = group.members.get(member_id)
                    if member is not None:
                        resumed_timers = self.protocol.timers_after_load(group.group_id, member)
                        self._carry_out(shard, group.group_id, resumed_timers)
                    yield 1

    # Effects

    def _carry_out(
        self, shard: GroupShard, group_id: str, effects: Sequence[ConsumerEffect]
    ) -> None:
        for effect in effects:
            match effect:
                case TimerSet():
                    self.timers.arm(shard, effect, self._fire)
                case TimerCancelled():
                    self.timers.disarm(shard, effect)
                case ResolveRegexes():
                    self.tasks.soon(partial(self._resolve, shard, group_id, effect))
                case RunAssignor():
                    self.tasks.soon(partial(self._run_assignor, shard, group_id, effect))
                case _:
                    assert_never(effect)

    def _fire(self, shard: GroupShard, timers: Sequence[TimerSet]) -> None:
        group_id = timers[0].group_id

        def remove_late_members(group: ConsumerGroup) -> ConsumerOutcome:
            return self.protocol.remove_late_members(group, timers, image=self.image())

        operation = self._unawaited_operation(shard, group_id, remove_late_members)
        self.timers.write(operation, timers, self._fire)

    def _run_assignor(self, shard: GroupShard, group_id: str, effect: RunAssignor) -> None:
        """Write the targets of a group's members, where no request waits for them. If the log
        refuses them, the next heartbeat asks for them again.
        """

        def decide(group: ConsumerGroup) -> ConsumerOutcome:
            return self.protocol.run_assignor(
                group, effect, image=self.image(), now_ms=self.clock.now_ms()
            )

        if self.writes.refuse_moved(shard) is None:
            self.tasks.drive(
                self._write_unawaited(self._unawaited_operation(shard, group_id, decide)),
                ignore_end,
                name="group.assignor",
            )

    def _resolve(self, shard: GroupShard, group_id: str, effect: ResolveRegexes) -> None:
        image = self.image()
        steps = matching_topics(effect.regexes, image=image, may_describe=effect.may_describe)
        self.tasks.drive(
            Pace(self.tasks.turns, self.clock.stopwatch_ns).run(steps),
            partial(self._on_resolved, shard, group_id, image),
            name="group.regex",
        )

    def _on_resolved(
        self,
        shard: GroupShard,
        group_id: str,
        image: ClusterImage,
        topics_by_regex: TopicsByRegex | None,
        error: BaseException | None,
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            return
        if error is not None:
            raise error
        assert topics_by_regex is not None

        def decide(group: ConsumerGroup) -> ConsumerOutcome:
            now_ms = self.clock.now_ms()
            return ConsumerOutcome(
                records=resolve(group, topics_by_regex, image=image, now_ms=now_ms)
            )

        if self.writes.refuse_moved(shard) is None:
            self.tasks.drive(
                self._write_unawaited(self._unawaited_operation(shard, group_id, decide)),
                ignore_end,
                name="group.regex",
            )

    async def _write_unawaited(self, operation: GroupWrite[_ConsumerDecision]) -> None:
        """Write what regular expressions match, or what an assignor came to. If the log refuses it,
        the next heartbeat asks for it again.
        """
        appended = await operation.run()
        if isinstance(appended, Rejection):
            _log.warning("group.write-refused", group=operation.group_id, reason=appended.reason)

    def _unawaited_operation(
        self,
        shard: GroupShard,
        group_id: str,
        decide: Callable[[ConsumerGroup], ConsumerOutcome],
    ) -> GroupWrite[_ConsumerDecision]:
        """An operation that no request waits for."""

        def decide_anew() -> _ConsumerDecision | Rejection:
            group = shard.groups.get(group_id)
            if not isinstance(group, ConsumerGroup):
                return _missing_group(group_id, exists=group is not None)
            return _ConsumerDecision(group=group, outcome=decide(group))

        return self._operation(shard, group_id, decide_anew)


def _is_too_much(records: Sequence[GroupRecord], refusal: Rejection) -> bool:
    """Whether the log will always refuse these records, because they are too large."""
    return len(records) > MANY_RECORDS and refusal.error is TOO_MUCH


def _missing_group(group_id: str, *, exists: bool) -> Rejection:
    reason = f"Consumer group {group_id} not found."
    if exists:
        reason = f"Group {group_id} is not a consumer group."
    return Rejection(error=ErrorCode.group_id_not_found, reason=reason)


def consumer_settings(settings: Settings) -> ConsumerSettings:
    """The broker's settings that the protocol needs."""
    # ConsumerGroupMigrationPolicy
    migration_policy = settings.group_consumer_migration_policy.lower()
    return ConsumerSettings(
        max_size=settings.group_consumer_max_size,
        classic_max_size=settings.group_max_size,
        assignors=tuple(
            assignor_name.strip() for assignor_name in settings.group_consumer_assignors.split(",")
        ),
        may_downgrade=migration_policy in ("downgrade", "bidirectional"),
        may_upgrade=migration_policy in ("upgrade", "bidirectional"),
        may_mix=migration_policy != "disabled",
        regex_refresh_ms=settings.group_consumer_regex_refresh_interval_ms,
    )
