"""The assignor of streams groups: *sticky*. Pure.

A task stays with its member unless that has more than its share; otherwise it goes to a member with
a copy of its state, or else to the process with the least load. Standbys go to other processes.

Counterpart in Kafka: StickyTaskAssignor, ProcessState.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

import msgspec

from txnsim.group.streams._java_order import JavaQueue, java_order, java_order_of_computed
from txnsim.group.streams.tasks import Task, Tasks

STICKY: Final = "sticky"
_TASKS_AT_ONCE: Final = 1_000


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A member as the assignor sees it."""

    process_id: str
    """Id of its process; members of one process share its state."""
    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    offsets: Mapping[Task, int] = {}
    """Sums of changelog offsets that it has reported, by task."""


class AssignedSubtopology(msgspec.Struct, frozen=True, kw_only=True):
    """A subtopology as the assignor sees it."""

    task_count: int
    is_stateful: bool


class _Member(msgspec.Struct, frozen=True):
    process_id: str
    member_id: str


class _Process:
    """A process, its members, and their tasks so far."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Member -> number of its tasks."""
        self.tasks: set[Task] = set()
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self._given_count = 0
        self._by_load: JavaQueue[str] | None = None

    @property
    def load(self) -> float:
        """Number of tasks per member."""
        return self._given_count / len(self.counts)

    def join(self, member_id: str) -> None:
        """Add a member to the process."""
        self.counts[member_id] = 0
        self.active[member_id] = set()
        self.standby[member_id] = set()

    def give_task(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Assign a task to a member; returns its number of tasks."""
        self._by_load = None
        return self._give_task(member_id, task, is_active=is_active)

    def give_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Assign a task to the least loaded member."""
        if self._by_load is None:
            self._by_load = JavaQueue(java_order(self.counts), self.counts.__getitem__)
        member_id = self._by_load.poll()
        count = self._give_task(member_id, task, is_active=is_active)
        self._by_load.add(member_id)
        return count

    def _give_task(self, member_id: str, task: Task, *, is_active: bool) -> int:
        self._given_count += 1
        self.tasks.add(task)
        (self.active if is_active else self.standby)[member_id].add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]


