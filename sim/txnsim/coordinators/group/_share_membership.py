"""The shell around share groups: heartbeats, sessions, and requests to share coordinators.

It writes the records that ``group.sharing`` decides, answers once they are replicated, and then
sends requests to share coordinators, whose answers lead to the next write.

Counterpart in Kafka: the share half of GroupCoordinatorService.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar, assert_never

import msgspec

from txnsim.coordinators.group._group_timers import GroupTimers
from txnsim.coordinators.group._group_writes import GroupWrite, GroupWrites, with_names
from txnsim.coordinators.group._writer import GroupWriter
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import HeartbeatReply, TimerKind, TimerSet, unexpected_timer
from txnsim.group.consumer_group import LEFT_EPOCH
from txnsim.group.consumer_records import ShareRecord
from txnsim.group.records import GroupRecord
from txnsim.group.shard import GroupShard
from txnsim.group.sharing.share import (
    ShareGroupSettings,
    ShareHeartbeat,
    ShareHeartbeatOutcome,
    ShareProtocol,
)
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.sharing.share_topics import (
    IndexesByTopic,
    NewOffsets,
    PartitionError,
    PersisterRejection,
    ShareAlteration,
    ShareDeletion,
    ShareOffset,
    TopicOffsets,
    TopicOutcome,
    alter_offsets,
    delete_all_topics,
    delete_offsets,
    records_of_deleted,
    records_of_initialized,
    records_of_refused,
    records_without_topics,
)
from txnsim.group.state import Group
from txnsim.interbroker.share_state import (
    UNKNOWN_OFFSET,
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareKey,
    ShareStateError,
    ShareStateSummary,
)
from txnsim.loggers import Logger
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.runtime.tasks import Pending, ignore_end
from txnsim.settings import Settings
from txnsim.types import TopicPartition, uuid_from, uuid_text

_log: Final = Logger("txnsim.group")

FORGOTTEN_AT_ONCE: Final = 32
"""Number of groups that drop a deleted topic without a break."""

ASKED_AT_ONCE: Final = 128
"""Number of share partitions up to which share coordinators are asked without a break."""
_ELEMENTS_PER_PARTITION: Final = 4
"""Number of elements that a share partition counts as."""

LatestOffset = Callable[[TopicPartition], Awaitable[int | Rejection]]
"""Returns the end of a partition's log as a consumer sees it, or its leader's error."""


class _AnswerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from share coordinators' answers, or from deleted topics."""

    records: tuple[ShareRecord, ...] = ()


AnswerT = TypeVar("AnswerT")
CommandT = TypeVar("CommandT")
DecisionT = TypeVar(
    "DecisionT", ShareHeartbeatOutcome, ShareAlteration, ShareDeletion, _AnswerOutcome
)


class ShareCoordinators(Protocol):
    """Sends commands to share coordinators; one answer for each, in the same order."""

    def initialize(
        self, commands: Sequence[InitializeShareState]
    ) -> list[Pending[ShareStateError]]:
        """Set the start offset and state epoch of share partitions."""

    def delete(self, commands: Sequence[DeleteShareState]) -> list[Pending[ShareStateError]]:
        """Delete the state of share partitions."""

    def summarize(self, commands: Sequence[ReadShareState]) -> list[Pending[ShareStateSummary]]:
        """Read the start offset of share partitions, and the number of completed records above
        it.
        """


