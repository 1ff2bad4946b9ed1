"""Streams groups: decisions on heartbeats, sessions and the first assignment (KIP-1071). Pure.

Members use the heartbeat to join, send the topology, report tasks, get their assignment, and leave.
A decision is a list of records; the group changes once they are in the log. State that Kafka keeps
only in memory changes at once.

Counterpart in Kafka: the streams half of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import assert_never

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group._topics_hash import topics_hash
from txnsim.group.commands import (
    TimerCancelled,
    TimerKind,
    TimerSet,
    session_timer,
    unexpected_timer,
)
from txnsim.group.consumer_group import LEFT_FOR_A_WHILE_EPOCH
from txnsim.group.streams._java_order import java_order
from txnsim.group.streams._members import (
    check_heartbeat,
    current_assignment_record,
    member_of,
    member_record,
    member_tombstones,
    sender_of,
    target_record,
    update_member,
)
from txnsim.group.streams._reconciliation import TaskTarget, holders_of, reconcile
from txnsim.group.streams._records import (
    StreamsEpochStored,
    StreamsRecord,
    StreamsTargetEpochStored,
    StreamsTopologyStored,
)
from txnsim.group.streams.assignor import AssignedSubtopology, Candidate, assign_sticky
from txnsim.group.streams.commands import (
    CLIENT_TAGS_FROM,
    EndpointPartitions,
    StreamsHeartbeat,
    StreamsOutcome,
    StreamsReply,
)
from txnsim.group.streams.group import (
    NO_OFFSETS,
    RefinedTarget,
    StreamsGroup,
    StreamsGroupMember,
    TaskOffsets,
    UnrecordedState,
)
from txnsim.group.streams.tasks import (
    NO_TASKS,
    NOTHING_HELD,
    StreamsMemberState,
    Task,
    Tasks,
    by_subtopology,
)
from txnsim.group.streams.topology import (
    ConfiguredTopology,
    StatusMessage,
    Topology,
    TopologyStatus,
    build_topology,
    configure,
)
from txnsim.metadata.group_configs import RACK_TAGS, STANDBYS, AssignorConfigs, StreamsConfigs
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST_RULES, Rules


class StreamsProtocol(msgspec.Struct, kw_only=True, eq=False):
    """The rules of streams groups; the caller keeps the groups."""

    max_size: int
    configs_of: Callable[[str], StreamsConfigs]
    """Group id -> the group's configs."""
    release_rules: Rules = LATEST_RULES

    # Heartbeat

    def check(self, command: StreamsHeartbeat) -> Rejection | None:
        """Errors of a heartbeat that don't depend on the group."""
        return check_heartbeat(command, self.release_rules)

    def heartbeat(
        self,
        group: StreamsGroup,
        command: StreamsHeartbeat,
        *,
        image: ClusterImage,
        now_ms: int,
        is_delayed: bool = False,
        is_known: bool = True,
    ) -> Generator[int, None, StreamsOutcome | Rejection]:
        """Decide on a heartbeat that joins or stays; yields during large assignments.

        Args:
            group: The member's group.
            command: The heartbeat.
            image: The broker's metadata.
            now_ms: The cluster's time.
            is_delayed: Whether the first assignment still waits for more members.
            is_known: False for a new group.
        """
        if self._is_full(group, command):
            return Rejection(
                error=ErrorCode.group_max_size_reached,
                reason="The streams group has reached its maximum capacity of "
                f"{self.max_size} members.",
            )
        records: list[StreamsRecord] = []
        unrecorded_state = _with_other_sender(group, command)
        member = member_of(group, command, records)
        if isinstance(member, Rejection):
            return StreamsOutcome(refusal=member, memory=unrecorded_state)
        is_delayed = is_delayed or self.begins_delay(group)
        if records:  # a static member has begun a new life: go on with the group as it is then
            group = yield from group.with_records(records)
        heartbeat_decision = _Heartbeat(
            self, group, unrecorded_state, command, image, now_ms, records, is_delayed=is_delayed
        )
        outcome = yield from heartbeat_decision.decide(member, is_known=is_known)
        return heartbeat_decision.fail(outcome) if isinstance(outcome, Rejection) else outcome

    def begins_delay(self, group: StreamsGroup) -> bool:
        """Whether the first assignment of an empty group has to wait for more members."""
        return group.is_empty and self.configs_of(group.group_id).initial_delay_ms > 0

    def _is_full(self, group: StreamsGroup, command: StreamsHeartbeat) -> bool:
        if command.member_epoch != 0 or command.instance_id in group.static_members:
            return False
        return len(group.members) >= self.max_size and command.member_id not in group.members

    def compute_target(
        self,
        group: StreamsGroup,
        member_by_id: Mapping[str, StreamsGroupMember],
        configured_topology: ConfiguredTopology,
        offsets: Mapping[str, TaskOffsets],
        *,
        epoch: int,
        configs: AssignorConfigs,
        now_ms: int,
    ) -> Generator[int, None, tuple[list[StreamsRecord], dict[str, Tasks]]]:
        """Compute a new target assignment; returns the records to write, and the tasks of each
        member.
        """
        tasks_by_member: dict[str, Tasks] = dict.fromkeys(member_by_id, NO_TASKS)
        if configured_topology.is_ready and configured_topology.subtopologies is not None:
            candidate_by_member: dict[str, Candidate] = {}
            for member_id, member in member_by_id.items():
                candidate_by_member[member_id] = Candidate(
                    process_id=member.process_id,
                    active=frozenset(member.assigned.active),
                    standby=member.assigned.standby,
                    offsets=offsets.get(member_id, NO_OFFSETS).offsets,
                )
                yield 1
            subtopologies = {
                subtopology_id: AssignedSubtopology(
                    task_count=configured_topology.tasks[subtopology_id],
                    is_stateful=bool(subtopology.state_changelog_topics),
                )
                for subtopology_id, subtopology in configured_topology.subtopologies.items()
            }
            standby_count = int(dict(configs).get(STANDBYS, "0"))
            tasks_by_member |= yield from assign_sticky(
                candidate_by_member, subtopologies, standby_count=standby_count
            )
        records: list[StreamsRecord] = []
        ordered_ids = java_order(member_by_id)
        yield len(ordered_ids)
        for member_id in ordered_ids:
            tasks = tasks_by_member[member_id]
            if group.target.get(member_id) != tasks:
                records.append(target_record(group.group_id, member_id, tasks))
                yield 1 + len(tasks.active)
        records.append(
            StreamsTargetEpochStored(
                group_id=group.group_id, assignment_epoch=epoch, timestamp_ms=now_ms
            )
        )
        return records, tasks_by_member

    def may_assign(self, group: StreamsGroup, now_ms: int) -> bool:
        """Whether the last assignment is old enough for another one."""
        interval_ms = self.configs_of(group.group_id).intervals.assignment_interval_ms
        if group.assigned_at_ms == 0 or interval_ms == 0:
            return True
        return now_ms >= group.assigned_at_ms + interval_ms

    def end_delay(
        self, group: StreamsGroup, *, now_ms: int
    ) -> Generator[int, None, StreamsOutcome]:
        """Make the first assignment after its delay. If all members have left, or the topology has
        not been compared with the topics yet, the next heartbeat does it. Yield during large
        assignments.
        """
        configured_topology = group.memory.configured_topology
        is_due = group.members and group.epoch > group.assignment_epoch
        if not is_due or configured_topology is None or not self.may_assign(group, now_ms):
            return StreamsOutcome()
        records, _ = yield from self.compute_target(
            group,
            {member.member_id: member for member in group.members_in_order()},
            configured_topology,
            group.memory.task_offsets,
            epoch=group.epoch,
            configs=group.assignment_configs,
            now_ms=now_ms,
        )
        return StreamsOutcome(records=tuple(records))

    # Leaving

    def leave(self, group: StreamsGroup, command: StreamsHeartbeat) -> StreamsOutcome | Rejection:
        """Remove a member that leaves, for good or for a while."""
        member = sender_of(group, command.member_id, command.instance_id)
        if isinstance(member, Rejection):
            return member
        unrecorded_state = _note_shutdown(group.memory, command)
        reply = StreamsReply(member_id=command.member_id, member_epoch=command.member_epoch)
        if command.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
            return msgspec.structs.replace(
                self.remove_member(group, member, reply), memory=unrecorded_state
            )
        absent_member = msgspec.structs.replace(
            member,
            member_epoch=LEFT_FOR_A_WHILE_EPOCH,
            assigned=msgspec.structs.replace(
                member.assigned, active=dict.fromkeys(member.assigned.active, 0)
            ),
            pending_revocation=NOTHING_HELD,
        )
        records = (current_assignment_record(group.group_id, absent_member),)
        return StreamsOutcome(records=records, reply=reply, memory=unrecorded_state)

    def remove_late_member(self, group: StreamsGroup, timer: TimerSet) -> StreamsOutcome:
        """Remove a member whose session has expired, or that did not revoke in time (if it is still
        at the timer's epoch).
        """
        member = group.members.get(timer.member_id)
        match timer.kind:
            case TimerKind.REVOCATION:
                is_late = member is not None and member.member_epoch == timer.generation
            case TimerKind.HEARTBEAT:
                is_late = True
            case TimerKind.ASSIGNMENT | TimerKind.JOIN | TimerKind.SYNC:
                raise unexpected_timer(timer, "streams")
            case _:
                assert_never(timer.kind)
        if member is None or not is_late:
            return StreamsOutcome()
        return self.remove_member(group, member, None)

    def remove_member(
        self, group: StreamsGroup, member: StreamsGroupMember, reply: StreamsReply | None
    ) -> StreamsOutcome:
        group_id, epoch = group.group_id, group.epoch + 1
        records = [
            *member_tombstones(group_id, member.member_id),
            epoch_record(group, epoch),
        ]
        if len(group.members) == 1:
            records.append(
                StreamsTargetEpochStored(group_id=group_id, assignment_epoch=epoch, timestamp_ms=0)
            )
        effects = tuple(
            TimerCancelled(kind=kind, group_id=group_id, member_id=member.member_id)
            for kind in (TimerKind.HEARTBEAT, TimerKind.REVOCATION)
        )
        return StreamsOutcome(records=tuple(records), reply=reply, effects=effects)

    # Timers

    def timers_after_load(self, group: StreamsGroup) -> Iterator[TimerSet]:
        """Timers of members that a new coordinator loads from the log."""
        for member in group.members.values():
            yield self.session_timer(group.group_id, member.member_id)
            if member.state is StreamsMemberState.UNREVOKED_TASKS:
                yield revocation_timer(group.group_id, member)

    def session_timer(self, group_id: str, member_id: str) -> TimerSet:
        """Start a member's session."""
        timeout_ms = self.configs_of(group_id).intervals.session_timeout_ms
        return session_timer(group_id, member_id, timeout_ms)


