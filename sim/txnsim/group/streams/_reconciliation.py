"""One step of a member towards its target assignment. Pure.

A member first revokes the tasks that it loses, and reports that; only then does its epoch advance.
It gets a task once no other member runs it, and no other member of its process has a copy of it,
because both would use the same directory. A copy that becomes the active task stays until the
active task is granted.

Counterpart in Kafka: CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.streams.group import StreamsGroupMember
from txnsim.group.streams.tasks import NOTHING_HELD, MemberTasks, StreamsMemberState, Task, Tasks


class TaskHolders(msgspec.Struct, frozen=True, kw_only=True):
    """Task -> processes that have it, including pending revocations."""

    active: Mapping[Task, str] = {}
    standby: Mapping[Task, frozenset[str]] = {}
    warmup: Mapping[Task, frozenset[str]] = {}


def holders_of(members: Iterable[StreamsGroupMember]) -> TaskHolders:
    """The processes of each task, from the members' tasks."""
    holder_by_active_task: dict[Task, str] = {}
    processes_by_standby_task: dict[Task, frozenset[str]] = {}
    processes_by_warmup_task: dict[Task, frozenset[str]] = {}
    for member in members:
        process_id = member.process_id
        for held_tasks in (member.assigned, member.pending_revocation):
            if held_tasks.active:
                holder_by_active_task |= dict.fromkeys(held_tasks.active, process_id)
            for task in held_tasks.standby:
                processes_by_standby_task[task] = processes_by_standby_task.get(
                    task, frozenset()
                ) | {process_id}
            for task in held_tasks.warmup:
                processes_by_warmup_task[task] = processes_by_warmup_task.get(task, frozenset()) | {
                    process_id
                }
    return TaskHolders(
        active=holder_by_active_task,
        standby=processes_by_standby_task,
        warmup=processes_by_warmup_task,
    )


class TaskTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A member's target, and the state that limits its next step."""

    assignment_epoch: int
    tasks: Tasks
    owned_tasks: Tasks | None
    """The tasks that the member reports; None means unchanged."""
    holders: TaskHolders
    changes_in_place: bool = True
    """Whether a task can change its role in place, without being revoked first."""

    def still_has(self, revoked_tasks: MemberTasks) -> bool:
        """Whether the member still reports revoked tasks."""
        return self.owned_tasks is None or self.owned_tasks.has_some_of(revoked_tasks)


def reconcile(
    member: StreamsGroupMember, task_target: TaskTarget
) -> StreamsGroupMember | Rejection:
    """The member after one step.

    Returns:
        The member, unchanged if there is nothing to do; FENCED_MEMBER_EPOCH if its state is of a
            later release, so that it must start over.
    """
    match member.state:
        case StreamsMemberState.STABLE:
            if member.member_epoch == task_target.assignment_epoch:
                return member
            return _ReconciliationStep(member, task_target).member_after(member.member_epoch)
        case StreamsMemberState.UNREVOKED_TASKS:
            if task_target.still_has(member.pending_revocation):
                return member
            return _ReconciliationStep(member, task_target).member_after(member.member_epoch + 1)
        case StreamsMemberState.UNRELEASED_TASKS:
            return _ReconciliationStep(member, task_target).member_after(member.member_epoch)
        case StreamsMemberState.UNKNOWN:
            if task_target.owned_tasks is not None and task_target.owned_tasks.is_empty:
                return _ReconciliationStep(member, task_target).member_after(
                    task_target.assignment_epoch
                )
            return Rejection(
                error=ErrorCode.fenced_member_epoch,
                reason="The streams group member is in a unknown state. The member must abandon "
                "all its tasks and rejoin.",
            )
        case _:
            assert_never(member.state)


class _TaskMoves:
    """The tasks of one kind (active, standby, warm-up) that a member keeps, loses or newly gets."""

    def __init__(
        self,
        assigned_tasks: Iterable[Task],
        target_tasks: frozenset[Task],
        is_taken: Callable[[Task], bool],
    ) -> None:
        assigned_tasks = frozenset(assigned_tasks)
        missing_tasks = target_tasks - assigned_tasks
        self.kept_tasks = set(assigned_tasks & target_tasks)
        self.lost_tasks = set(assigned_tasks - target_tasks)
        self.got_tasks = {task for task in missing_tasks if not is_taken(task)}
        self.waits = len(self.got_tasks) < len(missing_tasks)

    def grant(self, task: Task) -> bool:
        """Grant a task if nothing has to be waited for; False if it is not granted."""
        if task not in self.got_tasks:
            return False
        self.got_tasks.remove(task)
        self.kept_tasks.add(task)
        return True


