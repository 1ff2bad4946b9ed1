"""The shell around streams groups: heartbeats, sessions, the delay before the first assignment.

It writes the records that ``group.streams`` decides, arms its timers, and answers once the records
are replicated.

Counterpart in Kafka: the timers of GroupMetadataManager's streams half, and the cache of errors in
AutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, assert_never

import msgspec

from txnsim.coordinators.group._group_timers import GroupTimers
from txnsim.coordinators.group._group_writes import GroupWrite, GroupWrites
from txnsim.coordinators.group._streams_trace import StreamsTrace
from txnsim.coordinators.group._writer import GroupWriter
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import TimerKind, TimerSet, unexpected_timer
from txnsim.group.records import GroupRecord
from txnsim.group.shard import GroupShard
from txnsim.group.state import Group
from txnsim.group.streams.commands import StreamsHeartbeat, StreamsOutcome, StreamsReply
from txnsim.group.streams.group import StreamsGroup
from txnsim.group.streams.protocol import StreamsProtocol
from txnsim.loggers import Logger
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace
from txnsim.wire.codec import run_to_end

_log: Final = Logger("txnsim.group")
_APPLIED_AT_ONCE: Final = 64
"""Above this number, records are first applied to a copy, in slices, before they are written."""


class _StreamsDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on a heartbeat or a timer."""

    group: StreamsGroup
    outcome: StreamsOutcome
    first_records: tuple[GroupRecord, ...] = ()
    """Records to write first: deletion of an empty classic group of that id."""
    group_after: StreamsGroup | None = None
    """The group with all records applied, computed in advance if there are many."""

    @property
    def records(self) -> tuple[GroupRecord, ...]:
        """Every record, in log order."""
        return (*self.first_records, *self.outcome.records)


