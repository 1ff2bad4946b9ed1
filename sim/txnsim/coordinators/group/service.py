"""The group coordinator of one broker: positions, administration, transactions and leadership.

It owns a shard for each partition of ``__consumer_offsets`` that its broker leads, and sends every
command to the shard of its group. ``_classic_membership`` and the like handle members. The service
gets a log, a way to verify and a clock; it does not know the broker. Kafka's counterpart:
GroupCoordinatorService.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from txnsim.coordinators._coordinator_log import CoordinatorLog
from txnsim.coordinators._ownership import Ownership
from txnsim.coordinators.group._classic_membership import ClassicGroups
from txnsim.coordinators.group._consumer_membership import ConsumerGroups, consumer_settings
from txnsim.coordinators.group._group_timers import GroupTimers
from txnsim.coordinators.group._group_writes import GroupWrite, GroupWrites
from txnsim.coordinators.group._offset_trace import OffsetTrace
from txnsim.coordinators.group._share_membership import (
    LatestOffset,
    ShareCoordinators,
    ShareGroups,
    share_settings,
)
from txnsim.coordinators.group._streams_membership import StreamsGroups
from txnsim.coordinators.group._streams_trace import StreamsTrace
from txnsim.coordinators.group._writer import GroupWriter, coordinator_error
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic import ClassicProtocol
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import (
    ConsumerHeartbeat,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    SyncGroup,
    SyncReply,
)
from txnsim.group.consumer import ConsumerProtocol
from txnsim.group.consumer_classic import ClassicMembers
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.offset_commands import (
    CommitOffsets,
    CommittingProducer,
    DeleteOffsets,
    FetchedPosition,
    FetchOffsets,
    PartitionErrors,
)
from txnsim.group.offset_machine import (
    PENDING_MAX,
    CommitDecision,
    decide_commit,
    decide_delete_offsets,
    delete_all_offsets,
    delete_topic_offsets,
    expire_offsets,
    fetch_offsets,
)
from txnsim.group.records import GroupRecord, OffsetDeleted
from txnsim.group.shard import GroupShard
from txnsim.group.sharing.share import ShareHeartbeat, ShareProtocol
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.sharing.share_topics import NewOffsets, TopicOffsets, TopicOutcome
from txnsim.group.state import ClassicGroupState, Group
from txnsim.group.streams.commands import StreamsHeartbeat, StreamsReply
from txnsim.group.streams.group import StreamsGroup
from txnsim.group.streams.protocol import StreamsProtocol
from txnsim.interbroker.transactions import TxnMarker
from txnsim.loggers import FailureLog, Logger
from txnsim.metadata.group_configs import group_intervals, share_intervals, streams_configs
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import Rules
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.runtime.tasks import ignore_end
from txnsim.runtime.trace import Tracer
from txnsim.settings import Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    NO_PRODUCER_ID,
    BrokerId,
    CoordinatorEpoch,
    TopicPartition,
)

_log: Final = Logger("txnsim.group")

DEVIATIONS: Final = (
    "DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe and "
    "ListGroups tell what the coordinator has decided last; Apache Kafka tells what is replicated.",
    "A member is described once. If the log of Apache Kafka has refused the record of its leaving, "
    "Kafka describes it twice, until the log takes another record.",
)

_NOT_RUNNING: Final = Rejection(
    error=ErrorCode.coordinator_not_available, reason="the coordinator is not running"
)

SLICE_GROUPS: Final = 1_000
"""Of a partition with more groups that is given up, their memory is given back in slices."""
SLICE_POSITIONS: Final = 200
"""Number of positions that are expired, or deleted with their topic, without a break."""
EXPIRED_AT_ONCE: Final = 100
"""Number of positions of a group with more of them that are looked at without a break."""

_EXTENDING_STATES: Final = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)
"""States of a classic group in which a commit extends the member's session."""

