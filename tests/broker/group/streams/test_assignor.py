"""The sticky assignor. What only Kafka can say was asked of a real 4.4.0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.streams_groups import tasks
from txnsim.group.streams.assignor import AssignedSubtopology, Candidate, assign_sticky
from txnsim.group.streams.tasks import Task, Tasks
from txnsim.wire.codec import run_to_end

STATELESS = {"0": AssignedSubtopology(task_count=4, is_stateful=False)}
STATEFUL = {"0": AssignedSubtopology(task_count=4, is_stateful=True)}


def member(process: str, active: str = "", standby: str = "", **offsets: int) -> Candidate:
    """A member with tasks of subtopology 0, by their numbers: ``"01"``."""
    return Candidate(
        process_id=process,
        active=tasks(*(f"0_{index}" for index in active)),
        standby=tasks(*(f"0_{index}" for index in standby)),
        offsets={("0", int(offset_name[1:])): offset for offset_name, offset in offsets.items()},
    )


def tasks_as_text(tasks_by_member: dict[str, Tasks]) -> dict[str, str]:
    """Member -> its active tasks, and its standbys behind a bar."""

    def numbers(tasks: frozenset[Task]) -> str:
        return "".join(str(index) for _, index in sorted(tasks))

    return {
        name: numbers(tasks.active) + (f"|{numbers(tasks.standby)}" if tasks.standby else "")
        for name, tasks in sorted(tasks_by_member.items())
    }


@pytest.mark.parametrize(
    ("members", "subtopologies", "standby_count", "expected"),
    [
        ({"a": member("p")}, STATELESS, 0, {"a": "0123"}),
        ({"a": member("p"), "b": member("q")}, STATELESS, 0, {"a": "02", "b": "13"}),
        ({"a": member("p", "0123"), "b": member("q")}, STATELESS, 0, {"a": "01", "b": "23"}),
        ({"a": member("p", "0123"), "b": member("p")}, STATELESS, 0, {"a": "01", "b": "23"}),
        ({"a": member("p"), "b": member("q", "", "12")}, STATEFUL, 0, {"a": "03", "b": "12"}),
        ({"a": member("p"), "b": member("q", p3=9)}, STATEFUL, 0, {"a": "02", "b": "13"}),
        ({"a": member("p")}, STATEFUL, 1, {"a": "0123"}),
        ({"a": member("p"), "b": member("q")}, STATELESS, 1, {"a": "02", "b": "13"}),
        (
            {"a": member("p", "01", "23"), "b": member("q", "23", "01")},
            STATEFUL,
            1,
            {"a": "01|23", "b": "23|01"},
        ),
        (
            {"a": member("p", "0123"), "b": member("q")},
            STATEFUL,
            1,
            {"a": "01|23", "b": "23|01"},
        ),
    ],
)
def test_who_gets_what(
    members: dict[str, Candidate],
    subtopologies: dict[str, AssignedSubtopology],
    standby_count: int,
    expected: dict[str, str],
) -> None:
    assert (
        tasks_as_text(
            run_to_end(assign_sticky(members, subtopologies, standby_count=standby_count))
        )
        == expected
    )


def test_who_has_read_most_becomes_active() -> None:
    members = {"a": member("p", "", "", p0=5), "b": member("q", "", "", p0=9)}
    assignment = run_to_end(
        assign_sticky(
            members, {"0": AssignedSubtopology(task_count=1, is_stateful=True)}, standby_count=0
        )
    )
    assert tasks_as_text(assignment) == {"a": "", "b": "0"}


def test_who_has_a_standby_comes_before_who_has_read_more() -> None:
    members = {"a": member("p", "", "0", p0=5), "b": member("q", "", "", p0=9)}
    assignment = run_to_end(
        assign_sticky(
            members, {"0": AssignedSubtopology(task_count=1, is_stateful=True)}, standby_count=1
        )
    )
    assert tasks_as_text(assignment) == {"a": "0", "b": "|0"}


MEMBER_NAMES = [f"m{member_number}" for member_number in range(6)]


def assign_tasks(
    processes: dict[str, str],
    subtopologies: dict[str, AssignedSubtopology],
    standby_count: int,
    tasks_before: dict[str, Tasks],
) -> dict[str, Tasks]:
    """Assign tasks to members that had ``tasks_before``."""
    members = {
        process_name: Candidate(
            process_id=process,
            active=tasks_before.get(process_name, Tasks()).active,
            standby=tasks_before.get(process_name, Tasks()).standby,
        )
        for process_name, process in processes.items()
    }
    return run_to_end(assign_sticky(members, subtopologies, standby_count=standby_count))


@given(
    processes=st.dictionaries(st.sampled_from(MEMBER_NAMES), st.sampled_from("pqr"), min_size=2),
    counts=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=3),
    standby_count=st.integers(0, 2),
)
def test_every_task_runs_once_and_copies_lie_elsewhere(
    processes: dict[str, str], counts: list[tuple[int, bool]], standby_count: int
) -> None:
    parts = {
        str(number): AssignedSubtopology(task_count=count, is_stateful=is_stateful)
        for number, (count, is_stateful) in enumerate(counts)
    }
    every = [
        (name, task_index)
        for name, subtopology in parts.items()
        for task_index in range(subtopology.task_count)
    ]
    first_assignment = assign_tasks(processes, parts, standby_count, {})
    remaining_processes = dict(list(processes.items())[1:])
    assignment = first_assignment
    for present_processes in (processes, remaining_processes, processes):
        assignment = assign_tasks(present_processes, parts, standby_count, assignment)
        assert sorted(task for tasks in assignment.values() for task in tasks.active) == every
        process_by_task = {
            task: present_processes[name]
            for name, tasks in assignment.items()
            for task in tasks.active
        }
        copies = [
            (present_processes[name], task)
            for name, tasks in assignment.items()
            for task in tasks.standby
        ]
        assert len(copies) == len(set(copies)), "a process has one copy at most"
        for process, task in copies:
            assert parts[task[0]].is_stateful
            assert process_by_task[task] != process
    if not standby_count:
        assert assign_tasks(processes, parts, 0, first_assignment) == first_assignment, (
            "what is even stays"
        )