class ShareGroups(msgspec.Struct, kw_only=True, eq=False):
    """The share groups of one broker."""

    clock: Clock
    tasks: Tasks
    writer: GroupWriter
    protocol: ShareProtocol
    timers: GroupTimers
    image: Callable[[], ClusterImage]
    is_current: Callable[[GroupShard], bool]
    writes: GroupWrites
    shard_of: Callable[[str], GroupShard | Rejection]
    """The shard of a group id, if this broker coordinates it."""
    coordinators: ShareCoordinators
    latest_offset: LatestOffset
    new_group: Callable[[str], ShareGroup]

    # Members

    async def heartbeat(
        self, shard: GroupShard, command: ShareHeartbeat, pace: Pace | None = None
    ) -> HeartbeatReply | Rejection:
        """Decide, write, and answer once it is replicated; then have share state initialised.
        ``pace`` is given for a large request.
        """
        if pace is not None:
            command = await with_names(command, pace)
        heartbeat_outcome = await self._write_decision(
            shard,
            command.group_id,
            lambda: self._decide(shard, command),
            pace,
            element_count=len(command.topic_names or ()),
        )
        if isinstance(heartbeat_outcome, Rejection):
            return heartbeat_outcome
        if heartbeat_outcome.states_to_initialize:
            self.tasks.run_soon(
                partial(self._initialize, command.group_id, heartbeat_outcome.states_to_initialize)
            )
        assert heartbeat_outcome.reply is not None
        return heartbeat_outcome.reply

    def _decide(
        self, shard: GroupShard, command: ShareHeartbeat
    ) -> ShareHeartbeatOutcome | Rejection:
        if command.member_epoch == LEFT_EPOCH:
            share_group = _share_group(shard.find(command.group_id))
            if isinstance(share_group, Rejection):
                return share_group
            return self.protocol.leave(share_group, command, image=self.image())
        group = shard.groups.get(command.group_id)
        if group is None:
            if command.member_epoch != 0:
                return Rejection(
                    error=ErrorCode.group_id_not_found,
                    reason=f"Share group {command.group_id} not found.",
                )
            group = self.new_group(command.group_id)
        share_group = _share_group(group)
        if isinstance(share_group, Rejection):
            return share_group
        now_ms = self.clock.now_ms()
        return self.protocol.heartbeat(share_group, command, image=self.image(), now_ms=now_ms)

    def _carry_out(self, shard: GroupShard, outcome: ShareHeartbeatOutcome) -> None:
        for effect in outcome.effects:
            if isinstance(effect, TimerSet):
                self.timers.arm(shard, effect, self._remove_silent_members)
            else:
                self.timers.disarm(shard, effect)

    def _remove_silent_members(self, shard: GroupShard, timers: Sequence[TimerSet]) -> None:
        """Remove members whose sessions have expired."""
        for timer in timers:
            match timer.kind:
                case TimerKind.HEARTBEAT:
                    operation = self._make_write(
                        shard, timer.group_id, partial(self._decide_removal, shard, timer)
                    )
                    self.timers.write(operation, (timer,), self._remove_silent_members)
                case TimerKind.ASSIGNMENT | TimerKind.JOIN | TimerKind.REVOCATION | TimerKind.SYNC:
                    raise unexpected_timer(timer, "share")
                case _:
                    assert_never(timer.kind)

    def _decide_removal(
        self, shard: GroupShard, timer: TimerSet
    ) -> ShareHeartbeatOutcome | Rejection:
        group = _share_group(shard.find(timer.group_id))
        if isinstance(group, Rejection):
            return group
        return self.protocol.remove_late_member(group, timer.member_id, image=self.image())

    def load(self, shard: GroupShard) -> Iterator[int]:
        """Start a session for every member in the log, and send pending initialisations again;
        yields after each.
        """
        for group in tuple(shard.groups.values()):
            if isinstance(group, ShareGroup):
                group.restart_initializing(now_ms=self.clock.now_ms())
                for member_id in tuple(group.members):
                    if member_id in group.members:
                        timer = self.protocol.timer_after_load(group, member_id)
                        self._carry_out(shard, ShareHeartbeatOutcome(effects=(timer,)))
                    yield 1

    # Initialising

    def _initialize(self, group_id: str, commands: Sequence[InitializeShareState]) -> None:
        async def ask_coordinators() -> None:
            answers = await self._ask_coordinators(self.coordinators.initialize, commands)
            await self._write_initialized(group_id, answers)

        self.tasks.drive(ask_coordinators(), ignore_end, name="group.share-state")

    async def _write_initialized(
        self, group_id: str, state_errors: Sequence[ShareStateError]
    ) -> None:
        """Record that all partitions are initialised. If share coordinators refuse one, or the log
        refuses the record, the request counts as not sent.
        """
        initialized_indexes = _indexes_by_topic(state_errors)
        error = next((answer.error for answer in state_errors if answer.error), 0)
        if not error:
            write_refusal = await self._write_apart(
                group_id,
                lambda group: records_of_initialized(
                    group, initialized_indexes, image=self.image(), now_ms=self.clock.now_ms()
                ),
            )
            if write_refusal is None:
                return
            error = write_refusal.error
        _log.warning("group.share-state-refused", group=group_id, error=ErrorCode(error).name)
        await self._write_apart(
            group_id,
            lambda group: records_of_refused(
                group, initialized_indexes, now_ms=self.clock.now_ms()
            ),
        )

    # Offsets

    async def alter(
        self, group_id: str, topics: Sequence[NewOffsets]
    ) -> tuple[TopicOutcome, ...] | Rejection:
        """AlterShareGroupOffsets: answered once the share coordinators have answered."""
        shard = self.shard_of(group_id)
        if isinstance(shard, Rejection):
            return shard

        def decide() -> ShareAlteration | Rejection:
            group = _share_group(shard.groups.get(group_id) or self.new_group(group_id))
            if isinstance(group, Rejection):
                return group
            return alter_offsets(group, topics, image=self.image(), now_ms=self.clock.now_ms())

        alteration = await self._write_decision(shard, group_id, decide)
        if isinstance(alteration, Rejection):
            return alteration
        negative_key = next(
            (
                state_command.key
                for state_command in alteration.states_to_initialize
                if state_command.key.partition < 0
            ),
            None,
        )
        if negative_key is not None:  # the record is written all the same (DefaultStatePersister)
            return PersisterRejection(
                error=ErrorCode.unknown_server_error,
                reason="Initialize share group parameters has invalid partitionId - "
                f"{negative_key.group_id} {negative_key.topic_id} {negative_key.partition}",
            )
        state_errors = await self._ask_coordinators(
            self.coordinators.initialize, alteration.states_to_initialize
        )
        partition_errors = {
            (answer.key.topic_id, answer.key.partition): PartitionError(
                error=ErrorCode(answer.error), message=answer.message
            )
            for answer in state_errors
            if answer.error
        }
        if state_errors and not partition_errors:
            self.tasks.drive(
                self._write_initialized(group_id, state_errors),
                ignore_end,
                name="group.share-state",
            )
        return tuple(_with_errors(topic, partition_errors) for topic in alteration.topics)

    async def delete_offsets(
        self, group_id: str, topic_names: Sequence[str]
    ) -> tuple[TopicOutcome, ...] | Rejection:
        """DeleteShareGroupOffsets: answered once the share coordinators have answered."""
        shard = self.shard_of(group_id)
        if isinstance(shard, Rejection):
            return shard

        def decide() -> ShareDeletion | Rejection:
            group = _share_group(shard.find(group_id))
            if isinstance(group, Rejection):
                return group
            return delete_offsets(
                group, topic_names, image=self.image(), now_ms=self.clock.now_ms()
            )

        deletion = await self._write_decision(shard, group_id, decide)
        if isinstance(deletion, Rejection):
            return deletion
        errors_by_topic: dict[uuid.UUID, int] = {}
        for answer in await self._ask_coordinators(
            self.coordinators.delete, deletion.states_to_delete
        ):
            topic_id = uuid_from(answer.key.topic_id)
            errors_by_topic[topic_id] = errors_by_topic.get(topic_id) or answer.error
        names_by_id = self.image().topic_names
        deleted_ids = [topic_id for topic_id, error in errors_by_topic.items() if not error]
        failed_topics = [
            TopicOutcome(
                topic_name=names_by_id.get(topic_id, ""),
                topic_id=topic_id,
                outcome=PartitionError(error=ErrorCode(error)),
            )
            for topic_id, error in errors_by_topic.items()
            if error
        ]
        if not deleted_ids:
            return (*deletion.refused_topics, *failed_topics)
        write_refusal = await self._write_apart(
            group_id,
            lambda group: records_of_deleted(group, deleted_ids, now_ms=self.clock.now_ms()),
        )
        if write_refusal is not None:
            return write_refusal
        deleted_topics = (
            TopicOutcome(topic_name=names_by_id.get(topic_id, ""), topic_id=topic_id)
            for topic_id in deleted_ids
        )
        return (*deleted_topics, *deletion.refused_topics, *failed_topics)

    async def delete_state(self, shard: GroupShard, group_id: str) -> Rejection | None:
        """Delete all share state of a group that is about to be deleted."""

        def decide() -> ShareDeletion | Rejection:
            group = shard.find_deletable(group_id)
            if isinstance(group, Rejection):
                return group
            if not isinstance(group, ShareGroup):
                return ShareDeletion()
            return delete_all_topics(group, image=self.image(), now_ms=self.clock.now_ms())

        deletion = await self._write_decision(shard, group_id, decide)
        if isinstance(deletion, Rejection):
            return deletion
        state_errors = await self._ask_coordinators(
            self.coordinators.delete, deletion.states_to_delete
        )
        error = ErrorCode(next((answer.error for answer in state_errors if answer.error), 0))
        if not error:
            return None
        return Rejection(error=error, reason="a share coordinator did not delete its state")

    async def describe_offsets(
        self, group_id: str, topics: Sequence[tuple[str, Sequence[int]]] | None
    ) -> tuple[TopicOffsets, ...] | Rejection:
        """DescribeShareGroupOffsets for a group. Any broker can answer for named topics; for all
        initialised topics (None) only the group's coordinator can.
        """
        image = self.image()
        unknown_topics: list[TopicOffsets] = []
        indexes_by_topic: dict[uuid.UUID, Sequence[int]] = {}
        if topics is None:
            shard = self.shard_of(group_id)
            if isinstance(shard, Rejection):
                return shard
            group = shard.groups.get(group_id)
            if isinstance(group, ShareGroup):
                indexes_by_topic = {
                    topic.topic_id: topic.partitions
                    for topic in group.initialized.values()
                    if topic.topic_id in image.topic_names
                }
        for topic_name, indexes in topics or ():
            topic = image.topics.get(topic_name)
            if topic is None:
                unknown_offsets = tuple(ShareOffset(partition=index) for index in indexes)
                unknown_topics.append((topic_name, None, unknown_offsets))
            else:
                indexes_by_topic[topic.topic_id] = indexes
        is_malformed = not group_id or any(
            min(indexes, default=-1) < 0 for indexes in indexes_by_topic.values()
        )
        if indexes_by_topic and is_malformed:
            return Rejection(error=ErrorCode.unknown_server_error, reason="")  # as the persister
        commands = [
            ReadShareState(key=ShareKey(group_id, uuid_text(topic_id), index))
            for topic_id, indexes in indexes_by_topic.items()
            for index in indexes
        ]
        offsets_by_topic: dict[uuid.UUID, list[ShareOffset]] = {
            topic_id: [] for topic_id in indexes_by_topic
        }
        pace = self._pace(len(commands))
        for summary in await self._ask_coordinators(self.coordinators.summarize, commands):
            topic_id = uuid_from(summary.key.topic_id)
            topic_partition = TopicPartition(image.topic_names[topic_id], summary.key.partition)
            offsets_by_topic[topic_id].append(await self._offset(topic_partition, summary))
            await rest_where_due(pace, 1)
        described_topics = [
            (image.topic_names[topic_id], topic_id, tuple(topic_offsets))
            for topic_id, topic_offsets in offsets_by_topic.items()
        ]
        return (*described_topics, *unknown_topics)

    async def _offset(
        self, topic_partition: TopicPartition, summary: ShareStateSummary
    ) -> ShareOffset:
        """The position of a share partition, from a summary; unknown if the summary failed."""
        if summary.error:
            return ShareOffset(partition=topic_partition.partition)
        lag = -1
        if summary.start_offset != UNKNOWN_OFFSET and summary.delivery_complete_count != -1:
            latest_offset = await self.latest_offset(topic_partition)
            if isinstance(latest_offset, Rejection):
                return ShareOffset(
                    partition=topic_partition.partition, start_offset=0, error=latest_offset.error
                )
            lag = latest_offset - summary.start_offset - summary.delivery_complete_count
        return ShareOffset(
            partition=topic_partition.partition,
            start_offset=summary.start_offset,
            leader_epoch=summary.leader_epoch,
            lag=lag,
        )

    def forget_deleted_topics(
        self, shards: Iterable[GroupShard], topic_ids: frozenset[uuid.UUID]
    ) -> None:
        """Make groups drop deleted topics, in slices if there are very many."""
        self.tasks.drive(
            self._forget_topics(tuple(shards), topic_ids),
            ignore_end,
            name="group.share-topics-gone",
        )

    async def _forget_topics(
        self, shards: Sequence[GroupShard], topic_ids: frozenset[uuid.UUID]
    ) -> None:
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        for shard in shards:
            groups = list(shard.groups.values())
            for group_index in range(0, len(groups), FORGOTTEN_AT_ONCE):
                if not self.is_current(shard):
                    break
                slice_of_groups = groups[group_index : group_index + FORGOTTEN_AT_ONCE]
                decide = partial(self._decide_to_forget, shard, slice_of_groups, topic_ids)
                append_outcome = await self._make_write(shard, "", decide).run()
                if isinstance(append_outcome, Rejection):
                    _log.warning("group.write-refused", group="", reason=append_outcome.reason)
                await rest_where_due(pace, len(slice_of_groups))

    def _decide_to_forget(
        self, shard: GroupShard, groups: Sequence[Group], topic_ids: frozenset[uuid.UUID]
    ) -> _AnswerOutcome:
        now_ms = self.clock.now_ms()
        return _AnswerOutcome(
            records=tuple(
                record
                for group in groups
                if isinstance(group, ShareGroup) and shard.groups.get(group.group_id) is group
                for record in records_without_topics(group, topic_ids, now_ms=now_ms)
            )
        )

    # Asking

    async def _ask_coordinators(
        self,
        send_commands: Callable[[Sequence[CommandT]], list[Pending[AnswerT]]],
        commands: Sequence[CommandT],
    ) -> list[AnswerT]:
        """The answer of share coordinators to each command, in order; in slices if there are very
        many.
        """
        pace = self._pace(len(commands))
        pending_answers: list[Pending[AnswerT]] = []
        for slice_start in range(0, len(commands), ASKED_AT_ONCE):
            pending_answers += send_commands(commands[slice_start : slice_start + ASKED_AT_ONCE])
            await rest_where_due(pace, _ELEMENTS_PER_PARTITION * ASKED_AT_ONCE)
        state_errors = []
        for pending_answer in pending_answers:
            state_errors.append(await pending_answer)
            await rest_where_due(pace, 1)
        return state_errors

    def _pace(self, partition_count: int) -> Pace | None:
        if partition_count <= ASKED_AT_ONCE:
            return None
        return Pace(self.tasks.turns, self.clock.stopwatch_ns)

    # Writing

    async def _write_decision(
        self,
        shard: GroupShard,
        group_id: str,
        decide: Callable[[], DecisionT | Rejection],
        pace: Pace | None = None,
        element_count: int = 0,
    ) -> DecisionT | Rejection:
        """Write, and wait until it is replicated."""
        operation = self._make_write(shard, group_id, decide, element_count)
        return await operation.run_and_wait(pace)

    def _make_write(
        self,
        shard: GroupShard,
        group_id: str,
        decide: Callable[[], DecisionT | Rejection],
        element_count: int = 0,
    ) -> GroupWrite[DecisionT]:
        return GroupWrite(
            writes=self.writes,
            shard=shard,
            group_id=group_id,
            decide=decide,
            element_count=element_count,
            append=lambda decision, records: self._append(shard, decision, records),
        )

    def _append(
        self, shard: GroupShard, decision: DecisionT, records: Sequence[GroupRecord]
    ) -> int | Rejection | None:
        last_offset = self.writer.append(shard, records) if records else None
        # As in Kafka, the decision sets timers also if the log refuses its records.
        if isinstance(decision, ShareHeartbeatOutcome) and self.writes.refuse_moved(shard) is None:
            self._carry_out(shard, decision)
        return last_offset

    async def _write_apart(
        self, group_id: str, decide: Callable[[ShareGroup], tuple[ShareRecord, ...]]
    ) -> Rejection | None:
        """Write what follows from an answer. The group's shard is looked up again first."""
        shard = self.shard_of(group_id)
        if isinstance(shard, Rejection):
            return shard

        def decided() -> _AnswerOutcome:
            group = shard.groups.get(group_id)
            if not isinstance(group, ShareGroup):
                return _AnswerOutcome()
            return _AnswerOutcome(records=decide(group))

        outcome = await self._write_decision(shard, group_id, decided)
        return outcome if isinstance(outcome, Rejection) else None


