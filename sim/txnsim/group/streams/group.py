"""A streams group (KIP-1071): members, epochs, target assignment, topology.

State in the log changes through ``apply`` with records, both in operation and when loading.
Counterpart in Kafka: StreamsGroup, StreamsGroupMember, GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from copy import copy
from typing import Final, assert_never

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer_group import LEFT_EPOCH, NO_MEMBER_WITH_EPOCH, OFFSET_COMMIT_WITH_EPOCHS
from txnsim.group.consumer_records import TopicIdPartition
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets
from txnsim.group.state import ExpiryBase, GroupType, expiry_from_commit
from txnsim.group.streams._java_order import LEAST_SLOTS, slots_for, timeline_order
from txnsim.group.streams._records import (
    StreamsCurrentAssignmentDeleted,
    StreamsCurrentAssignmentStored,
    StreamsEpochDeleted,
    StreamsEpochStored,
    StreamsMemberDeleted,
    StreamsMemberStored,
    StreamsRecord,
    StreamsTargetDeleted,
    StreamsTargetEpochDeleted,
    StreamsTargetEpochStored,
    StreamsTargetStored,
    StreamsTopologyDeleted,
    StreamsTopologyStored,
)
from txnsim.group.streams.tasks import NOTHING_HELD, MemberTasks, StreamsMemberState, Task, Tasks
from txnsim.group.streams.topology import ConfiguredTopology, Topology, build_topology


class StreamsGroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member: a thread of a Kafka Streams application. Its maps are never changed in place."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = {}
    assigned: MemberTasks = NOTHING_HELD
    pending_revocation: MemberTasks = NOTHING_HELD

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has reached its target of the epoch."""
        return self.state is StreamsMemberState.STABLE and self.member_epoch == assignment_epoch


class TaskOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of changelog offsets that a member has reported."""

    offsets: Mapping[Task, int] = {}
    end_offsets: Mapping[Task, int] = {}


NO_OFFSETS: Final = TaskOffsets()


class RefinedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The target assignment as it was when its first member got it. It contains members that have
    left since. A member with the instance id of another one takes its place.
    """

    epoch: int
    tasks: Mapping[str, Tasks]
    """Tasks by member id."""

    def with_new_id(self, old_id: str, new_id: str) -> RefinedTarget:
        """The target with a new member id instead of an old one."""
        if old_id not in self.tasks:
            return self
        other_tasks = {
            member_id: tasks for member_id, tasks in self.tasks.items() if member_id != old_id
        }
        return RefinedTarget(epoch=self.epoch, tasks={**other_tasks, new_id: self.tasks[old_id]})


class UnrecordedState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a group that is in no record: a coordinator that loads begins without it."""

    configured_topology: ConfiguredTopology | None = None
    refreshed_version: int = -1
    """Metadata offset at which the topology was last compared with the topics."""
    task_offsets: Mapping[str, TaskOffsets] = {}
    """Task offsets by member id."""
    shutdown_by: str | None = None
    """The member that has asked all members to shut down."""
    refined: RefinedTarget | None = None
    """The last target, to which members move."""
    endpoints_epoch: int = 0
    """Raised when a member's endpoint, or the tasks behind one, change."""