def revocation_timer(group_id: str, member: StreamsGroupMember) -> TimerSet:
    """The timer for a member that has to revoke tasks within its rebalance timeout."""
    return TimerSet(
        kind=TimerKind.REVOCATION,
        group_id=group_id,
        member_id=member.member_id,
        delay_ms=member.rebalance_timeout_ms,
        generation=member.member_epoch,
    )


def epoch_record(
    group: StreamsGroup,
    epoch: int,
    *,
    metadata_hash: int | None = None,
    validated_epoch: int | None = None,
    configs: tuple[tuple[str, str], ...] | None = None,
) -> StreamsEpochStored:
    """The group's epoch record; arguments that are None repeat the last record."""
    return StreamsEpochStored(
        group_id=group.group_id,
        group_epoch=epoch,
        metadata_hash=group.metadata_hash if metadata_hash is None else metadata_hash,
        validated_topology_epoch=group.validated_topology_epoch
        if validated_epoch is None
        else validated_epoch,
        assignment_configs=group.assignment_configs if configs is None else configs,
        stored_description_topology_epoch=group.stored_description_topology_epoch,
        failed_description_topology_epoch=group.failed_description_topology_epoch,
    )


def _note_shutdown(unrecorded_state: UnrecordedState, command: StreamsHeartbeat) -> UnrecordedState:
    """Remember the first member requesting a shutdown."""
    if not command.shutdown or unrecorded_state.shutdown_by is not None:
        return unrecorded_state
    return msgspec.structs.replace(unrecorded_state, shutdown_by=command.member_id)


