"""One step of a member towards its target."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.streams_groups import tasks
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.streams._reconciliation import TaskHolders, TaskTarget, holders_of, reconcile
from txnsim.group.streams.group import StreamsGroupMember
from txnsim.group.streams.tasks import MemberTasks, StreamsMemberState, Tasks


def held_tasks(active: dict[str, int] | None = None, **copies: Any) -> MemberTasks:
    """The tasks that a member holds: active tasks with their epochs, standbys and warm-ups."""
    return MemberTasks(
        active={next(iter(tasks(name))): epoch for name, epoch in (active or {}).items()},
        **{kind: tasks(*names) for kind, names in copies.items()},
    )


def member(epoch: int = 5, *, process: str = "p", **member_fields: Any) -> StreamsGroupMember:
    return StreamsGroupMember(
        member_id="m", member_epoch=epoch, process_id=process, **member_fields
    )


def goal(
    target_tasks: Tasks,
    *other_members: StreamsGroupMember,
    epoch: int = 6,
    owned_tasks: Tasks | None = None,
) -> TaskTarget:
    return TaskTarget(
        assignment_epoch=epoch,
        tasks=target_tasks,
        owned_tasks=owned_tasks,
        holders=holders_of(other_members),
    )


def as_up_to_4_3(task_target: TaskTarget) -> TaskTarget:
    """Return the target as releases up to 4.3 treat it: no change in place."""
    return msgspec.structs.replace(task_target, changes_in_place=False)


def step(member: StreamsGroupMember, task_target: TaskTarget) -> StreamsGroupMember:
    """Reconcile a member with its target; no rejection may come."""
    stepped_member = reconcile(member, task_target)
    assert isinstance(stepped_member, StreamsGroupMember)
    return stepped_member


def test_a_member_at_its_target_stays() -> None:
    stable_member = member(6)
    assert step(stable_member, goal(Tasks(active=tasks("0_0")))) is stable_member


def test_free_tasks_are_taken_at_once() -> None:
    stepped_member = step(member(), goal(Tasks(active=tasks("0_0"), standby=tasks("0_1"))))
    assert (
        stepped_member.state,
        stepped_member.member_epoch,
        stepped_member.previous_member_epoch,
    ) == (
        StreamsMemberState.STABLE,
        6,
        5,
    )
    assert stepped_member.assigned == held_tasks({"0_0": 6}, standby=("0_1",))


def test_lost_tasks_are_given_up_first() -> None:
    old_member = member(assigned=held_tasks({"0_0": 2, "0_1": 3}))
    new_target = goal(Tasks(active=tasks("0_0", "0_2")))
    revoking_member = step(old_member, new_target)
    assert (revoking_member.state, revoking_member.member_epoch) == (
        StreamsMemberState.UNREVOKED_TASKS,
        5,
    )
    assert revoking_member.assigned == held_tasks({"0_0": 2})
    assert revoking_member.pending_revocation == held_tasks({"0_1": 3})
    assert step(revoking_member, new_target) is revoking_member, "it has said nothing"
    unchanged_target = goal(new_target.tasks, owned_tasks=Tasks(active=tasks("0_0", "0_1")))
    assert step(revoking_member, unchanged_target) is revoking_member
    stepped_member = step(
        revoking_member, goal(new_target.tasks, owned_tasks=Tasks(active=tasks("0_0")))
    )
    assert (stepped_member.state, stepped_member.member_epoch) == (StreamsMemberState.STABLE, 6)
    assert stepped_member.assigned == held_tasks({"0_0": 2, "0_2": 6})
    assert stepped_member.pending_revocation.is_empty


def test_a_revoking_member_that_loses_more_moves_on_by_one() -> None:
    old_member = member(
        state=StreamsMemberState.UNREVOKED_TASKS,
        assigned=held_tasks({"0_0": 2}),
        pending_revocation=held_tasks({"0_1": 3}),
    )
    stepped_member = step(
        old_member, goal(Tasks(), epoch=9, owned_tasks=Tasks(active=tasks("0_0")))
    )
    assert (stepped_member.state, stepped_member.member_epoch) == (
        StreamsMemberState.UNREVOKED_TASKS,
        6,
    )
    assert stepped_member.pending_revocation == held_tasks({"0_0": 2})


def test_what_the_member_no_longer_reports_is_given_up_already() -> None:
    old_member = member(assigned=held_tasks({"0_0": 2}))
    stepped_member = step(old_member, goal(Tasks(active=tasks("0_1")), owned_tasks=Tasks()))
    assert (stepped_member.state, stepped_member.assigned) == (
        StreamsMemberState.STABLE,
        held_tasks({"0_1": 6}),
    )


def test_a_task_of_another_member_is_waited_for() -> None:
    other_member = member(process="q", assigned=held_tasks({"0_0": 2}))
    target_tasks = Tasks(active=tasks("0_0", "0_1"))
    waiting_member = step(member(), goal(target_tasks, other_member))
    assert (waiting_member.state, waiting_member.member_epoch) == (
        StreamsMemberState.UNRELEASED_TASKS,
        6,
    )
    assert waiting_member.assigned == held_tasks({"0_1": 6})
    assert step(waiting_member, goal(target_tasks)).assigned == held_tasks({"0_1": 6, "0_0": 6})
    revoking_member = member(process="q", pending_revocation=held_tasks({"0_0": 2}))
    assert (
        step(waiting_member, goal(target_tasks, revoking_member)).state
        is StreamsMemberState.UNRELEASED_TASKS
    )


COPIES = {
    "active where another thread has a standby": (
        Tasks(active=tasks("0_0")),
        held_tasks(standby=("0_0",)),
    ),
    "active where another thread warms up": (
        Tasks(active=tasks("0_0")),
        held_tasks(warmup=("0_0",)),
    ),
    "standby where another thread runs it": (Tasks(standby=tasks("0_0")), held_tasks({"0_0": 1})),
    "standby where another thread has one": (
        Tasks(standby=tasks("0_0")),
        held_tasks(standby=("0_0",)),
    ),
    "standby where another thread warms up": (
        Tasks(standby=tasks("0_0")),
        held_tasks(warmup=("0_0",)),
    ),
    "warm-up where another thread runs it": (Tasks(warmup=tasks("0_0")), held_tasks({"0_0": 1})),
    "warm-up where another thread has a standby": (
        Tasks(warmup=tasks("0_0")),
        held_tasks(standby=("0_0",)),
    ),
    "warm-up where another thread warms up": (
        Tasks(warmup=tasks("0_0")),
        held_tasks(warmup=("0_0",)),
    ),
}


@pytest.mark.parametrize("copy_name", COPIES)
def test_threads_of_a_process_don_t_share_a_directory(copy_name: str) -> None:
    target_tasks, other_tasks = COPIES[copy_name]
    member_of_same_process = step(member(), goal(target_tasks, member(assigned=other_tasks)))
    assert (member_of_same_process.state, member_of_same_process.assigned.is_empty) == (
        StreamsMemberState.UNRELEASED_TASKS,
        True,
    )
    stepped_member = step(member(), goal(target_tasks, member(process="q", assigned=other_tasks)))
    is_free = not (target_tasks.active and other_tasks.active)
    assert (stepped_member.state is StreamsMemberState.STABLE) == is_free


def test_copies_change_their_role_at_once() -> None:
    owned_tasks = held_tasks({"0_0": 2}, standby=("0_1",), warmup=("0_2",))
    old_member = member(assigned=owned_tasks)
    target_tasks = Tasks(standby=tasks("0_0", "0_2"), warmup=tasks("0_1"))
    stepped_member = step(old_member, goal(target_tasks, old_member))
    assert stepped_member.state is StreamsMemberState.UNREVOKED_TASKS
    assert stepped_member.pending_revocation == held_tasks({"0_0": 2}), "of the task that it ran"
    assert stepped_member.assigned == held_tasks(standby=("0_0", "0_2"), warmup=("0_1",))


def test_a_copy_that_is_to_run_stays_until_it_may() -> None:
    old_member = member(assigned=held_tasks(standby=("0_0",), warmup=("0_1",)))
    target_tasks = Tasks(active=tasks("0_0", "0_1"))
    other_member = member(process="q", assigned=held_tasks({"0_0": 1, "0_1": 1}))
    waiting_member = step(old_member, goal(target_tasks, old_member, other_member))
    assert (waiting_member.state, waiting_member.assigned) == (
        StreamsMemberState.UNRELEASED_TASKS,
        held_tasks(standby=("0_0",), warmup=("0_1",)),
    )
    assert step(waiting_member, goal(target_tasks, waiting_member)).assigned == held_tasks(
        {"0_0": 6, "0_1": 6}
    )


def test_a_copy_that_is_to_run_waits_for_what_is_given_up() -> None:
    old_member = member(assigned=held_tasks({"0_5": 1}, standby=("0_0",)))
    target_tasks = Tasks(active=tasks("0_0"))
    revoking_member = step(old_member, goal(target_tasks, old_member))
    assert revoking_member.state is StreamsMemberState.UNREVOKED_TASKS
    assert revoking_member.assigned == held_tasks(standby=("0_0",))
    owned_tasks = Tasks(standby=tasks("0_0"))
    assert step(
        revoking_member, goal(target_tasks, revoking_member, owned_tasks=owned_tasks)
    ).assigned == held_tasks({"0_0": 6})


@pytest.mark.parametrize(
    ("owned_tasks", "target_tasks", "later_tasks"),
    [
        (held_tasks(standby=("0_0",)), Tasks(active=tasks("0_0")), held_tasks({"0_0": 6})),
        (held_tasks(warmup=("0_0",)), Tasks(active=tasks("0_0")), held_tasks({"0_0": 6})),
        (held_tasks({"0_0": 2}), Tasks(standby=tasks("0_0")), held_tasks(standby=("0_0",))),
        (held_tasks(standby=("0_0",)), Tasks(warmup=tasks("0_0")), held_tasks(warmup=("0_0",))),
        (held_tasks(warmup=("0_0",)), Tasks(standby=tasks("0_0")), held_tasks(standby=("0_0",))),
    ],
)
def test_up_to_4_3_a_task_is_given_up_before_it_changes_its_role(
    owned_tasks: MemberTasks, target_tasks: Tasks, later_tasks: MemberTasks
) -> None:
    old_member = member(assigned=owned_tasks)
    revoking_member = step(old_member, as_up_to_4_3(goal(target_tasks, old_member)))
    assert (revoking_member.state, revoking_member.member_epoch) == (
        StreamsMemberState.UNREVOKED_TASKS,
        5,
    )
    assert (revoking_member.assigned.is_empty, revoking_member.pending_revocation) == (
        True,
        owned_tasks,
    )
    # Its process still counts as the holder while it has not said that it has given the task up.
    waiting_member = step(
        revoking_member, as_up_to_4_3(goal(target_tasks, revoking_member, owned_tasks=Tasks()))
    )
    assert (waiting_member.state, waiting_member.member_epoch) == (
        StreamsMemberState.UNRELEASED_TASKS,
        6,
    )
    assert waiting_member.assigned.is_empty
    stepped_member = step(waiting_member, as_up_to_4_3(goal(target_tasks, waiting_member)))
    assert (stepped_member.state, stepped_member.assigned) == (
        StreamsMemberState.STABLE,
        later_tasks,
    )


def test_copies_are_given_up_too() -> None:
    old_member = member(assigned=held_tasks(standby=("0_0",), warmup=("0_1",)))
    stepped_member = step(old_member, goal(Tasks()))
    assert stepped_member.pending_revocation == held_tasks(standby=("0_0",), warmup=("0_1",))
    for owned_tasks in (Tasks(standby=tasks("0_0")), Tasks(warmup=tasks("0_1"))):
        assert step(stepped_member, goal(Tasks(), owned_tasks=owned_tasks)) is stepped_member
    assert (
        step(stepped_member, goal(Tasks(), owned_tasks=Tasks())).state is StreamsMemberState.STABLE
    )


def test_a_state_of_a_later_release_starts_again() -> None:
    old_member = member(state=StreamsMemberState.UNKNOWN, assigned=held_tasks({"0_0": 2}))
    for owned_tasks in (None, Tasks(active=tasks("0_0"))):
        rejection = reconcile(old_member, goal(Tasks(), owned_tasks=owned_tasks))
        assert isinstance(rejection, Rejection)
        assert rejection.error is ErrorCode.fenced_member_epoch
    stepped_member = step(old_member, goal(Tasks(active=tasks("0_0")), owned_tasks=Tasks()))
    assert (stepped_member.state, stepped_member.member_epoch) == (StreamsMemberState.STABLE, 6)


def test_two_processes_may_have_copies_of_one_task() -> None:
    holders = holders_of(
        [
            member(assigned=held_tasks({"0_0": 1}, standby=("0_1",), warmup=("0_2",))),
            member(process="q", assigned=held_tasks(standby=("0_1",))),
        ]
    )
    assert holders == TaskHolders(
        active=dict.fromkeys(tasks("0_0"), "p"),
        standby=dict.fromkeys(tasks("0_1"), frozenset({"p", "q"})),
        warmup=dict.fromkeys(tasks("0_2"), frozenset({"p"})),
    )
