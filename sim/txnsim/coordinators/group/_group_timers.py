"""The timers of a broker's groups, of any protocol.

They run on the monotonic clock, like the clients that keep sessions and rebalances alive;
advancing the cluster's clock expels no member.

Counterpart in Kafka: CoordinatorTimer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec

from txnsim.coordinators._write_operation import DecisionLocks
from txnsim.coordinators.group._group_writes import GroupWrite
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import NO_MEMBER, TimerCancelled, TimerKind, TimerSet
from txnsim.group.shard import GroupShard
from txnsim.loggers import Logger
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace
from txnsim.runtime.tasks import ignore_end

_log: Final = Logger("txnsim.group")

_TimerKey = tuple[TimerKind, str, str]

TURN_TIMERS: Final = 16
"""Number of timers that run in one turn of the loop; others that are due at that time wait for
later turns.
"""
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
    lines: DecisionLocks = msgspec.field(default_factory=DecisionLocks)
    _armed_timers: dict[int, dict[str, dict[_TimerKey, TimerHandle]]] = {}
    """Armed timers by partition of ``__consumer_offsets`` and group."""
    _late_timers: _TimerQueue = {}
    """Due timers that wait for a later turn."""
    _undecided_timers: _TimerQueue = {}
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
            timer.delay_ms, partial(self._fire_timer, shard, timer, key, on_fire)
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
        append_outcome: object,
        bug: BaseException | None,
    ) -> None:
        if isinstance(bug, asyncio.CancelledError):
            return
        if bug is not None:
            raise bug
        if not isinstance(append_outcome, Rejection) or append_outcome.error in _NOT_RETRIED:
            return
        _log.warning("group.write-refused", group=timers[0].group_id, reason=append_outcome.reason)
        for timer in timers:
            self.arm(operation.shard, msgspec.structs.replace(timer, delay_ms=RETRY_MS), on_fire)

    def _fire_timer(
        self, shard: GroupShard, timer: TimerSet, key: _TimerKey, on_fire: OnDueTimers
    ) -> None:
        partition_and_group = shard.partition, timer.group_id
        if self.lines.is_busy(*partition_and_group):
            if self._queue_timer(self._undecided_timers, shard, timer, key, on_fire):
                self.tasks.drive(
                    self._run_waiting_timers(partition_and_group), ignore_end, name="group.timers"
                )
            return
        if self._late_timers or self._run_count >= TURN_TIMERS:
            is_first = not self._late_timers
            self._queue_timer(self._late_timers, shard, timer, key, on_fire)
            if is_first:
                self.tasks.drive(self._run_late_timers(), ignore_end, name="group.timers")
            return
        self._run_count += 1
        self._drop_timer(shard, timer, key)
        on_fire(shard, (timer,))
        if self._run_count == 1:
            self.tasks.run_soon(self._begin_turn)

    def _drop_timer(self, shard: GroupShard, timer: TimerSet, key: _TimerKey) -> None:
        timers_by_group = self._armed_timers.get(shard.partition, {})
        group_timers = timers_by_group.get(timer.group_id, {})
        group_timers.pop(key, None)
        if not group_timers:
            timers_by_group.pop(timer.group_id, None)

    def _begin_turn(self) -> None:
        self._run_count = 0

    # Those that wait

    def _queue_timer(
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
        async with self.lines.lock_of(*partition_and_group):
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
            while group_timers := self._undecided_timers.get(partition_and_group):
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
    shard_and_group: tuple[int, str]
    key: _TimerKey

    def cancel(self) -> None:
        group_timers = self.line.get(self.shard_and_group, {})
        group_timers.pop(self.key, None)
        if not group_timers:
            self.line.pop(self.shard_and_group, None)


def _timer_key(timer: TimerSet | TimerCancelled) -> _TimerKey:
    return timer.kind, timer.group_id, timer.member_id