def _with_other_sender(group: StreamsGroup, command: StreamsHeartbeat) -> UnrecordedState:
    """Give the place of another member with the same instance id, in the refined target, to the
    sender, even if it is refused afterwards. As with a real broker its member then gets no tasks
    until another heartbeat notices that.
    """
    unrecorded_state, instance_id = group.memory, command.instance_id
    static_member = None if instance_id is None else group.static_member(instance_id)
    if (
        static_member is None
        or static_member.member_id == command.member_id
        or unrecorded_state.refined is None
    ):
        return unrecorded_state
    refined_target = unrecorded_state.refined.with_new_id(
        static_member.member_id, command.member_id
    )
    return msgspec.structs.replace(unrecorded_state, refined=refined_target)


class _Heartbeat:
    """One heartbeat of a member that joins or stays."""

    def __init__(
        self,
        protocol: StreamsProtocol,
        group: StreamsGroup,
        unrecorded_state: UnrecordedState,
        command: StreamsHeartbeat,
        image: ClusterImage,
        now_ms: int,
        records: list[StreamsRecord],
        *,
        is_delayed: bool,
    ) -> None:
        self._protocol, self._group, self._command = protocol, group, command
        self._image, self._now_ms = image, now_ms
        self._is_delayed = is_delayed
        self._records = records
        self._configs = protocol.configs_of(group.group_id)
        self._statuses: list[StatusMessage] = []
        self._memory = unrecorded_state
        self._effects: list[TimerSet | TimerCancelled] = []

    def _change_memory(self, **changes: object) -> None:
        self._memory = msgspec.structs.replace(self._memory, **changes)

    def decide(
        self, member: StreamsGroupMember, *, is_known: bool
    ) -> Generator[int, None, StreamsOutcome | Rejection]:
        """Decide on the heartbeat: records, reply, timers.

        Args:
            member: The sender before this heartbeat.
            is_known: False if this heartbeat creates the group.
        """
        group, command = self._group, self._command
        group_id = group.group_id
        updated_member = update_member(member, command)
        bumps_epoch = self._store_member(member, updated_member)
        topology = self._checked_topology()
        if isinstance(topology, Rejection):
            return topology
        self._report_stale_topology(updated_member)
        configured_with_hash = self._configure_topology(topology)
        if isinstance(configured_with_hash, Rejection):
            return configured_with_hash
        configured_topology, metadata_hash = configured_with_hash
        validated_epoch = topology.epoch if configured_topology.is_ready else -1
        refusal = self._check_tasks(configured_topology) if configured_topology.is_ready else None
        refusal = refusal or self._keep_offsets()
        if refusal is not None:
            return refusal
        bumps_epoch = bumps_epoch or self._inputs_changed(metadata_hash, validated_epoch)
        target_to_refine = None if bumps_epoch else self._target_to_refine()
        refines_target = target_to_refine is not None and target_to_refine.get(
            updated_member.member_id, NO_TASKS
        ) != (updated_member.assigned.tasks)
        epoch = self._raise_epoch(
            metadata_hash, validated_epoch, bumps_epoch=bumps_epoch or refines_target
        )
        if self._protocol.begins_delay(group):
            self._effects.append(
                TimerSet(
                    kind=TimerKind.ASSIGNMENT,
                    group_id=group_id,
                    delay_ms=self._configs.initial_delay_ms,
                    keeps_first=True,
                )
            )
        assigned_epoch, target_tasks = yield from self._due_target(
            updated_member, configured_topology, epoch, refines_target=refines_target
        )
        tasks = self._refine_target(assigned_epoch, target_tasks, target_to_refine).get(
            updated_member.member_id, NO_TASKS
        )
        yield len(target_tasks)
        reconciled_member = self._reconcile(updated_member, assigned_epoch, tasks)
        if isinstance(reconciled_member, Rejection):
            return reconciled_member
        if reconciled_member != updated_member:
            self._records.append(current_assignment_record(group_id, reconciled_member))
            self._effects.append(_revocation_timer(group_id, reconciled_member))
        self._effects.append(self._protocol.session_timer(group_id, reconciled_member.member_id))
        self._memory = _note_shutdown(self._memory, command)
        reply = self._reply(member, reconciled_member, configured_topology, is_known=is_known)
        if isinstance(reply, Rejection):
            return reply
        return StreamsOutcome(
            records=tuple(self._records),
            reply=reply,
            effects=tuple(self._effects),
            memory=self._memory,
            is_rebalance=epoch > group.epoch,
        )

    def fail(self, refusal: Rejection) -> StreamsOutcome:
        """Refuse the heartbeat: nothing is written. In-memory changes so far stay, as in Kafka,
        except the configured topology: readers see the one as of the last record.
        """
        unrecorded_state_before = self._group.memory
        unrecorded_state = msgspec.structs.replace(
            self._memory,
            configured_topology=unrecorded_state_before.configured_topology,
            refreshed_version=unrecorded_state_before.refreshed_version,
        )
        return StreamsOutcome(
            refusal=refusal, effects=tuple(self._effects), memory=unrecorded_state
        )

    # Steps

    def _store_member(self, member: StreamsGroupMember, updated_member: StreamsGroupMember) -> bool:
        """Write a member that has changed; returns whether that requires another assignment."""
        if updated_member == member:
            return False
        self._records.append(member_record(self._group.group_id, updated_member))
        if self._command.instance_id is None:
            return True
        return any(
            getattr(updated_member, field_name) != getattr(member, field_name)
            for field_name in ("topology_epoch", "rack_id", "client_tags", "process_id")
        )

    def _checked_topology(self) -> Topology | Rejection:
        """The group's topology; the first member's becomes it."""
        group_topology, sent_epoch_and_subtopologies = self._group.topology, self._command.topology
        if sent_epoch_and_subtopologies is None:
            assert group_topology is not None, "a group has a topology from its first member on"
            return group_topology
        epoch, subtopologies = sent_epoch_and_subtopologies
        new_topology = build_topology(epoch, subtopologies)
        if isinstance(new_topology, Rejection):
            return new_topology
        if group_topology is None:
            self._records.append(
                StreamsTopologyStored(
                    group_id=self._group.group_id, topology_epoch=epoch, subtopologies=subtopologies
                )
            )
            return new_topology
        if group_topology.epoch > epoch or group_topology == new_topology:
            return group_topology
        return Rejection(
            error=ErrorCode.invalid_request, reason="Topology updates are not supported yet."
        )

    def _report_stale_topology(self, member: StreamsGroupMember) -> None:
        topology = self._group.topology
        if topology is not None and member.topology_epoch < topology.epoch:
            status_text = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's "
                f"topology epoch {topology.epoch}."
            )
            self._statuses.append((TopologyStatus.STALE_TOPOLOGY, status_text))

    def _configure_topology(self, topology: Topology) -> tuple[ConfiguredTopology, int] | Rejection:
        """The topology configured for the image's topics, and the metadata hash."""
        group, unrecorded_state = self._group, self._memory
        metadata_hash = group.metadata_hash
        is_due = group.topology is None
        if (
            is_due
            or unrecorded_state.configured_topology is None
            or unrecorded_state.refreshed_version != self._image.offset
        ):
            metadata_hash = topics_hash(topology.required_topics(), self._image)
            is_due = is_due or metadata_hash != group.metadata_hash
        if not is_due and unrecorded_state.configured_topology is not None:
            return unrecorded_state.configured_topology, metadata_hash
        configured_topology = configure(topology, self._image)
        if isinstance(configured_topology, Rejection):
            return configured_topology
        self._change_memory(configured_topology=configured_topology)
        return configured_topology, metadata_hash

    def _inputs_changed(self, metadata_hash: int, validated_epoch: int) -> bool:
        """Whether topics, topology or configs have changed."""
        group = self._group
        return (
            metadata_hash != group.metadata_hash
            or validated_epoch != group.validated_topology_epoch
            or self._configs.assignor != group.assignment_configs
        )

    def _target_to_refine(self) -> Mapping[str, Tasks] | None:
        """The target of a stable group, if it has to be refined again."""
        return self._group.target if self._group.state_name == "Stable" else None

    def _raise_epoch(self, metadata_hash: int, validated_epoch: int, *, bumps_epoch: bool) -> int:
        """The group's epoch, raised if another assignment is needed."""
        group, configs = self._group, self._configs.assignor
        if not bumps_epoch:
            self._change_memory(refreshed_version=self._image.offset)
            return group.epoch
        epoch = group.epoch + 1
        self._records.append(
            epoch_record(
                group,
                epoch,
                metadata_hash=metadata_hash,
                validated_epoch=validated_epoch,
                configs=configs,
            )
        )
        return epoch

    def _check_tasks(self, configured_topology: ConfiguredTopology) -> Rejection | None:
        """The error if the member reports tasks that can't exist."""
        command = self._command
        for tasks in (command.active, command.standby, command.warmup):
            for subtopology_id, index in sorted(tasks or ()):
                task_count = configured_topology.tasks.get(subtopology_id)
                if task_count is None:
                    return _invalid_request(
                        f"Subtopology {subtopology_id} does not exist in the topology."
                    )
                if not 0 <= index < task_count:
                    return _invalid_request(
                        f"Task {index} for subtopology {subtopology_id} is invalid. Number of "
                        f"tasks for this subtopology: {task_count}"
                    )
        return None

    def _keep_offsets(self) -> Rejection | None:
        command, member_id = self._command, self._command.member_id
        if command.task_offsets is None and command.task_end_offsets is None:
            return None
        old_offsets = self._memory.task_offsets.get(member_id, NO_OFFSETS)
        offsets = _offsets_by_task(command.task_offsets, old_offsets.offsets)
        if isinstance(offsets, Rejection):
            return offsets
        end_offsets = _offsets_by_task(command.task_end_offsets, old_offsets.end_offsets)
        if isinstance(end_offsets, Rejection):
            return end_offsets
        new_offsets = TaskOffsets(offsets=offsets, end_offsets=end_offsets)
        self._change_memory(task_offsets={**self._memory.task_offsets, member_id: new_offsets})
        return None

    def _due_target(
        self,
        updated_member: StreamsGroupMember,
        configured_topology: ConfiguredTopology,
        epoch: int,
        *,
        refines_target: bool,
    ) -> Generator[int, None, tuple[int, Mapping[str, Tasks]]]:
        """The target and its epoch; a new one if it is due."""
        group, member_id = self._group, updated_member.member_id
        if self._is_delayed:
            self._report_delay("initial rebalance delay")
            return group.assignment_epoch, {}
        if group.assignment_epoch >= epoch:
            return group.assignment_epoch, group.target
        if refines_target and group.assignment_epoch >= group.epoch:
            self._records.append(
                StreamsTargetEpochStored(
                    group_id=group.group_id,
                    assignment_epoch=epoch,
                    timestamp_ms=group.assigned_at_ms,
                )
            )
            return epoch, group.target
        if not self._protocol.may_assign(group, self._now_ms):
            self._report_delay("assignment interval")
            return group.assignment_epoch, group.target
        records, tasks_by_member = yield from self._protocol.compute_target(
            group,
            {
                **{member.member_id: member for member in group.members_in_order()},
                member_id: updated_member,
            },
            configured_topology,
            self._memory.task_offsets,
            epoch=epoch,
            configs=self._configs.assignor,
            now_ms=self._now_ms,
        )
        self._records += records
        return epoch, tasks_by_member

    def _refine_target(
        self,
        epoch: int,
        tasks_by_member: Mapping[str, Tasks],
        target_to_refine: Mapping[str, Tasks] | None,
    ) -> Mapping[str, Tasks]:
        """The target that members move to; for a known epoch the one that was computed first."""
        refined_target = self._memory.refined
        if (
            target_to_refine is None
            and refined_target is not None
            and refined_target.epoch == epoch
        ):
            return refined_target.tasks
        refined_tasks = tasks_by_member if target_to_refine is None else target_to_refine
        if self._configs.warmup_tasks_max > 0:
            self._change_memory(refined=RefinedTarget(epoch=epoch, tasks=dict(refined_tasks)))
        return refined_tasks

    def _report_delay(self, cause: str) -> None:
        status_text = f"Assignment delayed due to the configured {cause}."
        self._statuses.append((TopologyStatus.ASSIGNMENT_DELAYED, status_text))

    def _reconcile(
        self, updated_member: StreamsGroupMember, assigned_epoch: int, tasks: Tasks
    ) -> StreamsGroupMember | Rejection:
        if updated_member.is_reconciled_to(assigned_epoch):
            return updated_member
        task_target = TaskTarget(
            assignment_epoch=assigned_epoch,
            tasks=tasks,
            owned_tasks=self._command.owned_tasks,
            holders=holders_of(self._group.members.values()),
            changes_in_place=self._protocol.release_rules.streams_tasks_change_in_place,
        )
        return reconcile(updated_member, task_target)

    # Answer

    def _reply(
        self,
        member: StreamsGroupMember,
        reconciled_member: StreamsGroupMember,
        configured_topology: ConfiguredTopology,
        *,
        is_known: bool,
    ) -> StreamsReply | Rejection:
        command = self._command
        has_changed = member.assigned != reconciled_member.assigned
        has_new_endpoint = member.endpoint != reconciled_member.endpoint
        if has_new_endpoint or (has_changed and reconciled_member.endpoint is not None):
            self._change_memory(endpoints_epoch=self._memory.endpoints_epoch + 1)
        endpoints: tuple[EndpointPartitions, ...] | None = None
        endpoints_epoch = self._memory.endpoints_epoch
        if endpoints_epoch != command.endpoints_epoch:
            endpoint_partitions = self._endpoints(reconciled_member, configured_topology)
            if isinstance(endpoint_partitions, Rejection):
                return endpoint_partitions
            endpoints = endpoint_partitions
        self._add_statuses(reconciled_member, configured_topology)
        intervals = self._configs.intervals
        return StreamsReply(
            member_id=reconciled_member.member_id,
            member_epoch=reconciled_member.member_epoch,
            heartbeat_interval_ms=intervals.heartbeat_interval_ms,
            task_offset_interval_ms=self._configs.task_offset_interval_ms
            if self._protocol.release_rules.streams_heartbeats_are_whole
            else 0,
            acceptable_recovery_lag=self._configs.acceptable_recovery_lag,
            statuses=tuple(self._statuses),
            tasks=reconciled_member.assigned.tasks
            if command.member_epoch == 0 or has_changed
            else None,
            endpoints_epoch=endpoints_epoch if is_known else 0,
            endpoints=endpoints,
            topics_to_make=configured_topology.missing,
        )

    def _add_statuses(
        self, member: StreamsGroupMember, configured_topology: ConfiguredTopology
    ) -> None:
        """Add the statuses that follow the status of the assignment."""
        if configured_topology.problem is not None:
            self._statuses.append(configured_topology.problem)
        requester_id = self._memory.shutdown_by
        if requester_id is not None:
            status_text = (
                f"Streams group member {requester_id} encountered a fatal error and requested a "
                "shutdown for the entire application."
            )
            self._statuses.append((TopologyStatus.SHUTDOWN_APPLICATION, status_text))
        required_tags = [
            tag.strip() for tag in dict(self._configs.assignor).get(RACK_TAGS, "").split(",")
        ]
        missing_tags = (
            [tag for tag in required_tags if tag not in member.client_tags]
            if required_tags != [""]
            else []
        )
        if missing_tags and self._command.api_version >= CLIENT_TAGS_FROM:
            status_text = (
                f"Missing required client tags for rack-aware standby assignment: "
                f"[{', '.join(missing_tags)}]. Configure them via 'client.tag.<tagKey>' in your "
                "Streams config."
            )
            self._statuses.append((TopologyStatus.MISSING_CLIENT_TAGS, status_text))

    def _endpoints(
        self, reconciled_member: StreamsGroupMember, configured_topology: ConfiguredTopology
    ) -> tuple[EndpointPartitions, ...] | Rejection:
        """The partitions that each endpoint serves, the sender's last."""
        endpoints: list[EndpointPartitions] = []
        for member in (*self._group.members_in_order(), reconciled_member):
            if member.endpoint is None or (
                member is not reconciled_member and member.member_id == reconciled_member.member_id
            ):
                continue
            # A real broker looks for what is not there.
            if configured_topology.subtopologies is None:
                return Rejection(error=ErrorCode.unknown_server_error, reason="No value present")
            endpoint_partitions = self._endpoint_partitions(member, configured_topology)
            if isinstance(endpoint_partitions, Rejection):
                return endpoint_partitions
            endpoints.append(endpoint_partitions)
        return tuple(endpoints)

    def _endpoint_partitions(
        self, member: StreamsGroupMember, configured_topology: ConfiguredTopology
    ) -> EndpointPartitions | Rejection:
        assigned_tasks = member.assigned
        active_partitions = self._source_partitions(assigned_tasks.active, configured_topology)
        if isinstance(active_partitions, Rejection):
            return active_partitions
        standby_partitions = self._source_partitions(
            assigned_tasks.standby | assigned_tasks.warmup, configured_topology
        )
        if isinstance(standby_partitions, Rejection):
            return standby_partitions
        assert member.endpoint is not None
        return EndpointPartitions(
            endpoint=member.endpoint, active=active_partitions, standby=standby_partitions
        )

    def _source_partitions(
        self, tasks: Iterable[Task], configured_topology: ConfiguredTopology
    ) -> tuple[tuple[str, tuple[int, ...]], ...] | Rejection:
        """Source partitions of tasks, by topic."""
        assert configured_topology.subtopologies is not None
        source_partitions: list[tuple[str, tuple[int, ...]]] = []
        for subtopology_id, indexes in by_subtopology(tasks):
            for topic in java_order(configured_topology.subtopologies[subtopology_id].sources):
                topic_image = self._image.topics.get(topic)
                if topic_image is None:
                    return Rejection(
                        error=ErrorCode.unknown_server_error,
                        reason=f"Topic {topic} not found in metadata image",
                    )
                existing_indexes = tuple(
                    index for index in indexes if index < len(topic_image.partitions)
                )
                if existing_indexes:
                    source_partitions.append((topic, existing_indexes))
        return tuple(source_partitions)


def _revocation_timer(group_id: str, member: StreamsGroupMember) -> TimerSet | TimerCancelled:
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        return revocation_timer(group_id, member)
    return TimerCancelled(kind=TimerKind.REVOCATION, group_id=group_id, member_id=member.member_id)


def _offsets_by_task(
    reported_offsets: tuple[tuple[Task, int], ...] | None, known_offsets: Mapping[Task, int]
) -> Mapping[Task, int] | Rejection:
    """Reported offsets by task; ``known_offsets`` if there is no report."""
    if reported_offsets is None:
        return known_offsets
    offsets: dict[Task, int] = {}
    for task, offset in reported_offsets:
        if task in offsets:
            return _invalid_request(
                f"Task offsets contain a duplicate entry for subtopology {task[0]} and partition "
                f"{task[1]}."
            )
        offsets[task] = offset
    return offsets


def _invalid_request(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_request, reason=reason)