class StreamsGroup:
    """A group whose members run the tasks of an application."""

    type: Final = GroupType.STREAMS
    protocol_type_or_empty: Final = "streams"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.validated_topology_epoch = -1
        self.assignment_configs: tuple[tuple[str, str], ...] = ()
        self.stored_description_topology_epoch = -1
        self.failed_description_topology_epoch = -1
        self.assignment_epoch = 1
        self.assigned_at_ms = 0
        """When the last target assignment was computed; 0 if none counts."""
        self.topology: Topology | None = None
        self.members: dict[str, StreamsGroupMember] = {}
        self._slot_count = LEAST_SLOTS
        """Number of slots of Kafka's table of members, which never shrinks; it determines their
        order.
        """
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Tasks] = {}
        self.memory = UnrecordedState()

    @property
    def state_name(self) -> str:
        """The state's name on the wire, derived from the epochs."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        is_settled = all(
            member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()
        )
        return "Stable" if is_settled else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def topology_epoch(self) -> int:
        """Epoch of the topology; -1 for a group without a topology."""
        return -1 if self.topology is None else self.topology.epoch

    def members_in_order(self) -> list[StreamsGroupMember]:
        """Members in the order in which a real broker lists them."""
        return [
            self.members[member_id] for member_id in timeline_order(self.members, self._slot_count)
        ]

    # Requests of other groups

    def check_offset_commit(self, command: CommitOffsets) -> Rejection | None:
        """StreamsGroup.validateOffsetCommit. A member at an older epoch may commit only for tasks
        that it has had since then.
        """
        generation, member_id = command.generation, command.member_id
        if generation < 0 and not self.members:
            return None
        has_no_member = generation == -1 and not member_id and command.group_instance_id is None
        if command.is_transactional and has_no_member:
            return None
        member = self.members.get(member_id)
        if member is None:
            return self.unknown_member(member_id)
        if not command.is_transactional and command.api_version < OFFSET_COMMIT_WITH_EPOCHS:
            return Rejection(
                error=ErrorCode.unsupported_version,
                reason="OffsetCommit version 9 or above must be used by members using the "
                "streams group protocol",
            )
        if generation == member.member_epoch:
            return None
        if generation > member.member_epoch:
            return _stale_epoch(
                f"Received member epoch {generation} is newer than current member epoch "
                f"{member.member_epoch}."
            )
        for position in command.positions:
            topic_partition = position.topic_partition
            refusal = self._check_commit_epoch(
                member, generation, topic_partition.topic, topic_partition.partition
            )
            if refusal is not None:
                return refusal
        return None

    def _check_commit_epoch(
        self, member: StreamsGroupMember, generation: int, topic: str, partition_index: int
    ) -> Rejection | None:
        """The error if a member at an older epoch may not commit there."""
        if self.topology is None:
            return _stale_epoch("Topology is not available for offset commit validation.")
        subtopology = self.topology.reader_of(topic)
        if subtopology is None:
            return _stale_epoch(f"Topic {topic} is not in the topology.")
        task, task_text = (subtopology, partition_index), f"{subtopology}-{partition_index}"
        since_epoch = member.assigned.active.get(task, member.pending_revocation.active.get(task))
        if since_epoch is None:
            return _stale_epoch(
                f"Task {task_text} is not assigned or pending revocation for member."
            )
        if generation < since_epoch:
            return _stale_epoch(
                f"Received member epoch {generation} is older than assignment epoch {since_epoch} "
                f"for task {task_text}."
            )
        return None

    def check_position(
        self,
        command: CommitOffsets,  # noqa: ARG002 - all positions are checked together
        partition: TopicIdPartition,  # noqa: ARG002 - the same
    ) -> Rejection | None:
        """None: ``check_offset_commit`` has checked every position."""
        return None

    def check_offset_fetch(self, command: FetchOffsets) -> Rejection | None:
        """The error if this member may not fetch offsets (StreamsGroup.validateOffsetFetch)."""
        member_id, member_epoch = command.member_id, command.member_epoch
        if member_id is None:
            return None if member_epoch < 0 else NO_MEMBER_WITH_EPOCH
        member = self.members.get(member_id)
        if member is None:
            return self.unknown_member(member_id)
        if member.member_epoch == member_epoch:
            return None
        return _stale_epoch(
            f"The received member epoch {member_epoch} does not match the expected member epoch "
            f"{member.member_epoch}."
        )

    def check_offset_delete(self) -> Rejection | None:
        """None: the topology is known, so that is decided topic by topic."""
        return None

    def check_delete(self) -> Rejection | None:
        """The error if the group can't be deleted (StreamsGroup.validateDeleteGroup)."""
        if not self.members:
            return None
        return Rejection(error=ErrorCode.non_empty_group, reason="The group is not empty.")

    def has_subscriber(self, topic: str) -> bool:
        """Whether a member may read the topic."""
        topology = self.topology
        return bool(self.members) and topology is not None and topology.reader_of(topic) is not None

    def offsets_expire_from(self) -> ExpiryBase | None:
        """Positions of topics that the application does not read expire, counted from their
        commit.
        """
        return expiry_from_commit

    def tombstones(self) -> tuple[StreamsRecord, ...]:
        """All tombstones in deletion order (StreamsGroup.createGroupTombstoneRecords)."""
        group_id = self.group_id
        member_ids = tuple(self.members)
        return (
            *(
                StreamsCurrentAssignmentDeleted(group_id=group_id, member_id=member_id)
                for member_id in member_ids
            ),
            *(
                StreamsTargetDeleted(group_id=group_id, member_id=member_id)
                for member_id in member_ids
            ),
            StreamsTargetEpochDeleted(group_id=group_id),
            *(
                StreamsMemberDeleted(group_id=group_id, member_id=member_id)
                for member_id in member_ids
            ),
            StreamsEpochDeleted(group_id=group_id),
            StreamsTopologyDeleted(group_id=group_id),
        )

    def unknown_member(self, member_id: str) -> Rejection:
        return Rejection(
            error=ErrorCode.unknown_member_id,
            reason=f"Member {member_id} is not a member of group {self.group_id}.",
        )

    # Members

    def static_member(self, instance_id: str | None) -> StreamsGroupMember | None:
        member_id = self.static_members.get(instance_id or "")
        return None if member_id is None else self.members.get(member_id)

    def with_records(
        self, records: Iterable[StreamsRecord], *, unrecorded_state: UnrecordedState | None = None
    ) -> Generator[int, None, StreamsGroup]:
        """A copy of the group with the records applied; yields after each.

        Args:
            records: Records that will be in the log.
            unrecorded_state: The in-memory state by then; None for the current one.
        """
        changed_group = copy(self)
        changed_group.members = dict(self.members)
        changed_group.static_members = dict(self.static_members)
        changed_group.target = dict(self.target)
        changed_group.memory = unrecorded_state or self.memory
        for record in records:
            changed_group.apply(record)
            yield 1
        return changed_group

    def adopt(self, changed_group: StreamsGroup) -> None:
        """Take over the state of ``changed_group``, because its records are in the log and no
        others since.
        """
        vars(self).update(vars(changed_group))

    # Replay

    def apply(self, record: StreamsRecord) -> None:
        """Apply a record that is in the log."""
        match record:
            case StreamsMemberStored():
                self._update_member(
                    _with_description(self._member_or_new(record.member_id), record)
                )
            case StreamsMemberDeleted():
                self._remove_member(record.member_id)
            case StreamsEpochStored():
                self.epoch, self.metadata_hash = record.group_epoch, record.metadata_hash
                self.validated_topology_epoch = record.validated_topology_epoch
                self.assignment_configs = record.assignment_configs or ()
                self.stored_description_topology_epoch = record.stored_description_topology_epoch
                self.failed_description_topology_epoch = record.failed_description_topology_epoch
            case StreamsTargetEpochStored():
                self.assignment_epoch = record.assignment_epoch
                self.assigned_at_ms = record.timestamp_ms
            case StreamsTargetEpochDeleted():
                self.assignment_epoch, self.assigned_at_ms = -1, 0
            case StreamsTargetStored():
                self.target[record.member_id] = Tasks(
                    active=frozenset(record.active),
                    standby=frozenset(record.standby),
                    warmup=frozenset(record.warmup),
                )
            case StreamsTargetDeleted():
                self.target.pop(record.member_id, None)
            case StreamsCurrentAssignmentStored():
                self._update_member(_with_assignment(self._member_or_new(record.member_id), record))
            case StreamsCurrentAssignmentDeleted():
                if record.member_id in self.members:
                    self._update_member(_without_assignment(self.members[record.member_id]))
            case StreamsTopologyStored():
                topology = build_topology(record.topology_epoch, record.subtopologies)
                self.topology = None if isinstance(topology, Rejection) else topology
            case StreamsTopologyDeleted():
                self.topology = None
            case StreamsEpochDeleted():
                pass  # the shard lets go of the group
            case _:
                assert_never(record)

    def _member_or_new(self, member_id: str) -> StreamsGroupMember:
        return self.members.get(member_id) or StreamsGroupMember(member_id=member_id)

    def _update_member(self, member: StreamsGroupMember) -> None:
        self._slot_count = slots_for(len(self.members), self._slot_count)
        old_member = self.members.get(member.member_id)
        if old_member is not None and old_member.instance_id is not None:
            self.static_members.pop(old_member.instance_id, None)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        unrecorded_state = self.memory
        remaining_offsets = {
            other_id: member_offsets
            for other_id, member_offsets in unrecorded_state.task_offsets.items()
            if other_id != member_id
        }
        self.memory = msgspec.structs.replace(
            unrecorded_state,
            task_offsets=remaining_offsets,
            shutdown_by=unrecorded_state.shutdown_by if self.members else None,
        )