class StreamsGroups(msgspec.Struct, kw_only=True, eq=False):
    """The streams groups of one broker."""

    clock: Clock
    tasks: Tasks
    writer: GroupWriter
    protocol: StreamsProtocol
    timers: GroupTimers
    image: Callable[[], ClusterImage]
    writes: GroupWrites
    trace: StreamsTrace
    _topic_problems: dict[str, tuple[str, int]] = {}
    """Internal topic -> the controller's error, and the time when heartbeats stop reporting it."""
    rebalance_count: int = 0
    """How often a heartbeat has raised a group's epoch."""

    # Requests

    async def heartbeat(
        self, shard: GroupShard, command: StreamsHeartbeat
    ) -> StreamsReply | Rejection:
        """Decide in slices, write, and answer once it is replicated."""
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        decision = await self._make_write(
            shard, command.group_id, lambda: self._decide(shard, command)
        ).run_and_wait(pace)
        if isinstance(decision, Rejection):
            return decision
        if decision.outcome.refusal is not None:
            return decision.outcome.refusal
        assert decision.outcome.reply is not None
        return decision.outcome.reply

    def _make_write(
        self,
        shard: GroupShard,
        group_id: str,
        decide_in_steps: Callable[[], Generator[int, None, _StreamsDecision | Rejection]],
    ) -> GroupWrite[_StreamsDecision]:
        def other_inputs() -> object:
            group = shard.groups.get(group_id)
            unrecorded_state = group.memory if isinstance(group, StreamsGroup) else None
            return unrecorded_state, self.timers.has_timer(shard, TimerKind.ASSIGNMENT, group_id)

        return GroupWrite(
            writes=self.writes,
            shard=shard,
            group_id=group_id,
            decide=lambda: run_to_end(decide_in_steps()),
            decide_in_steps=decide_in_steps,
            append=lambda decision, records: self._append(shard, decision, records),
            read_other_inputs=other_inputs,
        )

    def _decide(
        self, shard: GroupShard, command: StreamsHeartbeat
    ) -> Generator[int, None, _StreamsDecision | Rejection]:
        group_id = command.group_id
        current_group = shard.groups.get(group_id)
        if command.member_epoch < 0:
            streams_group = _streams_group(shard.find(group_id))
            if isinstance(streams_group, Rejection):
                return streams_group
            outcome = self.protocol.leave(streams_group, command)
            return (
                outcome
                if isinstance(outcome, Rejection)
                else _StreamsDecision(group=streams_group, outcome=outcome)
            )
        old_tombstones: tuple[GroupRecord, ...] = ()
        group = current_group
        if (
            command.member_epoch == 0
            and isinstance(current_group, ClassicGroup)
            and current_group.is_empty
        ):
            old_tombstones, group = tuple(current_group.tombstones()), None
        if group is None:
            if command.member_epoch != 0:
                return Rejection(
                    error=ErrorCode.group_id_not_found,
                    reason=f"Streams group {group_id} not found.",
                )
            group = StreamsGroup(group_id)
        streams_group = _streams_group(group)
        if isinstance(streams_group, Rejection):
            return streams_group
        heartbeat_outcome = yield from self.protocol.heartbeat(
            streams_group,
            command,
            image=self.image(),
            now_ms=self.clock.now_ms(),
            is_delayed=self.timers.has_timer(shard, TimerKind.ASSIGNMENT, group_id),
            is_known=current_group is not None,
        )
        if isinstance(heartbeat_outcome, Rejection):
            return heartbeat_outcome
        if heartbeat_outcome.refusal is not None:
            old_tombstones = ()
        group_after = (
            (yield from _group_after(streams_group, heartbeat_outcome))
            if streams_group is current_group
            else None
        )
        return _StreamsDecision(
            group=streams_group,
            outcome=heartbeat_outcome,
            first_records=old_tombstones,
            group_after=group_after,
        )

    # Writing

    def _append(
        self, shard: GroupShard, decision: _StreamsDecision, records: Sequence[GroupRecord]
    ) -> int | Rejection | None:
        """Append an outcome and arm its timers; returns the offset of its last record, None if it
        has none.
        """
        group, outcome = decision.group, decision.outcome
        if decision.first_records:
            self.timers.forget(shard, group.group_id)
        last_offset: int | Rejection | None = None
        is_current_group = shard.groups.get(group.group_id) is group
        if outcome.memory is not None and is_current_group:
            # A group that is made now begins with what the log has alone, as in Kafka.
            group.memory = outcome.memory
        if records:
            members_before = self.trace.members_of(shard, group.group_id)
            last_offset = self.writer.append(
                shard, records, takes_effect=decision.group_after is None
            )
            if isinstance(last_offset, Rejection):
                # As in Kafka, the decision sets timers also if the log refuses its records.
                self._set_timers(shard, outcome)
                return last_offset
            if decision.group_after is not None:
                group.adopt(decision.group_after)
            self.trace.trace_changes(shard, group.group_id, members_before)
        if outcome.reply is not None:
            self.rebalance_count += outcome.is_rebalance
        self._set_timers(shard, outcome)
        return last_offset

    def _set_timers(self, shard: GroupShard, outcome: StreamsOutcome) -> None:
        if self.writes.refuse_moved(shard) is not None:
            return
        for effect in outcome.effects:
            if isinstance(effect, TimerSet):
                self.timers.arm(shard, effect, self._on_due_timers)
            else:
                self.timers.disarm(shard, effect)

    def _on_due_timers(self, shard: GroupShard, timers: Sequence[TimerSet]) -> None:
        """Handle expired sessions, revocations or the delay of a first assignment."""
        for timer in timers:
            pace: Pace | None = None
            match timer.kind:
                case TimerKind.ASSIGNMENT:
                    pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
                    decide_in_steps = partial(self._end_delay, shard, timer.group_id)
                case TimerKind.HEARTBEAT | TimerKind.REVOCATION:
                    decide_in_steps = partial(self._remove_late_member, shard, timer)
                case TimerKind.JOIN | TimerKind.SYNC:
                    raise unexpected_timer(timer, "streams")
                case _:
                    assert_never(timer.kind)
            operation = self._make_write(shard, timer.group_id, decide_in_steps)
            self.timers.write(operation, (timer,), self._on_due_timers, pace=pace)

    def _remove_late_member(
        self, shard: GroupShard, timer: TimerSet
    ) -> Generator[int, None, _StreamsDecision | Rejection]:
        group = _streams_group(shard.find(timer.group_id))
        if isinstance(group, Rejection):
            return group
        yield 1
        outcome = self.protocol.remove_late_member(group, timer)
        return _StreamsDecision(group=group, outcome=outcome)

    def _end_delay(
        self, shard: GroupShard, group_id: str
    ) -> Generator[int, None, _StreamsDecision | Rejection]:
        group = _streams_group(shard.find(group_id))
        if isinstance(group, Rejection):
            return group
        outcome = yield from self.protocol.end_delay(group, now_ms=self.clock.now_ms())
        group_after = yield from _group_after(group, outcome)
        return _StreamsDecision(group=group, outcome=outcome, group_after=group_after)

    # Life of a shard

    def load(self, shard: GroupShard) -> Iterator[int]:
        """Start a session for every member in the log; yields after each."""
        for group in tuple(shard.groups.values()):
            if isinstance(group, StreamsGroup):
                self.trace.trace_load(shard, group.group_id)
                for timer in tuple(self.protocol.timers_after_load(group)):
                    if timer.member_id in group.members:
                        self.timers.arm(shard, timer, self._on_due_timers)
                    yield 1

    # Internal topics

    def topic_problems(self, topic_names: Iterable[str]) -> dict[str, str]:
        """Recent creation errors by internal topic."""
        now_ms = self.clock.now_ms()
        problems = self._topic_problems
        for topic_name in [
            topic_name for topic_name, (_, until_ms) in problems.items() if until_ms <= now_ms
        ]:
            del problems[topic_name]
        return {
            topic_name: problems[topic_name][0]
            for topic_name in topic_names
            if topic_name in problems
        }

    def keep_topic_problem(self, topic_name: str, problem: str, ttl_ms: int) -> None:
        """Report a creation error in heartbeats for ``ttl_ms``."""
        self._topic_problems[topic_name] = (problem, self.clock.now_ms() + ttl_ms)


def _group_after(
    group: StreamsGroup, outcome: StreamsOutcome
) -> Generator[int, None, StreamsGroup | None]:
    """The group with the outcome's records applied, if there are many; else None."""
    if len(outcome.records) <= _APPLIED_AT_ONCE:
        return None
    return (yield from group.with_records(outcome.records, unrecorded_state=outcome.memory))


def _streams_group(group: Group | Rejection) -> StreamsGroup | Rejection:
    if isinstance(group, StreamsGroup | Rejection):
        return group
    return Rejection(
        error=ErrorCode.group_id_not_found,
        reason=f"Group {group.group_id} is not a streams group.",
    )