class _ReconciliationStep:
    """One step towards the target: the tasks of each kind that are gained and lost."""

    def __init__(self, member: StreamsGroupMember, task_target: TaskTarget) -> None:
        self._member, self._goal_tasks = member, task_target
        assigned_tasks, tasks = member.assigned, task_target.tasks
        self._changing_tasks = assigned_tasks if task_target.changes_in_place else NOTHING_HELD
        """Tasks that may change their role without being revoked."""
        self._active_moves = _TaskMoves(assigned_tasks.active, tasks.active, self._is_active_taken)
        self._standby_moves = _TaskMoves(
            assigned_tasks.standby, tasks.standby, self._is_standby_taken
        )
        self._warmup_moves = _TaskMoves(assigned_tasks.warmup, tasks.warmup, self._is_warmup_taken)

    # Who stands in the way

    def _is_active_taken(self, task: Task) -> bool:
        return (
            task in self._goal_tasks.holders.active
            or self._has_other_copy(
                self._goal_tasks.holders.standby, self._changing_tasks.standby, task
            )
            or self._has_other_copy(
                self._goal_tasks.holders.warmup, self._changing_tasks.warmup, task
            )
        )

    def _is_standby_taken(self, task: Task) -> bool:
        return (
            (self._runs_here(task) and task not in self._changing_tasks.active)
            or self._has_copy(self._goal_tasks.holders.standby, task)
            or self._has_other_copy(
                self._goal_tasks.holders.warmup, self._changing_tasks.warmup, task
            )
        )

    def _is_warmup_taken(self, task: Task) -> bool:
        return (
            self._runs_here(task)
            or self._has_other_copy(
                self._goal_tasks.holders.standby, self._changing_tasks.standby, task
            )
            or self._has_copy(self._goal_tasks.holders.warmup, task)
        )

    def _runs_here(self, task: Task) -> bool:
        """Whether the member's process runs the task."""
        return self._goal_tasks.holders.active.get(task) == self._member.process_id

    def _has_copy(self, process_ids_by_task: Mapping[Task, frozenset[str]], task: Task) -> bool:
        """Whether the member's process has a copy of the task."""
        return self._member.process_id in process_ids_by_task.get(task, ())

    def _has_other_copy(
        self,
        process_ids_by_task: Mapping[Task, frozenset[str]],
        member_tasks: frozenset[Task],
        task: Task,
    ) -> bool:
        """Whether another thread of its process holds a copy."""
        return self._has_copy(process_ids_by_task, task) and task not in member_tasks

    # The step

    def member_after(self, member_epoch: int) -> StreamsGroupMember:
        """The member after the step.

        Args:
            member_epoch: Its epoch if it has to revoke tasks first.
        """
        assigned_tasks, task_target, changing_tasks = (
            self._member.assigned,
            self._goal_tasks,
            self._changing_tasks,
        )
        active_moves, standby_moves, warmup_moves = (
            self._active_moves,
            self._standby_moves,
            self._warmup_moves,
        )
        for task in changing_tasks.active:
            standby_moves.grant(task)  # who ran it has its state
        for task in changing_tasks.standby:
            if warmup_moves.grant(task):
                standby_moves.lost_tasks.discard(task)
        for task in changing_tasks.warmup:
            if standby_moves.grant(task):
                warmup_moves.lost_tasks.discard(task)
        # A copy that is to run is not given up.
        copies_to_run = changing_tasks.standby & task_target.tasks.active
        warm_to_run = changing_tasks.warmup & task_target.tasks.active
        standby_moves.lost_tasks -= copies_to_run
        warmup_moves.lost_tasks -= warm_to_run
        lost_tasks = MemberTasks(
            active={task: assigned_tasks.active[task] for task in sorted(active_moves.lost_tasks)},
            standby=frozenset(standby_moves.lost_tasks),
            warmup=frozenset(warmup_moves.lost_tasks),
        )
        must_revoke = not lost_tasks.is_empty and task_target.still_has(lost_tasks)
        started_tasks = frozenset() if must_revoke else frozenset(active_moves.got_tasks)
        standby_moves.kept_tasks |= copies_to_run - started_tasks
        warmup_moves.kept_tasks |= warm_to_run - started_tasks
        kept_tasks = MemberTasks(
            active={task: assigned_tasks.active[task] for task in sorted(active_moves.kept_tasks)},
            standby=frozenset(standby_moves.kept_tasks),
            warmup=frozenset(warmup_moves.kept_tasks),
        )
        if must_revoke:
            return self._member_in(
                StreamsMemberState.UNREVOKED_TASKS, member_epoch, kept_tasks, lost_tasks
            )
        new_active = dict.fromkeys(sorted(active_moves.got_tasks), task_target.assignment_epoch)
        tasks_after = MemberTasks(
            active={**kept_tasks.active, **new_active},
            standby=kept_tasks.standby | standby_moves.got_tasks,
            warmup=kept_tasks.warmup | warmup_moves.got_tasks,
        )
        waits_for_tasks = active_moves.waits or standby_moves.waits or warmup_moves.waits
        member_state = (
            StreamsMemberState.UNRELEASED_TASKS if waits_for_tasks else StreamsMemberState.STABLE
        )
        return self._member_in(
            member_state, task_target.assignment_epoch, tasks_after, NOTHING_HELD
        )

    def _member_in(
        self,
        state: StreamsMemberState,
        member_epoch: int,
        tasks: MemberTasks,
        revoked_tasks: MemberTasks,
    ) -> StreamsGroupMember:
        return msgspec.structs.replace(
            self._member,
            state=state,
            previous_member_epoch=self._member.member_epoch,
            member_epoch=member_epoch,
            assigned=tasks,
            pending_revocation=revoked_tasks,
        )
