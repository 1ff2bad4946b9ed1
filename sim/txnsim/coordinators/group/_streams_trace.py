"""Trace events about members of streams groups.

Each event has the member's complete state, so that a reader can just take it over. A coordinator
that has loaded its log traces every member, and one that unloads traces that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from txnsim.coordinators._ownership import Ownership
from txnsim.group.shard import GroupShard
from txnsim.group.streams.group import StreamsGroup, StreamsGroupMember
from txnsim.group.streams.tasks import MemberTasks, Task
from txnsim.runtime.trace import Tracer

TOLD_MAX: Final = 100
"""Number of tasks of a kind that an event lists."""
Data = dict[str, object]
MembersById = Mapping[str, StreamsGroupMember]
"""The members of a group, by id."""


class StreamsTrace(msgspec.Struct, eq=False):
    """Traces the streams groups of one broker."""

    tracer: Tracer
    ownership: Ownership[GroupShard]

    def members_of(self, shard: GroupShard, group_id: str) -> MembersById:
        """The group's current members, for ``trace_changes``; empty while the trace is off."""
        return dict(_streams_members(shard, group_id)) if self.tracer.on else {}

    def trace_changes(self, shard: GroupShard, group_id: str, members_before: MembersById) -> None:
        """Trace members whose state has changed."""
        if not self.tracer.on:
            return
        members_now = _streams_members(shard, group_id)
        for member_id, member in members_now.items():
            member_before = members_before.get(member_id)
            if member_before is None or _traced_state(member_before) != _traced_state(member):
                self._emit("streams.member", shard, _member_data(group_id, member))
        for member_id in sorted(members_before.keys() - members_now.keys()):
            self._emit("streams.left", shard, {"group": group_id, "member": member_id})

    def trace_load(self, shard: GroupShard, group_id: str) -> None:
        """Trace the members of a group that this coordinator has loaded."""
        self.trace_changes(shard, group_id, {})

    def trace_unload(self, shard: GroupShard) -> None:
        """Trace that the coordinator has unloaded a partition."""
        if self.tracer.on:
            for group in shard.groups.values():
                if isinstance(group, StreamsGroup):
                    self._emit("streams.unload", shard, {"group": group.group_id})

    def members(self) -> Iterator[Data]:
        """The current state of every member, for a reader that starts in the middle of the
        trace.
        """
        for shard in self.ownership:
            node = self.ownership.node_of(shard.partition)
            for group_id in tuple(shard.groups):
                for member in tuple(_streams_members(shard, group_id).values()):
                    yield {"node": node, **_member_data(group_id, member)}

    def _emit(self, kind: str, shard: GroupShard, event_data: Data) -> None:
        self.tracer.emit(kind, self.ownership.node_of(shard.partition), data=event_data)


def _streams_members(shard: GroupShard, group_id: str) -> MembersById:
    """The members of a streams group; empty for a group of another type."""
    group = shard.groups.get(group_id)
    return group.members if isinstance(group, StreamsGroup) else {}


def _traced_state(member: StreamsGroupMember) -> tuple[object, ...]:
    return member.member_epoch, member.state, member.assigned, member.pending_revocation


def _member_data(group_id: str, member: StreamsGroupMember) -> Data:
    return {
        "group": group_id,
        "member": member.member_id,
        "epoch": member.member_epoch,
        "state": member.state.name.lower(),
        "process": member.process_id,
        **_task_names_by_kind(member.assigned),
        "revoked": [
            task_id
            for tasks in _task_names_by_kind(member.pending_revocation).values()
            for task_id in tasks
        ],
    }


def _task_names_by_kind(held_tasks: MemberTasks) -> dict[str, list[str]]:
    tasks_by_kind = {
        "active": held_tasks.active,
        "standby": held_tasks.standby,
        "warmup": held_tasks.warmup,
    }
    return {task_kind: _task_names(tasks) for task_kind, tasks in tasks_by_kind.items()}


def _task_names(tasks: Iterable[Task]) -> list[str]:
    return [
        f"{subtopology}_{partition}" for subtopology, partition in islice(sorted(tasks), TOLD_MAX)
    ]