class _TaskQuota:
    """The quota of tasks per member; full members are removed, and the quota is computed again."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count, self._member_count = task_count, member_count
        self.quota = _ceiling(task_count, member_count)

    def note_count(self, task_count: int) -> None:
        """Note that a member has ``task_count`` tasks now."""
        if task_count == self.quota:
            self._member_count -= 1
            self._task_count -= task_count
            self.quota = _ceiling(self._task_count, self._member_count)


def _ceiling(task_count: int, member_count: int) -> int:
    return -(-task_count // member_count) if member_count else 0


def assign_sticky(
    member_by_id: Mapping[str, Candidate],
    subtopologies: Mapping[str, AssignedSubtopology],
    *,
    standby_count: int,
) -> Generator[int, None, dict[str, Tasks]]:
    """Assign tasks to members; yields after each task.

    Args:
        member_by_id: The members by id.
        subtopologies: Subtopologies by id, sorted.
        standby_count: Number of copies of each stateful task.
    """
    return (yield from _Assignment(member_by_id, subtopologies, standby_count).assign_all())


class _Assignment:
    def __init__(
        self,
        member_by_id: Mapping[str, Candidate],
        subtopologies: Mapping[str, AssignedSubtopology],
        standby_count: int,
    ) -> None:
        self._members, self._subtopologies, self._standby_count = (
            member_by_id,
            subtopologies,
            standby_count,
        )
        active_count = sum(subtopology.task_count for subtopology in subtopologies.values())
        copy_count = sum(
            subtopology.task_count * standby_count
            for subtopology in subtopologies.values()
            if subtopology.is_stateful
        )
        self._active_quota = _TaskQuota(active_count, len(member_by_id))
        self._total_quota = _TaskQuota(active_count + copy_count, len(member_by_id))
        self._processes: dict[str, _Process] = {}
        self._active_before: dict[Task, _Member] = {}
        self._standby_before: dict[Task, list[_Member]] = {}
        self._process_order: list[str] = []

    def assign_all(self) -> Generator[int, None, dict[str, Tasks]]:
        """Assign active tasks, then standbys."""
        yield from self._read_members()
        yield from self._assign_active()
        if self._standby_count > 0:
            yield from self._assign_standbys()
        tasks_by_member: dict[str, Tasks] = {}
        for process in self._processes.values():
            for member_id, count in process.counts.items():
                tasks_by_member[member_id] = Tasks(
                    active=frozenset(process.active[member_id]),
                    standby=frozenset(process.standby[member_id]),
                )
                yield 1 + count
        return tasks_by_member

    def _read_members(self) -> Iterator[int]:
        """Read the members: their processes, and the previous tasks."""
        ranked_by_task: dict[Task, list[tuple[bool, int, _Member]]] = {}
        ordered_ids = java_order(self._members)
        yield len(ordered_ids)
        for member_id in ordered_ids:
            candidate = self._members[member_id]
            member = _Member(candidate.process_id, member_id)
            self._processes.setdefault(member.process_id, _Process()).join(member_id)
            self._active_before |= dict.fromkeys(candidate.active, member)
            for task in candidate.standby:
                offset = candidate.offsets.get(task, 0)
                ranked_by_task.setdefault(task, []).append((False, -offset, member))
            for task, offset in candidate.offsets.items():
                if task not in candidate.standby:
                    ranked_by_task.setdefault(task, []).append((True, -offset, member))
            yield 1 + len(candidate.standby) + len(candidate.offsets)
        for task, ranked_members in ranked_by_task.items():
            ranked_members.sort(key=lambda ranked_member: ranked_member[:2])
            self._standby_before[task] = [member for _, _, member in ranked_members]
            yield 1
        processes = (self._members[member_id].process_id for member_id in ordered_ids)
        self._process_order = java_order_of_computed(processes, capacity=len(ordered_ids))
        yield len(ordered_ids)

    # Active tasks

    def _assign_active(self) -> Iterator[int]:
        tasks = yield from self._sorted_tasks(is_stateful=False)
        unassigned_tasks = yield from self._tasks_to_move(tasks, self._active_before.get)
        unassigned_tasks = yield from self._tasks_to_move(unassigned_tasks, self._least_loaded)
        queue = self._process_queue()
        for task in sorted(unassigned_tasks):
            process = queue.poll()
            self._note_count(process.give_to_least_loaded(task, is_active=True))
            queue.add(process)
            yield 1

    def _tasks_to_move(
        self, tasks: Sequence[Task], holder_of: Callable[[Task], _Member | None]
    ) -> Generator[int, None, list[Task]]:
        """Leave tasks with their holders; returns those that have to move."""
        unassigned_tasks = []
        for task in tasks:
            if not self._keep_task(task, holder_of(task)):
                unassigned_tasks.append(task)
            yield 1
        return unassigned_tasks

    def _keep_task(self, task: Task, member: _Member | None) -> bool:
        """Assign a task to its previous holder, within the quota."""
        if member is None:
            return False
        process = self._processes[member.process_id]
        if process.counts[member.member_id] >= self._active_quota.quota:
            return False
        self._note_count(process.give_task(member.member_id, task, is_active=True))
        return True

    def _note_count(self, count: int) -> None:
        self._active_quota.note_count(count)
        self._total_quota.note_count(count)

    # Standbys

    def _assign_standbys(self) -> Iterator[int]:
        tasks = yield from self._sorted_tasks(is_stateful=True)
        tasks.reverse()
        unassigned_standbys = []
        for task in tasks:
            if copy_count := self._place_copies(task):
                unassigned_standbys.append((task, copy_count))
            yield 1
        queue = self._process_queue()
        for task, copy_count in sorted(unassigned_standbys, reverse=True):
            for _ in range(copy_count):
                is_placed = self._place_standby(queue, task)
                yield 1
                if not is_placed:
                    break

    def _place_copies(self, task: Task) -> int:
        """Leave copies of a task where its state is; returns how many remain to be placed."""
        for placed_count in range(self._standby_count):
            member = self._active_before.get(task)
            if member is None or not self._may_copy(member, task):
                member = self._least_loaded(task, is_for_copy=True)
                if member is None or not self._has_room(member):
                    return self._standby_count - placed_count
            process = self._processes[member.process_id]
            self._total_quota.note_count(process.give_task(member.member_id, task, is_active=False))
        return 0

    def _may_copy(self, member: _Member, task: Task) -> bool:
        has_task = task in self._processes[member.process_id].tasks
        return not has_task and self._has_room(member)

    def _has_room(self, member: _Member) -> bool:
        return self._processes[member.process_id].counts[member.member_id] < self._total_quota.quota

    def _place_standby(self, queue: JavaQueue[_Process], task: Task) -> bool:
        """Assign a standby to the least loaded process without the task."""
        polled_processes: list[_Process] = []
        is_assigned = False
        while len(queue) and not is_assigned:
            process = queue.poll()
            polled_processes.append(process)
            if task not in process.tasks:
                self._total_quota.note_count(process.give_to_least_loaded(task, is_active=False))
                is_assigned = True
        for process in reversed(polled_processes):
            queue.add(process)
        return is_assigned

    # Parts

    def _sorted_tasks(self, *, is_stateful: bool) -> Generator[int, None, list[Task]]:
        """The tasks, sorted by partition, then by subtopology."""
        tasks: list[Task] = []
        for subtopology_id, subtopology in self._subtopologies.items():
            if subtopology.is_stateful or not is_stateful:
                for first_index in range(0, subtopology.task_count, _TASKS_AT_ONCE):
                    indexes = range(
                        first_index, min(first_index + _TASKS_AT_ONCE, subtopology.task_count)
                    )
                    tasks += [(subtopology_id, index) for index in indexes]
                    yield len(indexes)
        tasks.sort(key=itemgetter(1))  # stable, and subtopologies come sorted
        yield len(tasks)
        return tasks

    def _process_queue(self) -> JavaQueue[_Process]:
        return JavaQueue(
            [self._processes[process_id] for process_id in self._process_order],
            lambda process: process.load,
        )

    def _least_loaded(self, task: Task, *, is_for_copy: bool = False) -> _Member | None:
        """The least loaded previous holder; with ``is_for_copy`` only in a process that does not
        have the task.
        """
        least_loaded_member: _Member | None = None
        least_loads: Sequence[float] = ()
        for member in self._standby_before.get(task, ()):
            process = self._processes[member.process_id]
            if is_for_copy and task in process.tasks:
                continue
            loads = (process.load, process.counts[member.member_id])
            if least_loaded_member is None or (
                loads[0] < least_loads[0] and loads[1] < least_loads[1]
            ):
                least_loaded_member, least_loads = member, loads
        return least_loaded_member