VerifyCommit = Callable[[int, CommittingProducer], Awaitable[int | Rejection]]
"""(partition of ``__consumer_offsets``, producer) -> the guard, or why the transaction coordinator
refused (KIP-890).
"""


class _Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that deletes groups or positions by tombstones."""

    records: Sequence[GroupRecord] = ()


class GroupCoordinator:
    """The group coordinator of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        settings: Settings,
        release_rules: Rules,
        read_settings: Callable[[], Settings],
        tasks: Tasks,
        log: CoordinatorLog,
        read_image: Callable[[], ClusterImage],
        make_id: Callable[[], str],
        make_short_id: Callable[[], str],
        tracer: Tracer,
        share_coordinators: ShareCoordinators,
        find_latest_offset: LatestOffset,
        partition_count: int | None = None,
    ) -> None:
        """Make a coordinator that is not started yet.

        Args:
            broker_id: Id of its broker.
            clock: The cluster's clock.
            settings: The broker's static settings.
            release_rules: The rules of the broker's release.
            read_settings: Returns the current settings, including dynamic changes.
            tasks: Owns background tasks.
            log: The partitions of ``__consumer_offsets``.
            read_image: The metadata as the broker knows it.
            make_id: Returns a random UUID as text, for members of classic groups.
            make_short_id: Returns one in Kafka's short form, for members of the consumer protocol.
            tracer: Records an event for each position of a transaction.
            share_coordinators: Sends commands to share coordinators.
            find_latest_offset: Asks a partition's leader for its end offset.
            partition_count: Number of partitions of ``__consumer_offsets``, if the topic exists.
        """
        self._clock = clock
        self._settings = settings
        self._rules = release_rules
        self.partitions: Final = partition_count or settings.offsets_topic_num_partitions
        """Number of partitions to which this broker maps groups, as long as it runs."""
        self._tasks = tasks
        self._ownership: Ownership[GroupShard] = Ownership(
            topic=CONSUMER_OFFSETS_TOPIC,
            kind="group",
            broker_id=broker_id,
            partition_count=self.partitions,
        )
        self.trace: Final = OffsetTrace(tracer, self._ownership)
        self.is_running = False
        self._writer = self._make_writer(log, read_settings)
        self._refused_cleanups = FailureLog(_log, "group.cleanup-refused", "partition")
        self.load_problems_total = 0  # logs that could be read in part only
        self._group_timers = GroupTimers(clock=clock, tasks=tasks)
        self._writes = GroupWrites(
            writer=self._writer,
            image=read_image,
            refuse_moved=self._ownership.refuse_moved,
            lines=self._group_timers.lines,
        )
        self.members = self._make_classic_groups(make_id)
        self.consumers = self._make_consumer_groups(read_settings, read_image, make_short_id)
        self.shares = self._make_share_groups(
            read_settings, read_image, share_coordinators, find_latest_offset
        )
        self.streams = self._make_streams_groups(read_settings, read_image)

    def _make_writer(
        self, log: CoordinatorLog, read_settings: Callable[[], Settings]
    ) -> GroupWriter:
        return GroupWriter(
            log=log,
            clock=self._clock,
            dynamic_settings=read_settings,
            shares_out=self._rules.cleanup_takes_many_batches,
        )

    def _make_classic_groups(self, make_id: Callable[[], str]) -> ClassicGroups:
        return ClassicGroups(
            clock=self._clock,
            tasks=self._tasks,
            protocol=ClassicProtocol(settings=self._settings, make_id=make_id),
            timers=self._group_timers,
            is_current=self._ownership.is_current,
            writes=self._writes,
        )

    def _make_share_groups(
        self,
        read_settings: Callable[[], Settings],
        read_image: Callable[[], ClusterImage],
        coordinators: ShareCoordinators,
        find_latest_offset: LatestOffset,
    ) -> ShareGroups:
        return ShareGroups(
            clock=self._clock,
            tasks=self._tasks,
            writer=self._writer,
            protocol=ShareProtocol(
                settings=share_settings(self._settings),
                intervals_of=lambda group_id: share_intervals(
                    read_image().group_configs.get(group_id), read_settings()
                ),
            ),
            timers=self._group_timers,
            image=read_image,
            is_current=self._ownership.is_current,
            writes=self._writes,
            shard_of=self._shard_of,
            coordinators=coordinators,
            latest_offset=find_latest_offset,
            new_group=lambda group_id: ShareGroup(group_id, self._rules),
        )

    def _make_streams_groups(
        self, read_settings: Callable[[], Settings], read_image: Callable[[], ClusterImage]
    ) -> StreamsGroups:
        return StreamsGroups(
            clock=self._clock,
            tasks=self._tasks,
            writer=self._writer,
            protocol=StreamsProtocol(
                max_size=self._settings.group_streams_max_size,
                configs_of=lambda group_id: streams_configs(
                    read_image().group_configs.get(group_id), read_settings()
                ),
                release_rules=self._rules,
            ),
            timers=self._group_timers,
            image=read_image,
            writes=self._writes,
            trace=StreamsTrace(self.trace.tracer, self._ownership),
        )

    def _make_consumer_groups(
        self,
        read_settings: Callable[[], Settings],
        read_image: Callable[[], ClusterImage],
        make_id: Callable[[], str],
    ) -> ConsumerGroups:
        """The groups of the consumer protocol; needs the classic groups to exist already."""
        settings = self._settings
        protocol = ConsumerProtocol(
            settings=consumer_settings(settings),
            release_rules=self._rules,
            new_id=make_id,
            intervals_of=lambda group_id: group_intervals(
                read_image().group_configs.get(group_id), read_settings()
            ),
        )
        return ConsumerGroups(
            clock=self._clock,
            tasks=self._tasks,
            writer=self._writer,
            protocol=protocol,
            classic_members=ClassicMembers(protocol),
            classic_groups=self.members,
            timers=self._group_timers,
            image=read_image,
            writes=self._writes,
        )

    # Life

    def stop(self) -> None:
        """Release all groups; waiting requests get an error."""
        self.is_running = False
        for shard in self._ownership:
            self.unload(shard.partition)

    # Membership

    async def join(self, command: JoinGroup) -> JoinReply | None:
        """Answer JoinGroup; None if it will never be answered."""
        refusal = self._refuse_id(command.group_id)
        if refusal is not None:
            return JoinReply(error=refusal.error, member_id=command.member_id)
        settings = self._settings
        min_timeout_ms, max_timeout_ms = (
            settings.group_min_session_timeout_ms,
            settings.group_max_session_timeout_ms,
        )
        if not min_timeout_ms <= command.session_timeout_ms <= max_timeout_ms:
            error = ErrorCode.invalid_session_timeout
            return JoinReply(error=error, member_id=command.member_id)
        shard = self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return JoinReply(error=shard.error)
        group = shard.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return await self.consumers.join_classic(shard, command)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            refusal = await self._delete_empty_group(shard, command.group_id)
            if refusal is not None:
                return JoinReply(error=refusal.error, member_id=command.member_id)
        return await self.members.join(shard, command)

    async def _delete_empty_group(self, shard: GroupShard, group_id: str) -> Rejection | None:
        """Delete a group of another protocol that has no members, to make room for a classic one;
        does nothing if it is that no more.
        """

        def decide() -> _Deletion:
            group = shard.groups.get(group_id)
            if isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty:
                return _Deletion(records=tuple(group.tombstones()))
            return _Deletion()

        def append(_deletion: _Deletion, records: Sequence[GroupRecord]) -> int | Rejection | None:
            if not records:
                return None
            self._group_timers.forget(shard, group_id)
            return self._writer.append(shard, records)

        append_outcome = await self._make_deletion_write(shard, group_id, decide, append).run()
        return append_outcome if isinstance(append_outcome, Rejection) else None

    async def sync(self, command: SyncGroup) -> SyncReply | None:
        """Answer SyncGroup; None if it will never be answered."""
        shard = self._refuse_id(command.group_id) or self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return SyncReply(error=shard.error)
        group = shard.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.consumers.sync_classic(shard, group, command)
        return await self.members.sync(shard, command)

    def heartbeat(self, command: Heartbeat) -> Rejection | None:
        """Answer Heartbeat; without an error while the group is being loaded."""
        shard = self._refuse_id(command.group_id) or self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            is_loading = shard.error is ErrorCode.coordinator_load_in_progress
            return None if is_loading else shard
        group = shard.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.consumers.heartbeat_classic(shard, group, command)
        return self.members.heartbeat(shard, command)

    async def leave(self, command: LeaveGroup) -> LeaveReply:
        """Answer LeaveGroup."""
        shard = self._refuse_id(command.group_id) or self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return LeaveReply(error=shard.error)
        group = shard.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return await self.consumers.leave_classic(shard, command)
        return await self.members.leave(shard, command)

    async def consumer_heartbeat(
        self, command: ConsumerHeartbeat, pace: Pace | None = None
    ) -> HeartbeatReply | Rejection:
        """Answer ConsumerGroupHeartbeat; ``pace`` is given for a large request."""
        if not self.is_running:
            return _NOT_RUNNING
        shard = self.consumers.protocol.check(command) or self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return shard
        return await self.consumers.heartbeat(shard, command, pace)

    async def share_heartbeat(
        self, command: ShareHeartbeat, pace: Pace | None = None
    ) -> HeartbeatReply | Rejection:
        """Answer ShareGroupHeartbeat; ``pace`` is given for a large request."""
        if not self.is_running:
            return _NOT_RUNNING
        shard = self.shares.protocol.check(command) or self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return shard
        return await self.shares.heartbeat(shard, command, pace)

    async def streams_heartbeat(self, command: StreamsHeartbeat) -> StreamsReply | Rejection:
        """Answer StreamsGroupHeartbeat."""
        if not self.is_running:
            return _NOT_RUNNING
        shard = self.streams.protocol.check(command) or self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return shard
        return await self.streams.heartbeat(shard, command)

    # Offsets of share groups

    async def alter_share_offsets(
        self, group_id: str, topics: Sequence[NewOffsets]
    ) -> tuple[TopicOutcome, ...] | Rejection:
        """Answer AlterShareGroupOffsets."""
        return self._refuse_id(group_id) or await self.shares.alter(group_id, topics)

    async def delete_share_offsets(
        self, group_id: str, topic_names: Sequence[str]
    ) -> tuple[TopicOutcome, ...] | Rejection:
        """Answer DeleteShareGroupOffsets."""
        return self._refuse_id(group_id) or await self.shares.delete_offsets(group_id, topic_names)

    async def describe_share_offsets(
        self, group_id: str, topics: Sequence[tuple[str, Sequence[int]]] | None
    ) -> tuple[TopicOffsets, ...] | Rejection:
        """Answer DescribeShareGroupOffsets; None means all initialised topics."""
        if not self.is_running:
            return _NOT_RUNNING
        return await self.shares.describe_offsets(group_id, topics)

    # Positions

    async def commit(
        self, command: CommitOffsets, pace: Pace | None = None
    ) -> PartitionErrors | Rejection:
        """OffsetCommit: answered once the positions are replicated; ``pace`` is given for a large
        request.
        """
        shard = self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return shard

        def append(_: CommitDecision, records: Sequence[GroupRecord]) -> int | Rejection | None:
            group = shard.groups.get(command.group_id)
            if isinstance(group, ClassicGroup) and group.state in _EXTENDING_STATES:
                self.members.extend_session(shard, group, command.member_id)
            return self._writer.append(shard, records) if records else None

        decision = await GroupWrite(
            writes=self._writes,
            shard=shard,
            group_id=command.group_id,
            decide=partial(self._decide_commit, command, shard),
            element_count=len(command.positions),
            append=append,
        ).run_and_wait(pace)
        return decision if isinstance(decision, Rejection) else decision.reply

    async def commit_in_transaction(
        self,
        command: CommitOffsets,
        producer: CommittingProducer,
        *,
        verify: VerifyCommit,
        pace: Pace | None = None,
    ) -> PartitionErrors | Rejection:
        """TxnOffsetCommit: positions are pending until the producer's marker. With producer
        id -1 it is an ordinary commit. ``pace`` is given for a large request.

        It asks the transaction's coordinator first, before it looks at the group, as a partition
        leader does for a batch of records.
        """
        refusal = self._refuse_id(command.group_id)
        if refusal is not None:
            return refusal
        shard = self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return shard
        guard_or_rejection = await verify(shard.partition, producer)
        if isinstance(guard_or_rejection, Rejection):
            return Rejection(
                error=coordinator_error(guard_or_rejection.error), reason=guard_or_rejection.reason
            )
        if not self._ownership.is_current(shard):
            return self._ownership.refuse(shard.partition)
        pending_count = shard.offsets.pending_counts.get(producer.producer_id, 0)
        if pending_count + len(command.positions) > PENDING_MAX:
            return Rejection(
                error=ErrorCode.invalid_commit_offset_size,
                reason=f"a transaction has at most {PENDING_MAX} positions",
            )
        decision = await GroupWrite(
            writes=self._writes,
            shard=shard,
            group_id=command.group_id,
            decide=partial(self._decide_commit, command, shard),
            element_count=len(command.positions),
            append=lambda _, records: (
                self._writer.append(shard, records, producer=producer, guard=guard_or_rejection)
                if records
                else None
            ),
            producer=producer,
        ).run_and_wait(pace)
        if isinstance(decision, Rejection):
            return decision
        if decision.records and self.trace.tracer.on and producer.producer_id != NO_PRODUCER_ID:
            self.trace.trace_pending(shard, command, producer, decision.reply)
        return decision.reply

    async def fetch(self, command: FetchOffsets) -> tuple[FetchedPosition, ...] | Rejection:
        """OffsetFetch. A request for stable positions waits until all requested positions are
        replicated.
        """
        shard = self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return shard
        positions = fetch_offsets(
            shard, command, high_watermark=self._writer.high_watermark_of(shard)
        )
        if command.require_stable and not isinstance(positions, Rejection):
            error = await self._wait_for_all(shard)
            if error:
                # A consumer looks for the coordinator again; it does not know the other errors.
                client_error = (
                    ErrorCode.not_coordinator
                    if error is ErrorCode.coordinator_not_available
                    else error
                )
                return Rejection(error=client_error, reason="the positions could not be replicated")
        return positions

    async def delete_offsets(self, command: DeleteOffsets) -> PartitionErrors | Rejection:
        """Answer OffsetDelete."""
        shard = self._refuse_id(command.group_id) or self._shard_of(command.group_id)
        if isinstance(shard, Rejection):
            return shard
        operation = GroupWrite(
            writes=self._writes,
            shard=shard,
            group_id=command.group_id,
            decide=lambda: decide_delete_offsets(shard, command),
            append=lambda _, records: self._delete_on_request(shard, records),
        )
        decision = await operation.run_and_wait()
        return decision if isinstance(decision, Rejection) else decision.reply

    # Administration

    def find(self, group_id: str) -> Group | Rejection:
        """The group with that id; GROUP_ID_NOT_FOUND if there is none."""
        shard = self._shard_of(group_id)
        if isinstance(shard, Rejection):
            return shard
        return shard.find(group_id)

    def shards(self) -> tuple[GroupShard, ...]:
        """Every loaded partition, for invariants."""
        return tuple(self._ownership)

    def list(self) -> tuple[Group, ...] | Rejection:
        """All groups that this broker coordinates; an error while a partition is loading."""
        if not self.is_running:
            return _NOT_RUNNING
        if self._ownership.loading:
            return self._ownership.refuse(next(iter(self._ownership.loading)))
        return tuple(group for shard in self._ownership for group in shard.groups.values())

    async def delete(self, group_id: str) -> Rejection | None:
        """Delete a group without members, with its positions."""
        shard = self._shard_of(group_id)
        if isinstance(shard, Rejection):
            return shard
        if self._rules.deletion_waits_for_log:
            error = await self._wait_for_all(shard)
            if error:
                reason = "what was written before could not be replicated in time"
                return Rejection(error=error, reason=reason)
        if isinstance(shard.find_deletable(group_id), ShareGroup):
            refusal = await self.shares.delete_state(
                shard, group_id
            ) or self._ownership.refuse_moved(shard)
            if refusal is not None:
                return refusal

        def decide() -> _Deletion | Rejection:
            group = shard.find_deletable(group_id)
            if isinstance(group, Rejection):
                return group
            position_count = shard.offsets.count_of_group(group_id)
            refusal = self._writer.refuse_many(shard, group_id, position_count)
            if refusal is not None:
                return refusal
            return _Deletion(records=(*delete_all_offsets(shard, group_id), *group.tombstones()))

        def append(_deletion: _Deletion, records: Sequence[GroupRecord]) -> int | Rejection | None:
            self._group_timers.forget(shard, group_id)
            return self._delete_on_request(shard, records)

        deletion = await self._make_deletion_write(shard, group_id, decide, append).run_and_wait()
        return deletion if isinstance(deletion, Rejection) else None

    # Transactions

    def owns(self, partition_index: int) -> bool:
        """Whether the partition is loaded here. Before that no transaction may end on it, or its
        positions would be lost (KAFKA-17507).
        """
        return partition_index in self._ownership.owned

    def marker_written(self, partition_index: int, marker: TxnMarker, offset: int) -> None:
        """Complete a transaction on a partition: its pending positions become the groups' positions
        (commit), or are dropped (abort).
        """
        shard = self._ownership.owned[partition_index]
        self.trace.trace_decision(shard, marker)
        shard.apply_marker(
            marker.producer_id,
            is_commit=marker.committed,
            marker_offset=offset,
            high_watermark=self._writer.high_watermark_of(shard),
        )

    # Loading

    def begin_load(self, partition_index: int, coordinator_epoch: CoordinatorEpoch) -> None:
        """Start loading a partition that this broker leads now; until it is loaded, its groups
        answer COORDINATOR_LOAD_IN_PROGRESS (14).
        """
        self._release_shard(self._ownership.begin_load(partition_index, coordinator_epoch))

    def read(
        self, partition_index: int, coordinator_epoch: CoordinatorEpoch, batches: Iterable[bytes]
    ) -> Generator[int, None, bool]:
        """Read the log and own its groups; False if this load was cancelled meanwhile. Each step
        yields how many records it has read.
        """
        shard = GroupShard(
            partition=partition_index,
            coordinator_epoch=coordinator_epoch,
            release_rules=self._rules,
        )
        yield from shard.read(batches)
        if not self._ownership.finish_load(shard):
            return False
        if shard.load_problem is not None:
            self.load_problems_total += 1
            _log.error("group.load-stopped", partition=partition_index, problem=shard.load_problem)
        yield from self.members.load(shard)
        yield from self.consumers.load(shard)
        yield from self.shares.load(shard)
        yield from self.streams.load(shard)
        return True

    def unload(self, partition_index: int, epoch: CoordinatorEpoch | None = None) -> None:
        """Give up a partition; arguments as for ``Ownership.unload``."""
        self._release_shard(self._ownership.unload(partition_index, epoch))

    def topics_deleted(self, topics: Mapping[str, uuid.UUID]) -> None:
        """Delete the positions on deleted topics (name -> id), and their share state."""
        self.shares.forget_deleted_topics(self._ownership, frozenset(topics.values()))
        position_count = 0
        late_shards: list[GroupShard] = []
        for shard in self._ownership:
            position_count += sum(map(shard.offsets.count_on_topic, topics))
            if position_count <= SLICE_POSITIONS:
                tombstones_of = partial(delete_topic_offsets, shard, frozenset(topics))
                self._tasks.drive(
                    self._clean_up(shard, "", tombstones_of),
                    ignore_end,
                    name="group.topics-deleted",
                )
                continue
            for topic in topics:
                shard.offsets.hide_topic(topic, end_offset=shard.end_offset)
            late_shards.append(shard)
        if late_shards:
            self._tasks.drive(
                self._delete_hidden(late_shards, tuple(topics)),
                ignore_end,
                name="group.topics-deleted",
            )

    async def _delete_hidden(self, shards: Sequence[GroupShard], topics: Sequence[str]) -> None:
        """Write tombstones in slices; positions that were committed since are kept."""
        pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
        for shard in shards:
            group_partitions = [
                group_partition
                for topic in topics
                for group_partition in shard.offsets.positions_on_topic(topic)
            ]
            for start in range(0, len(group_partitions), SLICE_POSITIONS):
                if not self._ownership.is_current(shard):
                    break
                partition_slice = group_partitions[start : start + SLICE_POSITIONS]
                record_count = await self._clean_up(
                    shard, "", partial(_hidden_tombstones, shard, partition_slice)
                )
                await rest_where_due(pace, record_count)

    # Parts

    def _release_shard(self, shard: GroupShard | None) -> None:
        if shard is not None:
            self._group_timers.unload(shard)
            self.members.unload(shard)
            self.streams.trace.trace_unload(shard)
            if len(shard.groups) > SLICE_GROUPS:
                pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
                groups_left = list(shard.groups.values())
                self._tasks.drive(
                    _release_in_slices(groups_left, pace), ignore_end, name="group.unload"
                )

    def _shard_of(self, group_id: str) -> GroupShard | Rejection:
        if not self.is_running:
            return _NOT_RUNNING
        return self._ownership.find(group_id)

    def _refuse_id(self, group_id: str) -> Rejection | None:
        if not self.is_running:
            return _NOT_RUNNING
        if group_id:
            return None
        return Rejection(error=ErrorCode.invalid_group_id, reason="a group needs a name")

    async def _wait_for_all(self, shard: GroupShard) -> ErrorCode:
        """Wait until everything that the log has is replicated."""
        return await self._writer.wait_for_commit(shard, shard.end_offset - 1)

    def _decide_commit(
        self, command: CommitOffsets, shard: GroupShard
    ) -> CommitDecision | Rejection:
        return decide_commit(
            shard,
            command,
            metadata_bytes_max=self._settings.offset_metadata_max_bytes,
            now_ms=self._clock.now_ms(),
        )

    def _delete_on_request(
        self, shard: GroupShard, records: Sequence[GroupRecord]
    ) -> int | Rejection | None:
        """Append deletions that a client requested, in one batch.

        Before 4.0 they are written like a cleanup: they take effect even if the log refuses them,
        and the answer does not wait for replication.
        """
        if not records:
            return None
        if self._writer.shares_out:
            return self._writer.append(shard, records)
        self._append_cleanup(shard, records)
        return None

    async def _clean_up(
        self, shard: GroupShard, group_id: str, decide: Callable[[], Sequence[GroupRecord]]
    ) -> int:
        """Write deletions that no request waits for; returns how many. If the log refuses them, the
        next scan tries again.

        Args:
            shard: The shard.
            group_id: The group; empty for several.
            decide: Returns the tombstones by the present state.
        """
        operation = self._make_deletion_write(
            shard,
            group_id,
            lambda: _Deletion(records=decide()),
            lambda _, records: self._append_cleanup(shard, records),
        )
        append_outcome = await operation.run()
        if isinstance(append_outcome, Rejection):
            self._note_cleanup(shard, append_outcome)
            return 0
        return len(append_outcome[0].records)

    def _make_deletion_write(
        self,
        shard: GroupShard,
        group_id: str,
        decide: Callable[[], _Deletion | Rejection],
        append: Callable[[_Deletion, Sequence[GroupRecord]], int | Rejection | None],
    ) -> GroupWrite[_Deletion]:
        return GroupWrite(
            writes=self._writes, shard=shard, group_id=group_id, decide=decide, append=append
        )

    def _append_cleanup(self, shard: GroupShard, records: Sequence[GroupRecord]) -> None:
        if records:
            self._note_cleanup(shard, self._writer.clean_up(shard, records))

    def _note_cleanup(self, shard: GroupShard, refusal: Rejection | None) -> None:
        if refusal is None:
            self._refused_cleanups.forget_failures(shard.partition)
        else:
            error = refusal.error.name.upper()
            self._refused_cleanups.note_failure(shard.partition, error, refusal.reason)

    # Expiry

    def expire(self) -> None:
        """Expire positions, and groups that have none left."""
        self._tasks.drive(self._expire_all(), ignore_end, name="group.expiry")

    async def _expire_all(self) -> None:
        """Expire due positions, one group at a time, in slices."""
        pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
        now_ms = self._clock.now_ms()
        for shard in list(self._ownership):
            if not self._ownership.is_current(shard):
                continue
            shard.offsets.prune(high_watermark=self._writer.high_watermark_of(shard))
            for group in tuple(shard.groups.values()):
                position_count = shard.offsets.count_of_group(group.group_id)
                slices: Sequence[Sequence[TopicPartition] | None] = (None,)
                if position_count > SLICE_POSITIONS:
                    topic_partitions = shard.offsets.partitions_of_group(group.group_id)
                    slice_starts = range(0, len(topic_partitions), EXPIRED_AT_ONCE)
                    slices = (
                        *(
                            topic_partitions[start : start + EXPIRED_AT_ONCE]
                            for start in slice_starts
                        ),
                        None,
                    )
                for topic_partitions_of_slice in slices:
                    if not self._ownership.is_current(shard):
                        break
                    record_count = await self._clean_up(
                        shard,
                        group.group_id,
                        partial(
                            self._expired_records, shard, group, topic_partitions_of_slice, now_ms
                        ),
                    )
                    seen_count = len(topic_partitions_of_slice or ())
                    await rest_where_due(pace, 2 + max(seen_count, record_count))

    def _expired_records(
        self,
        shard: GroupShard,
        group: Group,
        topic_partitions: Sequence[TopicPartition] | None,
        now_ms: int,
    ) -> tuple[GroupRecord, ...]:
        """Tombstones of the due positions of a group, or of some of its positions; none if the
        group is not there any more.
        """
        if shard.groups.get(group.group_id) is not group:
            return ()
        has_too_many_positions = shard.offsets.count_of_group(group.group_id) > SLICE_POSITIONS
        if topic_partitions is None and has_too_many_positions:
            return ()  # what is left is not due, or has come since: the next scan sees to it
        return expire_offsets(
            shard,
            group,
            retention_ms=self._settings.offsets_retention_minutes * 60_000,
            now_ms=now_ms,
            topic_partitions=topic_partitions,
        )


def _hidden_tombstones(
    shard: GroupShard, group_partitions: Sequence[tuple[str, TopicPartition]]
) -> list[GroupRecord]:
    """Tombstones of those positions that are still of a deleted topic."""
    return [
        OffsetDeleted(group_id=group_id, topic_partition=topic_partition)
        for group_id, topic_partition in group_partitions
        if shard.offsets.is_of_deleted_topic(group_id, topic_partition)
    ]


async def _release_in_slices(groups_left: list[Group], pace: Pace) -> None:
    """Outlive a shard that is given up: its groups go with the last reference, which is here."""
    await pace.yield_turn()
    while groups_left:
        groups_left.pop()
        if pace.has_done(1):
            await pace.yield_turn()