def _share_group(group: Group | Rejection) -> ShareGroup | Rejection:
    if isinstance(group, ShareGroup | Rejection):
        return group
    return Rejection(
        error=ErrorCode.group_id_not_found, reason=f"Group {group.group_id} is not a share group."
    )


def _indexes_by_topic(state_errors: Iterable[ShareStateError]) -> IndexesByTopic:
    indexes_by_topic: dict[uuid.UUID, set[int]] = {}
    for answer in state_errors:
        indexes_by_topic.setdefault(uuid_from(answer.key.topic_id), set()).add(answer.key.partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in indexes_by_topic.items()}


def _with_errors(
    topic: TopicOutcome, partition_errors: dict[tuple[str, int], PartitionError]
) -> TopicOutcome:
    """An altered topic with the share coordinators' errors."""
    topic_id_text = uuid_text(topic.topic_id)
    return msgspec.structs.replace(
        topic,
        partitions=tuple(
            (
                index,
                outcome if outcome.error else partition_errors.get((topic_id_text, index), outcome),
            )
            for index, outcome in topic.partitions
        ),
    )


def share_settings(settings: Settings) -> ShareGroupSettings:
    """The broker's settings that the protocol needs (GroupCoordinatorConfig)."""
    return ShareGroupSettings(
        max_size=settings.group_share_max_size,
        initialize_retry_ms=max(
            settings.group_share_initialize_retry_interval_ms, settings.offsets_commit_timeout_ms
        ),
    )
