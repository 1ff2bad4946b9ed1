"""The shell around the groups of the consumer protocol: heartbeats, timers, lookups.

It writes what ``group.consumer`` decides, carries out its effects, and answers when the records are
replicated.

Counterpart in Kafka: the timers and executors of GroupMetadataManager's consumer half.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar, assert_never, cast

import msgspec

from txnsim.coordinators.group._classic_membership import ClassicGroups
from txnsim.coordinators.group._group_timers import GroupTimers
from txnsim.coordinators.group._group_writes import GroupWrite, GroupWrites, with_names
from txnsim.coordinators.group._writer import MANY_RECORDS, TOO_MUCH, GroupWriter
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import (
    ConsumerEffect,
    ConsumerHeartbeat,
    ConsumerOutcome,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    ResolveRegexes,
    RunAssignor,
    SyncGroup,
    SyncReply,
    TimerCancelled,
    TimerSet,
)
from txnsim.group.consumer import ConsumerProtocol, ConsumerSettings
from txnsim.group.consumer_classic import ClassicMembers
from txnsim.group.consumer_group import LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH, ConsumerGroup
from txnsim.group.consumer_regex import TopicsByRegex, matching_topics, resolve
from txnsim.group.migration import downgrade, upgrade, upgrade_refusal
from txnsim.group.records import GroupRecord
from txnsim.group.shard import GroupShard
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.streams.group import StreamsGroup
from txnsim.loggers import Logger
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import ignore_end
from txnsim.settings import Settings

_log: Final = Logger("txnsim.group")

MANY_MEMBERS: Final = 100
MANY_PARTITIONS: Final = 1_000
"""With more members or partitions than this, an assignment counts as a large request."""
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
        partition_count = self._count_subscribed_partitions(command)
        if pace is not None:
            await pace.yield_turn()
        elif member_count > MANY_MEMBERS or partition_count > MANY_PARTITIONS:
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        element_count = member_count + partition_count + len(command.topic_names or ())
        decision = await self._make_write(
            shard, command.group_id, lambda: self._decide(shard, command), element_count
        ).run_and_wait(pace)
        if isinstance(decision, Rejection):
            return decision
        assert decision.outcome.reply is not None
        return decision.outcome.reply

    def _make_write(
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

    def _count_subscribed_partitions(self, command: ConsumerHeartbeat) -> int:
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
            return _missing_group(command.group_id, is_there=group is not None)
        new_group = ConsumerGroup(command.group_id, self.protocol.release_rules)
        if not isinstance(group, ClassicGroup):
            return new_group
        if group.is_empty:
            records += group.tombstones()
            return new_group
        settings = self.protocol.settings
        if not settings.may_upgrade:
            return upgrade_refusal(group, "online upgrade is disabled.")
        records_or_rejection = upgrade(group, max_size=settings.max_size, image=self.image())
        if isinstance(records_or_rejection, Rejection):
            return records_or_rejection
        records += (*group.tombstones(), *records_or_rejection)
        return new_group.with_records(records_or_rejection)

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

        decision = await self._make_write(shard, group_id, decide_anew).run_and_wait()
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
                if self.writes.refuse_moved(shard) is None:
                    # As in Kafka, the decision sets timers also if the log refuses its records.
                    timers = [
                        effect
                        for effect in outcome.effects
                        if isinstance(effect, TimerSet | TimerCancelled)
                    ]
                    self._carry_out(shard, group_id, timers)
                return last_offset
        if isinstance(old_group, ClassicGroup):
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
                    self.timers.arm(shard, effect, self._on_due_timers)
                case TimerCancelled():
                    self.timers.disarm(shard, effect)
                case ResolveRegexes():
                    self.tasks.run_soon(partial(self._resolve_regexes, shard, group_id, effect))
                case RunAssignor():
                    self.tasks.run_soon(partial(self._run_assignor, shard, group_id, effect))
                case _:
                    assert_never(effect)

    def _on_due_timers(self, shard: GroupShard, timers: Sequence[TimerSet]) -> None:
        group_id = timers[0].group_id

        def remove_late_members(group: ConsumerGroup) -> ConsumerOutcome:
            return self.protocol.remove_late_members(group, timers, image=self.image())

        operation = self._make_unawaited_write(shard, group_id, remove_late_members)
        self.timers.write(operation, timers, self._on_due_timers)

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
                self._write_unawaited(self._make_unawaited_write(shard, group_id, decide)),
                ignore_end,
                name="group.assignor",
            )

    def _resolve_regexes(self, shard: GroupShard, group_id: str, effect: ResolveRegexes) -> None:
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
                self._write_unawaited(self._make_unawaited_write(shard, group_id, decide)),
                ignore_end,
                name="group.regex",
            )

    async def _write_unawaited(self, operation: GroupWrite[_ConsumerDecision]) -> None:
        """Write what regular expressions match, or what an assignor came to. If the log refuses it,
        the next heartbeat asks for it again.
        """
        append_outcome = await operation.run()
        if isinstance(append_outcome, Rejection):
            _log.warning(
                "group.write-refused", group=operation.group_id, reason=append_outcome.reason
            )

    def _make_unawaited_write(
        self,
        shard: GroupShard,
        group_id: str,
        decide: Callable[[ConsumerGroup], ConsumerOutcome],
    ) -> GroupWrite[_ConsumerDecision]:
        """An operation that no request waits for."""

        def decide_anew() -> _ConsumerDecision | Rejection:
            group = shard.groups.get(group_id)
            if not isinstance(group, ConsumerGroup):
                return _missing_group(group_id, is_there=group is not None)
            return _ConsumerDecision(group=group, outcome=decide(group))

        return self._make_write(shard, group_id, decide_anew)


def _is_too_much(records: Sequence[GroupRecord], refusal: Rejection) -> bool:
    """Whether the log will always refuse these records, because they are too large."""
    return len(records) > MANY_RECORDS and refusal.error is TOO_MUCH


def _missing_group(group_id: str, *, is_there: bool) -> Rejection:
    reason = f"Consumer group {group_id} not found."
    if is_there:
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