def _stale_epoch(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.stale_member_epoch, reason=reason)


def _with_description(
    member: StreamsGroupMember, record: StreamsMemberStored
) -> StreamsGroupMember:
    return msgspec.structs.replace(
        member,
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        topology_epoch=record.topology_epoch,
        process_id=record.process_id,
        endpoint=record.endpoint,
        client_tags=dict(record.client_tags),
    )


def _with_assignment(
    member: StreamsGroupMember, record: StreamsCurrentAssignmentStored
) -> StreamsGroupMember:
    is_known_state = record.state in StreamsMemberState.__members__.values()

    return msgspec.structs.replace(
        member,
        member_epoch=record.member_epoch,
        previous_member_epoch=record.previous_member_epoch,
        state=StreamsMemberState(record.state) if is_known_state else StreamsMemberState.UNKNOWN,
        assigned=MemberTasks(
            active={
                (subtopology_id, index): epoch for subtopology_id, index, epoch in record.active
            },
            standby=frozenset(record.standby),
            warmup=frozenset(record.warmup),
        ),
        pending_revocation=MemberTasks(
            active={
                (subtopology_id, index): epoch
                for subtopology_id, index, epoch in record.active_revoked
            },
            standby=frozenset(record.standby_revoked),
            warmup=frozenset(record.warmup_revoked),
        ),
    )


def _without_assignment(member: StreamsGroupMember) -> StreamsGroupMember:
    """A leaving member between the tombstones of its assignment and of itself."""
    return msgspec.structs.replace(
        member,
        member_epoch=LEFT_EPOCH,
        previous_member_epoch=LEFT_EPOCH,
        assigned=NOTHING_HELD,
        pending_revocation=NOTHING_HELD,
    )
